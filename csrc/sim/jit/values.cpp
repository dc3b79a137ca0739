// Values, and the registers that hold them.
#include <cstring>
#include <utility>

#include "sim/jit/translator.hpp"

namespace coalesce::sim::jit {

std::string Translator::field_address(size_t offset) {
    return e_("getelementptr i8, ptr %c, i64 " + num(int64_t(offset)));
}

std::string Translator::field(const char* type, size_t offset) {
    const std::string p = field_address(offset);
    return e_(std::string("load ") + type + ", ptr " + p + ", align 4");
}

Value Translator::constant(Locator at, int bits) {
    Value v;
    v.form = Form::uniform;
    const std::byte* const from = program_.constants.data() + (at >> 1);
    uint64_t number = 0;
    std::memcpy(&number, from, bits == 1 ? sizeof(LaneMask) : size_t(bits / 8));
    v.bits = bits == 1 ? number ? "1" : "0" : num(wrap(number, bits));
    v.id =
        literal_ids_.try_emplace(v.bits, uint32_t(0x80000000u + literal_ids_.size())).first->second;
    return v;
}

Value Translator::read_slot(uint32_t slot) {
    const auto it = values_.find(slot);
    if (it != values_.end()) return it->second;
    Known k = whole_ ? block_->known[slot] : in_part(slot);
    if (k.form == Form::unset) k.form = Form::lanes;
    return values_[slot] = load_variable(slot, k);
}

Value Translator::read(Locator at, int bits) {
    if (at & 1) return constant(at, bits);
    Value v = read_slot(at >> 1);
    if (v.bits.empty()) bits_of(v), values_[at >> 1] = v;
    return v;
}

Value Translator::operand(Locator at, LaneType t) {
    return !t.floating ? read(at, t.bits) : at & 1 ? constant(at, t.bits) : read_slot(at >> 1);
}

std::string Translator::bits_of(Value& v) {
    if (!v.bits.empty()) return v.bits;
    // The canonical bits of a float.
    const bool before = std::exchange(e_.wide, v.form == Form::lanes);
    const std::string nan = e_.compare("uno", f32, v.real, v.real);
    v.bits = e_.choose(nan, i32, e_.c(0x7fffffff, 32), e_.cast("bitcast", f32, i32, v.real));
    e_.wide = before;
    return v.bits;
}

std::string Translator::lanes_of(Value v, int bits) {
    const std::string x = bits_of(v);
    if (v.form == Form::lanes) return x;
    const std::string all = splat(x, {false, uint8_t(bits)});
    if (v.form == Form::uniform) return all;
    const std::string type = "i" + num(bits);
    std::string steps;
    for (int i = 0; i < warp_size; ++i)
        steps += (i ? ", " : "") + type + " " + num(wrap(uint64_t(v.stride) * uint64_t(i), bits));
    return e_("add <32 x " + type + "> " + all + ", <" + steps + ">");
}

std::string Translator::real_of(Value v, bool wide) {
    const bool before = std::exchange(e_.wide, v.form != Form::uniform);
    std::string r = v.real;
    if (r.empty()) r = e_.cast("bitcast", i32, f32, e_.wide ? lanes_of(v, 32) : v.bits);
    e_.wide = before;
    return wide && v.form == Form::uniform ? splat(r, f32) : r;
}

std::string Translator::as(Value v, LaneType t, bool wide) {
    return t.floating ? real_of(std::move(v), wide)
           : wide     ? lanes_of(std::move(v), t.bits)
                      : bits_of(v);
}

std::string Translator::mask_of(const Value& p) {
    return e_(p.form == Form::uniform ? "sext i1 " + p.bits + " to i32"
                                      : "bitcast <32 x i1> " + p.bits + " to i32");
}

std::string Translator::bools_of(const std::string& mask) {
    return e_("bitcast i32 " + mask + " to <32 x i1>");
}

std::string Translator::splat(const std::string& x, LaneType t) {
    const std::string type = Writer::scalar(t);
    if (literal(x)) return "splat (" + type + " " + x + ")";
    const std::string v =
        e_("insertelement <32 x " + type + "> poison, " + type + " " + x + ", i64 0");
    return e_("shufflevector <32 x " + type + "> " + v + ", <32 x " + type +
              "> poison, <32 x i32> zeroinitializer");
}

void Translator::write(const Op& op, Locator at, Value v) {
    if (at == no_operand) return;
    const uint32_t slot = at >> 1;
    if (op.guard != no_operand || !predicate_.empty()) {
        Value old = read_slot(slot), r;
        const bool scalar = predicate_.empty() && guard_.form == Form::uniform &&
                            v.form == Form::uniform && old.form == Form::uniform;
        const bool before = std::exchange(e_.wide, !scalar);
        const std::string p = scalar ? guard_.bits : bools_of(condition(op));
        r.form = scalar ? Form::uniform : Form::lanes;
        r.raw = v.raw && old.raw;
        const LaneType t = r.raw ? f32 : LaneType{false, uint8_t(slots_.at(slot))};
        std::string now = as(v, t, !scalar), kept = as(old, t, !scalar);
        if (scalar && op.guard_negated) std::swap(now, kept);
        (r.raw ? r.real : r.bits) = e_.choose(p, t, now, kept);
        e_.wide = before;
        v = r;
    }
    if (v.id == 0) v.id = ++next_id_;
    changed_.insert(slot);
    values_[slot] = v;
}

Value Translator::blended(uint32_t slot, Value v) {
    if (whole_) return v;
    const Value old = load_variable(slot, in_part(slot));
    Value r;
    r.id = ++next_id_;
    r.raw = v.raw && old.raw;
    const LaneType t = r.raw ? f32 : LaneType{false, uint8_t(slots_.at(slot))};
    e_.wide = true;
    const std::string now = as(std::move(v), t, true);
    (r.raw ? r.real : r.bits) = e_.choose(bools_of(mask_), t, now, as(old, t, true));
    return r;
}

Value Translator::load_home(uint32_t slot) {
    const int bits = slots_.at(slot);
    const std::string p = e_("getelementptr i8, ptr %registers, i64 " + num(slot));
    Value v;
    v.id = ++next_id_;
    v.bits = bits == 1 ? bools_of(e_("load i32, ptr " + p))
                       : e_("load <32 x i" + num(bits) + ">, ptr " + p + ", align 4");
    return v;
}

void Translator::store_home(uint32_t slot, const Value& v) {
    const int bits = slots_.at(slot);
    const std::string x = bits == 1 ? mask_of(v) : lanes_of(v, bits);
    const std::string p = e_("getelementptr i8, ptr %registers, i64 " + num(slot));
    e_.line(bits == 1 ? "store i32 " + x + ", ptr " + p
                      : "store <32 x i" + num(bits) + "> " + x + ", ptr " + p + ", align 4");
}

std::string Translator::variable(uint32_t slot, const Known& k) const {
    return "%s" + num(slot) + (k.form == Form::lanes ? ".l" : ".u") + (k.raw ? "r" : "");
}

std::string Translator::variable_type(uint32_t slot, const Known& k) const {
    const int bits = slots_.at(slot);
    if (bits == 1) return k.form == Form::lanes ? "i32" : "i1";
    const std::string scalar = k.raw ? "float" : "i" + num(bits);
    return k.form == Form::lanes ? "<32 x " + scalar + ">" : scalar;
}

void Translator::store_variable(uint32_t slot, const Known& k, Value v) {
    const int bits = slots_.at(slot);
    const bool wide = k.form == Form::lanes;
    const std::string x =
        bits == 1 && wide ? mask_of(v) : as(v, k.raw ? f32 : LaneType{false, uint8_t(bits)}, wide);
    e_.line("store " + variable_type(slot, k) + " " + x + ", ptr " + variable(slot, k));
}

Value Translator::load_variable(uint32_t slot, const Known& k) {
    Value v;
    v.form = k.form;
    v.stride = k.stride;
    v.raw = k.raw;
    v.id = ++next_id_;
    const std::string x = e_("load " + variable_type(slot, k) + ", ptr " + variable(slot, k));
    (k.raw ? v.real : v.bits) = slots_.at(slot) == 1 && k.form == Form::lanes ? bools_of(x) : x;
    return v;
}

Known Translator::known_now(uint32_t slot) const {
    const auto known = block_->known.find(slot);
    Known k = known == block_->known.end() ? Known{} : known->second;
    if (changed_.contains(slot)) k = values_.at(slot).known();
    if (k.form == Form::unset) k.form = Form::lanes;
    return k;
}

}  // namespace coalesce::sim::jit
