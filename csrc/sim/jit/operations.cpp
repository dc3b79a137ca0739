// Operations on lanes.
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "sim/jit/translator.hpp"
#include "sim/program/shuffle.hpp"

namespace coalesce::sim::jit {

std::string Translator::condition(const Op& op) {
    if (op.guard == no_operand) return predicate_;
    std::string g = mask_of(guard_);
    if (op.guard_negated) g = e_("xor i32 " + g + ", -1");
    return predicate_.empty() ? g : e_("and i32 " + g + ", " + predicate_);
}

std::string Translator::access_mask(const Op& op) {
    const std::string g = condition(op);
    if (whole_ || g.empty()) return whole_ ? g : mask_;
    return e_("and i32 " + g + ", " + mask_);
}

void Translator::emit_op(uint32_t at) {
    const Op& op = program_.ops[at];
    const Meaning* const m = meaning_of_[at];
    if (op.guard != no_operand) guard_ = read(op.guard, 1);
    if (!m) return emit_call(at);
    switch (m->kind) {
        case Kind::lanes:
            return emit_lanes(at, *m);
        case Kind::compare:
            return emit_compare(op, *m);
        case Kind::special:
            return emit_special(op);
        case Kind::add_constant: {
            Value v = read(op.operand[1], 64);
            if (const auto by = int64_t(op.get<AddedOffset>().by)) {
                e_.wide = v.form == Form::lanes;
                v.bits = e_.binary("add", i64, v.bits, e_.c(by, 64));
                v.id = 0;
            }
            return write(op, op.operand[0], v);
        }
        case Kind::load_parameter:
            return emit_parameter(op);
        case Kind::load:
        case Kind::store:
            return emit_memory(at, *m);
    }
}

// Returns the stride of an operation's result if it is constant. The operands are uniform or
// affine.
std::optional<int64_t> Translator::stride_of_result(const Meaning& m, const std::vector<Value>& a) {
    using Number = std::optional<uint64_t>;
    const auto stride = [&](size_t n) { return uint64_t(a[n].stride); };
    const auto product = [&]() -> Number {
        const Value& factor = a[0].form == Form::uniform ? a[0] : a[1];
        const Value& other = a[0].form == Form::uniform ? a[1] : a[0];
        if (other.form == Form::uniform) return 0;
        const auto n = literal(factor.bits);
        if (factor.form != Form::uniform || !n) return {};
        const bool is_unsigned = m.linear == Linear::unsigned_wide_product;
        return uint64_t(other.stride) * (is_unsigned ? uint32_t(*n) : uint64_t(*n));
    };
    Number found;
    switch (m.linear) {
        case Linear::none:
        case Linear::copy:
            break;
        case Linear::sum:
            found = stride(0) + stride(1);
            break;
        case Linear::difference:
            found = stride(0) - stride(1);
            break;
        case Linear::product:
        case Linear::signed_wide_product:
        case Linear::unsigned_wide_product:
            found = product();
            break;
        case Linear::product_sum:
            if (const Number p = product()) found = *p + stride(2);
            break;
        case Linear::left_shift: {
            const auto by = literal(a[1].bits);
            if (a[1].form == Form::uniform && by && *by >= 0 && *by < m.result.bits)
                found = stride(0) << *by;
            break;
        }
        case Linear::right_shift: {
            const auto by = literal(a[1].bits);
            if (a[0].counts_lanes && a[1].form == Form::uniform && by && *by >= 5) found = 0;
            break;
        }
        case Linear::conjunction: {
            const auto bits = literal(a[1].bits);
            if (!a[0].counts_lanes || a[1].form != Form::uniform || !bits) break;
            if ((*bits & 31) == 31) found = 1;
            if ((*bits & 31) == 0) found = 0;
            break;
        }
        case Linear::signed_wide:
        case Linear::unsigned_wide:
            found = stride(0);
            break;
    }
    if (!found) return {};
    const int64_t s = wrap(*found, m.result.bits);
    constexpr int64_t most = int64_t{1} << 40;  // so that spans of addresses do not overflow
    return s > -most && s < most ? std::optional(s) : std::nullopt;
}

// A signed division of threadIdx.x by a power of two adds some of the bits of its sign, which are
// 0.
std::optional<Value> Translator::folded(const Meaning& m, const std::vector<Value>& a) {
    const auto is_zero = [](const Value& v) { return v.form == Form::uniform && v.bits == "0"; };
    if (m.linear == Linear::sum && is_zero(a[0])) return a[1];
    if (m.linear == Linear::sum && is_zero(a[1])) return a[0];
    if (m.linear != Linear::right_shift) return {};
    const auto by = a[1].form == Form::uniform ? literal(a[1].bits) : std::nullopt;
    if (!is_zero(a[0]) && !(a[0].counts_lanes && by && *by >= 10)) return {};
    return Value{Form::uniform, 0, "0"};
}

void Translator::emit_lanes(uint32_t at, const Meaning& m) {
    const Op& op = program_.ops[at];
    if (op.operand[0] == no_operand) return;
    std::vector<Value> a;
    for (size_t n = 0; n < m.operands.size(); ++n) {
        const Locator l = op.operand[n + 1];
        if (m.linear == Linear::copy)
            return write(op, op.operand[0],
                         l & 1 ? constant(l, m.operands[n].bits) : read_slot(l >> 1));
        a.push_back(operand(l, m.operands[n]));
    }
    if (const std::optional<Value> v = folded(m, a)) return write(op, op.operand[0], *v);
    const bool uniform =
        std::ranges::all_of(a, [](const Value& v) { return v.form == Form::uniform; });
    const bool regular =
        std::ranges::none_of(a, [](const Value& v) { return v.form == Form::lanes; });
    std::optional<int64_t> stride;
    if (regular && !uniform) stride = stride_of_result(m, a);
    const bool is_signed =
        m.linear == Linear::signed_wide || m.linear == Linear::signed_wide_product;
    if (stride && (is_signed || m.linear == Linear::unsigned_wide ||
                   m.linear == Linear::unsigned_wide_product)) {
        // The narrow values must not wrap.
        const Value& v = a[0].form == Form::affine ? a[0] : a[1];
        e_.wide = false;
        const char* const extend = is_signed ? "sext" : "zext";
        const std::string wide = e_.cast(extend, i32, i64, v.bits);
        const std::string last = e_("add i64 " + wide + ", " + num(31 * v.stride));
        const std::string again = e_.cast(extend, i32, i64, e_.cast("trunc", i64, i32, last));
        leave(e_("icmp eq i64 " + last + ", " + again), at, e_.new_label("w"));
    }
    const bool scalar = uniform || stride;
    e_.wide = !scalar;
    std::vector<std::string> texts;
    for (size_t n = 0; n < a.size(); ++n) texts.push_back(as(a[n], m.operands[n], !scalar));
    e_.wide = !scalar;
    Value v;
    v.form = !scalar ? Form::lanes : stride.value_or(0) ? Form::affine : Form::uniform;
    v.stride = stride.value_or(0);
    v.counts_lanes = m.linear == Linear::conjunction && v.stride == 1;
    v.raw = m.result.floating;
    (v.raw ? v.real : v.bits) = m.emit(e_, texts);
    write(op, op.operand[0], v);
}

void Translator::emit_compare(const Op& op, const Meaning& m) {
    using namespace relation;
    const auto& how = op.get<ComparisonOperand>();
    const LaneType t = m.operands[0];
    static const char* const reals[] = {"false", "olt", "oeq", "ole", "ogt", "one", "oge", "ord",
                                        "uno",   "ult", "ueq", "ule", "ugt", "une", "uge", "true"};
    std::string test = reals[how.relations & 15];
    if (!t.floating) {
        // Integers are never unordered. Without a relation, the result is false, or with all true.
        static const std::map<int, const char*> integers{
            {less, "lt"},  {less | equal, "le"},   {greater, "gt"}, {greater | equal, "ge"},
            {equal, "eq"}, {less | greater, "ne"}, {0, ""},         {less | equal | greater, ""}};
        test = integers.at(how.relations & (less | equal | greater));
        if (test.size() == 2 && test != "eq" && test != "ne")
            test = (m.is_signed ? "s" : "u") + test;
    }
    const bool combines = op.operand[4] != no_operand && how.combination != Combination::none;
    const Value a = operand(op.operand[2], t), b = operand(op.operand[3], t);
    const Value with = combines ? read(op.operand[4], 1) : Value{Form::uniform, 0, "1"};
    const bool scalar = a.form == Form::uniform && b.form == Form::uniform;
    const bool wide = !scalar || with.form != Form::uniform;
    e_.wide = !scalar;
    std::string truth;
    if (test.empty()) {
        truth = how.relations & equal ? e_.c(1, 1) : e_.c(0, 1);
    } else {
        const std::string x = as(a, t, !scalar), y = as(b, t, !scalar);
        truth = e_.compare(test.c_str(), t, x, y);
    }
    if (scalar && wide) truth = splat(truth, i1);
    e_.wide = wide;
    std::string other;
    if (combines) {
        other = as(with, i1, wide);
        if (how.negated) other = e_.binary("xor", i1, other, e_.c(1, 1));
    }
    const char* const f = how.combination == Combination::conjunction   ? "and"
                          : how.combination == Combination::disjunction ? "or"
                                                                        : "xor";
    for (const int n : {0, 1}) {
        if (op.operand[n] == no_operand) continue;
        Value v;
        v.form = wide ? Form::lanes : Form::uniform;
        e_.wide = wide;
        v.bits = n ? e_.binary("xor", i1, truth, e_.c(1, 1)) : truth;
        if (combines) v.bits = e_.binary(f, i1, v.bits, other);
        write(op, op.operand[n], v);
    }
}

void Translator::emit_special(const Op& op) {
    const Special which = op.get<SpecialRegister>().which;
    Value v;
    const auto thread = [&](int axis, Form form) {
        const std::string p =
            field("ptr", offsetof(CompiledContext, thread_index) + sizeof(void*) * size_t(axis));
        v.form = form;
        v.stride = form == Form::affine ? 1 : 0;
        v.counts_lanes = form == Form::affine;
        v.bits = e_(form == Form::lanes ? "load <32 x i32>, ptr " + p + ", align 4"
                                        : "load i32, ptr " + p);
    };
    if (which == Special::tid_x) {
        thread(0, shape_.rising_x ? Form::affine : Form::lanes);
    } else if (which == Special::tid_y) {
        thread(1, shape_.same_y ? Form::uniform : Form::lanes);
    } else if (which == Special::tid_z) {
        thread(2, shape_.same_z ? Form::uniform : Form::lanes);
    } else if (which == Special::laneid) {
        v = {Form::affine, 1, "0"};
        v.counts_lanes = true;
    } else {
        const std::string f = field("ptr", offsetof(CompiledContext, special));
        const std::string x = e_("call i64 " + f + "(ptr %c, i32 " + num(int(which)) + ")");
        v = {Form::uniform, 0, e_("trunc i64 " + x + " to i32")};
    }
    write(op, op.operand[0], v);
}

void Translator::emit_call(uint32_t at) {
    const Op& op = program_.ops[at];
    for (const uint32_t slot : effects(at).reads) {
        if (!written_.contains(slot) || (whole_ && known_now(slot).clean)) continue;
        const Value v = read_slot(slot);
        store_home(slot, changed_.contains(slot) ? blended(slot, v) : v);
    }
    const auto set_mask = [&](const std::string& mask) {
        if (!predicate_.empty())
            e_.line("store i32 " + mask + ", ptr " +
                    field_address(offsetof(CompiledContext, mask)));
    };
    set_mask(predicate_);
    const std::string call = field("ptr", offsetof(CompiledContext, call));
    const std::string good = e_("call zeroext i1 " + call + "(ptr %c, i32 " + num(at) + ")");
    const std::string go_on = e_.new_label("c"), out = e_.new_label("t");
    e_.line("br i1 " + good + ", label %" + go_on + ", label %" + out);
    std::string* const text = std::exchange(e_.text, &cold_);
    e_.label(out);
    e_.line("ret i32 " + num(at));  // an exception
    e_.text = text;
    e_.label(go_on);
    set_mask(whole_ ? "-1" : mask_);
    const bool many = op.has_memory() || op.is<Registers>();
    for (int n = 0; n < (many ? 5 : 2); ++n) {
        const Locator l = op.operand[n];
        if (l == no_operand || (l & 1) || !slots_.contains(l >> 1)) continue;
        values_[l >> 1] = load_home(l >> 1);
        changed_.insert(l >> 1);
    }
}

bool Translator::emit_exchange(uint32_t at) {
    const Op& op = program_.ops[at];
    if (!whole_ || op.control != Control::synchronize || op.guard != no_operand ||
        op.is<WarpSync>() || at + 1 >= end_)
        return false;
    int last = 5;
    while (op.operand[last] == no_operand) --last;
    // If the lanes have different member masks, they form groups.
    if (read(op.operand[last], 32).form != Form::uniform) return false;
    const auto immediate = [&](int n) {
        const Locator l = op.operand[n];
        return l != no_operand && (l & 1) ? literal(constant(l, 32).bits) : std::nullopt;
    };
    if (op.code == OpCode::shfl && immediate(3) && immediate(4)) {
        std::string order;
        uint32_t valid = 0;
        for (int i = 0; i < warp_size; ++i) {
            const auto [from, is_valid] = shuffle_source(
                op.get<ShuffleOperand>().mode, i, uint32_t(*immediate(3)), uint32_t(*immediate(4)));
            order += (i ? ", i32 " : "i32 ") + num(from);
            valid |= uint32_t(is_valid) << i;
        }
        Value v, p;
        v.bits = e_("shufflevector <32 x i32> " + lanes_of(read(op.operand[2], 32), 32) +
                    ", <32 x i32> poison, <32 x i32> <" + order + ">");
        if (op.operand[1] != no_operand) p.bits = bools_of(num(int32_t(valid)));
        write(op, op.operand[0], v);
        write(op, op.operand[1], p);
    } else if (op.code != OpCode::bar_warp) {  // at bar.warp.sync, all lanes are here already
        emit_call(at);
    }
    edge(at + 1, false);
    return true;
}

}  // namespace coalesce::sim::jit
