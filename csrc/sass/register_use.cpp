#include "sass/register_use.hpp"

#include <algorithm>

namespace coalesce::sass {

namespace {

using Kind = Operand::Kind;
using sim::OpCode;
namespace trait = sim::trait;

// Returns the number of consecutive uniform registers that belong to an address operand. Those of a
// copy are the address, the mbarrier and the coordinates.
size_t group_of(const Instruction& in, const Operand& o) {
    if (has_trait(in, trait::warpgroup)) return 4;  // two descriptors
    // The second operand is a tensor map. The first is the address in shared memory. If the copy is
    // to shared memory, an mbarrier follows. Then come the coordinates.
    using enum OpCode;
    if (in.code == UTMALDG || in.code == UTMASTG || in.code == UTMAPF || in.code == UTMACCTL) {
        if (&o != in.operands.data() || in.modifiers.empty()) return 2;
        const size_t rank = size_t(std::clamp(in.modifiers[0][0] - '0', 1, 5));
        return (in.code == UTMALDG ? 2 : 1) + rank;
    }
    return in.code == UBLKCP || in.code == UBLKPF ? 2 : 1;  // an address and an mbarrier
}

}  // namespace

bool is_value(const Operand& o) {
    return (o.kind == Kind::reg || o.kind == Kind::predicate) && o.number >= 0;
}

size_t value_of(const Operand& o) {
    const size_t first = o.kind == Kind::reg
                             ? (o.uniform ? uniform_values : 0)
                             : (o.uniform ? uniform_predicate_values : predicate_values);
    return first + size_t(o.number);
}

bool is_guarded(const Instruction& in) {
    return in.guard.kind == Kind::predicate && !(in.guard.number < 0 && !in.guard.negated);
}

// Comparisons (ISETP, FSETP, ...) and PLOP3 have two predicates as results. If the first operand is
// a register, predicates after it are carries (IADD3 R0, P0, R2, R3, R4). Otherwise, a register
// after a predicate may be a result (SHFL P0, R0, R2) or a source (FCHK P0, R0, R2).
Results results_of(const Instruction& in) {
    const std::vector<Operand>& all = in.operands;
    if (has_trait(in, trait::no_result) || all.empty()) return {};
    const auto is = [&](size_t n, Kind kind) { return n < all.size() && all[n].kind == kind; };
    if (is(0, Kind::predicate)) {
        if (has_trait(in, trait::two_predicates)) return {2, 2};
        return {1, is(1, Kind::reg) ? 2u : 1u};
    }
    const size_t most = in.code == OpCode::VOTE || in.code == OpCode::VOTEU ? 2 : 3;
    size_t n = 1;
    while (n < most && is(n, Kind::predicate)) ++n;
    return {n, n};
}

void set(Values& values, const Operand& o, size_t width, bool value) {
    if (!is_value(o)) return;
    const size_t first = value_of(o);
    const size_t end = o.kind == Kind::predicate ? first + 1
                       : o.uniform               ? predicate_values
                                                 : uniform_values;
    for (size_t v = first; v < std::min(end, first + width); ++v) values.set(v, value);
}

size_t width_of(const Instruction& in, bool is_result) {
    const sim::Pipe pipe = sim::operation(in.code).pipe;
    if (pipe == sim::Pipe::tensor) return has_trait(in, trait::warpgroup) ? 128 : 8;
    if (in.has("128") || has_trait(in, trait::matrix | trait::texture) || in.code == OpCode::TXQ)
        return 4;
    const bool doubles = pipe == sim::Pipe::fp64 || in.code == OpCode::DSETP || in.has("F64");
    const bool pairs = in.has("64") || in.has("U64") || in.has("S64") || in.has("TRANS64");
    const bool products = in.has("WIDE") || (in.has("HI") && in.code == OpCode::IMAD && !is_result);
    const bool others = in.code == OpCode::CS2R || in.code == OpCode::LEPC;
    return doubles || pairs || products || others ? 2 : 1;
}

size_t least_width_of(const Instruction& in) {
    using enum OpCode;
    const bool loads =
        in.code == LDG || in.code == LDS || in.code == LDL || in.code == LD || in.code == LDC;
    if (in.has("WIDE") || ((loads || in.code == ULDC) && in.has("64"))) return 2;
    return loads && in.has("128") ? 4 : 1;
}

bool is_any(const Instruction& in, const Operand& o, const Values& values, size_t width) {
    if (is_value(o)) {
        Values own;
        set(own, o, width);
        return (own & values).any();
    }
    // Returns true if one of `count` consecutive registers of an address is one of the values.
    const auto are = [&](int32_t first, size_t offset, size_t count) {
        for (size_t n = 0; first >= 0 && n < count; ++n)
            if (values[offset + size_t(first) + n]) return true;
        return false;
    };
    return are(o.base, 0, o.wide ? 2 : 1) ||
           are(o.uniform_base, uniform_values,
               std::max<size_t>(o.wide_uniform ? 2 : 1, group_of(in, o)));
}

bool reads(const Instruction& in, const Values& values) {
    if (in.guard.kind == Kind::predicate && is_any(in, in.guard, values, 1)) return true;
    if ((in.code == OpCode::P2R || in.code == OpCode::UP2UR) && (values >> predicate_values).any())
        return true;
    for (size_t n = results_of(in).certain; n < in.operands.size(); ++n)
        if (is_any(in, in.operands[n], values, width_of(in, false))) return true;
    return false;
}

Values written_by(const Instruction& in) {
    Values values;
    const size_t results = std::min(results_of(in).possible, in.operands.size());
    for (size_t n = 0; n < results; ++n) set(values, in.operands[n], width_of(in, true));
    if (in.code == OpCode::R2P)
        for (size_t v = predicate_values; v < all_values; ++v) values.set(v);
    return values;
}

}  // namespace coalesce::sass
