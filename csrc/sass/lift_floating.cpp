// Floating-point arithmetic, comparisons and conversions.
#include <bit>
#include <cmath>
#include <string>

#include "sass/lifter.hpp"

namespace coalesce::sass {

namespace {

// Converts "LTU" to "ltu".
std::string lower(std::string_view s) {
    std::string name(s);
    for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    return name;
}

// Returns the rounding modifier as PTX writes it, or an empty string.
std::string_view rounding(const Instruction& in) {
    return in.has("RM") ? "rm" : in.has("RP") ? "rp" : in.has("RZ") ? "rz" : "rn";
}

std::string_view combination(const Instruction& in) {
    return in.has("OR") ? "or" : in.has("XOR") ? "xor" : "and";
}

std::string_view flushing(const Instruction& in) { return in.has("FTZ") ? "ftz" : ""; }

std::string_view comparison(const Instruction& in) {
    static constexpr struct {
        std::string_view sass, ptx;
    } names[] = {{"LT", "lt"},   {"EQ", "eq"},   {"LE", "le"},   {"GT", "gt"},   {"NE", "ne"},
                 {"GE", "ge"},   {"NUM", "num"}, {"NAN", "nan"}, {"LTU", "ltu"}, {"EQU", "equ"},
                 {"LEU", "leu"}, {"GTU", "gtu"}, {"NEU", "neu"}, {"GEU", "geu"}};
    for (const auto& name : names) {
        if (in.has(name.sass)) return name.ptx;
    }
    return {};
}

}  // namespace

void Lifter::floating(const Instruction& in) {
    only(in, {"FTZ", "SAT", "RN", "RM", "RP", "RZ", "D2", "D4", "D8", "M2", "M4", "M8"});
    const std::string_view mode = rounding(in), ftz = flushing(in),
                           sat = in.has("SAT") ? "sat" : "";
    const Locator d = result(operand(in, 0));
    const Locator a = real(operand(in, 1));
    Locator b = real(operand(in, 2));
    if (in.opcode == "FFMA") {
        return as_ptx(OpCode::fma, {mode, ftz, sat, "f32"}, {d, a, b, real(operand(in, 3))});
    }
    // The modifiers .D2, .M2 and similar: the product is divided or multiplied by this number.
    for (const float by : {2.0f, 4.0f, 8.0f}) {
        const std::string digit(1, char('0' + int(by)));
        if (!in.has("D" + digit) && !in.has("M" + digit)) continue;
        if (in.opcode != "FMUL") unsupported();
        const Locator scaled = scratch();
        const float factor = in.has("D" + digit) ? 1 / by : by;
        as_ptx_to_scratch(OpCode::mul, {"rn", "f32"},
                          {scaled, b, constant(std::bit_cast<uint32_t>(factor))});
        b = scaled;
    }
    as_ptx(in.opcode == "FADD" ? OpCode::add : OpCode::mul, {mode, ftz, sat, "f32"}, {d, a, b});
}

void Lifter::fsetp(const Instruction& in) {
    only(in, {"FTZ", "AND", "OR", "XOR", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU",
              "EQU", "LEU", "GTU", "NEU", "GEU"});
    const Locator p = predicate_result(operand(in, 0)), q = predicate_result(operand(in, 1));
    const Locator a = real(operand(in, 2)), b = real(operand(in, 3));
    const Locator with = predicate(operand(in, 4));
    if (comparison(in).empty()) unsupported();
    as_ptx(OpCode::setp, {comparison(in), combination(in), flushing(in), "f32"},
           {p, q, a, b, with});
}

void Lifter::fset(const Instruction& in) {
    only(in, {"BF", "FTZ", "AND", "OR", "XOR", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN",
              "LTU", "EQU", "LEU", "GTU", "NEU", "GEU"});
    const Locator a = real(operand(in, 1)), b = real(operand(in, 2));
    const Locator with = predicate(operand(in, 3));
    if (comparison(in).empty()) unsupported();
    as_ptx(OpCode::set,
           {comparison(in), combination(in), flushing(in), in.has("BF") ? "f32" : "u32", "f32"},
           {result(operand(in, 0)), no_operand, a, b, with});
}

void Lifter::fsel(const Instruction& in) {
    only(in, {});
    const Locator p = predicate(operand(in, 3));
    as_ptx(OpCode::selp, {"b32"},
           {result(operand(in, 0)), real(operand(in, 1)), real(operand(in, 2)), p});
}

void Lifter::fmnmx(const Instruction& in) {
    only(in, {"FTZ", "NAN", "XORSIGN"});
    const Locator d = result(operand(in, 0));
    const std::string_view ftz = flushing(in), nan = in.has("NAN") ? "NaN" : "";
    if (in.has("XORSIGN"))
        return as_ptx(
            min_or_max(operand(in, 3)), {ftz, nan, "xorsign", "abs", "f32"},
            {d, real(signed_magnitude(operand(in, 1))), real(signed_magnitude(operand(in, 2)))});
    if (in.has("NAN"))
        return as_ptx(min_or_max(operand(in, 3)), {ftz, "NaN", "f32"},
                      {d, real(operand(in, 1)), real(operand(in, 2))});
    const auto source = [&](const Operand& o) {
        const Locator at = real(o);
        if (ftz.empty()) return at;
        const Locator flushed = scratch();  // Adding -0 flushes subnormals and keeps the sign
        as_ptx_to_scratch(OpCode::add, {"rn", "ftz", "f32"}, {flushed, at, constant(0x80000000)});
        return flushed;
    };
    const Locator a = source(operand(in, 1)), b = source(operand(in, 2));
    machine(MachineOp::min_max_f32, {d, a, b, predicate(operand(in, 3))});
}

// With .XORSIGN, the operation compares |a| and |b|, and the sign of the result is the sign of a
// times the sign of b. Returns operand a or b with its sign.
Operand Lifter::signed_magnitude(const Operand& o) const {
    const bool number = o.kind == Operand::Kind::real && !std::signbit(o.value);
    if (o.negated || !(o.absolute || number)) unsupported("the operand " + std::string(o.text));
    Operand plain = o;
    plain.absolute = false;
    return plain;
}

// Chooses min or max for an MNMX instruction. Its predicate must be constant, true or false.
OpCode Lifter::min_or_max(const Operand& o) const {
    if (!is_predicate(o) || o.number >= 0) unsupported("the choice between minimum and maximum");
    return o.negated ? OpCode::max : OpCode::min;
}

void Lifter::mufu(const Instruction& in) {
    const Locator d = result(operand(in, 0));
    const Operand& a = operand(in, 1);
    if (in.has("RCP64H") || in.has("RSQ64H")) {
        only(in, {"RCP64H", "RSQ64H"});
        // The approximate double has this upper word. Its lower word is zero.
        const Locator whole = scratch(), approximate = scratch();
        machine_to_scratch(MachineOp::move, {whole, constant(0)}, sim::Registers{1});
        // A number in the instruction's text is the value of the whole double.
        const auto number = uint32_t(std::bit_cast<uint64_t>(a.value) >> 32);
        const bool printed = a.kind == Operand::Kind::real;
        machine_to_scratch(
            MachineOp::move,
            {whole + 2 * register_bytes, printed ? constant(immediate(a, number)) : real(a)},
            sim::Registers{1});
        as_ptx_to_scratch(in.has("RCP64H") ? OpCode::rcp : OpCode::rsqrt, {"approx", "ftz", "f64"},
                          {approximate, whole});
        return void(
            machine(MachineOp::move, {d, approximate + 2 * register_bytes}, sim::Registers{1}));
    }
    // MUFU, the unit of the hardware for these functions, treats subnormals as zeros. If an
    // argument may be subnormal, the assembler scales it first.
    static constexpr struct {
        std::string_view modifier;
        OpCode code;
    } functions[] = {{"RCP", OpCode::rcp}, {"RSQ", OpCode::rsqrt}, {"SQRT", OpCode::sqrt},
                     {"EX2", OpCode::ex2}, {"LG2", OpCode::lg2},   {"TANH", OpCode::tanh}};
    for (const auto& f : functions) {
        if (!in.has(f.modifier)) continue;
        if (in.has("F16") || in.has("BF16")) {
            // MUFU.EX2.F16 R0, R2.H1 computes a half from a half.
            if (f.code != OpCode::ex2 && f.code != OpCode::tanh) unsupported();
            only(in, {f.modifier, "F16", "BF16"});
            const bool flushes = f.code == OpCode::ex2 && in.has("BF16");
            const std::string_view type = in.has("BF16") ? "bf16" : "f16";
            return as_ptx(f.code, {"approx", flushes ? "ftz" : "", type}, {d, half(a, type)});
        }
        only(in, {f.modifier});
        return as_ptx(f.code, {"approx", f.code == OpCode::tanh ? "" : "ftz", "f32"}, {d, real(a)});
    }
    // The arguments of SIN and COS are in full turns (2 pi), not in radians.
    only(in, {"SIN", "COS"});
    if (in.has("SIN")) return void(machine(MachineOp::sine_of_turns, {d, real(a)}));
    if (in.has("COS")) return void(machine(MachineOp::cosine_of_turns, {d, real(a)}));
    unsupported();
}

void Lifter::fchk(const Instruction& in) {
    only(in, {"DIVIDE"});
    const Locator p = predicate_result(operand(in, 0));
    machine(MachineOp::needs_slow_division, {p, real(operand(in, 1)), real(operand(in, 2))});
}

void Lifter::doubles(const Instruction& in) {
    only(in, {"RN", "RM", "RP", "RZ"});
    const Locator d = result(operand(in, 0), 2);
    const Locator a = real_pair(operand(in, 1)), b = real_pair(operand(in, 2));
    const std::string_view mode = rounding(in);
    if (mode == "rn") {
        if (in.opcode == "DFMA")
            return void(machine(MachineOp::fma_f64, {d, a, b, real_pair(operand(in, 3))}));
        return void(
            machine(in.opcode == "DADD" ? MachineOp::add_f64 : MachineOp::mul_f64, {d, a, b}));
    }
    if (in.opcode == "DFMA")
        return as_ptx(OpCode::fma, {mode, "f64"}, {d, a, b, real_pair(operand(in, 3))});
    as_ptx(in.opcode == "DADD" ? OpCode::add : OpCode::mul, {mode, "f64"}, {d, a, b});
}

void Lifter::dsetp(const Instruction& in) {
    only(in, {"AND", "OR", "XOR", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU",
              "LEU", "GTU", "NEU", "GEU", "MIN", "MAX"});
    const Locator p = predicate_result(operand(in, 0)), q = predicate_result(operand(in, 1));
    const Locator a = real_pair(operand(in, 2)), b = real_pair(operand(in, 3));
    const Locator with = predicate(operand(in, 4));
    if (in.has("MIN") || in.has("MAX"))
        return void(machine(
            in.has("MAX") ? MachineOp::first_is_greatest_f64 : MachineOp::first_is_least_f64,
            {p, q, a, b, with}));
    if (comparison(in).empty()) unsupported();
    as_ptx(OpCode::setp, {comparison(in), combination(in), "f64"}, {p, q, a, b, with});
}

// Reads a pair of half-precision numbers that begins at operand `n`, and increases `n` to the next
// operand. The pair is either one register, or it is two immediate numbers, of which the upper half
// comes first.
Locator Lifter::halves_of(const Instruction& in, size_t& n, bool bfloat) {
    const Operand& o = operand(in, n++);
    if (o.kind != Operand::Kind::real && o.kind != Operand::Kind::integer) return half_pair(o);
    const Operand& second = operand(in, n++);
    if (second.kind != Operand::Kind::real && second.kind != Operand::Kind::integer)
        unsupported("one half of a pair of numbers");
    const uint32_t printed = half_bits(o, bfloat) << 16 | half_bits(second, bfloat);
    return constant(immediate(std::isnan(o.value) ? o : second, printed));
}

// Returns a number, half 0 of a register, or the half that the operand names, with its sign
// applied. PTX has abs.f16 and neg.f16 for the sign, which return the canonical NaN.
Locator Lifter::half(const Operand& o, std::string_view type) {
    const bool upper = o.part == "H1" || o.part == "H1_H1";
    const bool lower = o.part.empty() || o.part == "H0" || o.part == "H0_H0";
    if (o.kind == Operand::Kind::real && lower)
        return constant(immediate(o, half_bits(o, type == "bf16")));
    if (o.kind != Operand::Kind::reg || o.inverted || !(upper || lower))
        unsupported("the operand " + std::string(o.text));
    Operand whole = o;
    whole.part = {};
    whole.negated = whole.absolute = false;
    Locator at = word(whole);
    if (upper) {
        const Locator shifted = scratch();
        machine_to_scratch(MachineOp::shift_right_u32, {shifted, at}, sim::ShiftOperand{.by = 16});
        at = shifted;
    }
    for (const OpCode code : {OpCode::abs, OpCode::neg}) {
        if (!(code == OpCode::abs ? o.absolute : o.negated)) continue;
        const Locator changed = scratch();
        as_ptx_to_scratch(code, {type}, {changed, at});
        at = changed;
    }
    return at;
}

void Lifter::halves(const Instruction& in) {
    only(in, {"MMA", "BF16_V2", "BF16", "FTZ", "SAT", "RELU", "F32"});
    const bool bfloat = in.has("BF16_V2") || in.has("BF16");
    if (in.has("RELU") && in.opcode != "HFMA2") unsupported("the modifier .RELU");
    const Locator d = result(operand(in, 0));
    if (in.has("F32")) {
        // HADD2.F32 R0, -RZ, R1.H0_H0 converts a half to a float.
        const Operand& o = operand(in, 2);
        if (in.opcode != "HADD2" || !is_register(operand(in, 1)) || operand(in, 1).number >= 0 ||
            o.kind != Operand::Kind::reg ||
            !(o.part.empty() || o.part == "H0_H0" || o.part == "H1_H1"))
            unsupported();
        const std::string_view type = bfloat ? "bf16" : "f16";
        return as_ptx(OpCode::cvt, {"f32", type}, {d, half(o, type)});
    }
    size_t n = 1;
    const size_t first = n;
    const Locator a = halves_of(in, n, bfloat);
    const size_t second = n;
    const Locator b = halves_of(in, n, bfloat);
    const std::string_view type = bfloat ? "bf16x2" : "f16x2", ftz = flushing(in);
    const std::string_view sat = in.has("SAT") ? "sat" : "", relu = in.has("RELU") ? "relu" : "";
    if (in.opcode == "HADD2") return as_ptx(OpCode::add, {"rn", ftz, sat, type}, {d, a, b});
    if (in.opcode == "HMUL2") return as_ptx(OpCode::mul, {"rn", ftz, sat, type}, {d, a, b});
    const bool no_product =
        is_zero(operand(in, first)) && is_zero(operand(in, second)) && !is_register(operand(in, n));
    const Locator c = halves_of(in, n, bfloat);
    // This is how the compiler writes a constant: -RZ * RZ + constant, where RZ is zero.
    if (no_product) return void(machine(MachineOp::move, {d, c}, sim::Registers{1}));
    as_ptx(OpCode::fma, {"rn", ftz, sat, relu, type}, {d, a, b, c});
}

void Lifter::hsetp(const Instruction& in) {
    only(in, {"BF16_V2", "FTZ", "AND", "OR", "XOR", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM",
              "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU"});
    if (comparison(in).empty()) unsupported();
    const bool bfloat = in.has("BF16_V2");
    const Locator p = predicate_result(operand(in, 0)), q = predicate_result(operand(in, 1));
    size_t n = 2;
    const Locator a = halves_of(in, n, bfloat), b = halves_of(in, n, bfloat);
    const Locator with = predicate(operand(in, n));
    as_ptx(OpCode::setp,
           {comparison(in), combination(in), flushing(in), bfloat ? "bf16x2" : "f16x2"},
           {p, q, a, b, with});
}

// HSET2.BF.GT.AND R0, R1, R2, PT compares the two halves of R1 with the two halves of R2. With .BF,
// each of the two results is 1.0 or 0. Without .BF, the 16 bits of a result are all 1 or all 0.
void Lifter::hset(const Instruction& in) {
    only(in, {"BF", "BF16_V2", "FTZ", "AND", "OR",  "XOR", "LT",  "EQ",  "LE",  "GT",
              "NE", "GE",      "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU"});
    if (comparison(in).empty()) unsupported();
    const bool bfloat = in.has("BF16_V2");
    size_t n = 1;
    const Locator a = halves_of(in, n, bfloat), b = halves_of(in, n, bfloat);
    const Locator with = predicate(operand(in, n));
    const Locator p = scratch_predicate(), q = scratch_predicate();
    const Locator lower = scratch(), upper = scratch();
    as_ptx_to_scratch(OpCode::setp,
                      {comparison(in), combination(in), flushing(in), bfloat ? "bf16x2" : "f16x2"},
                      {p, q, a, b, with});
    const uint32_t yes = !in.has("BF") ? 0xffff : bfloat ? 0x3f80 : 0x3c00;
    as_ptx_to_scratch(OpCode::selp, {"b32"}, {lower, constant(yes), constant(0), p});
    as_ptx_to_scratch(OpCode::selp, {"b32"}, {upper, constant(yes << 16), constant(0), q});
    as_ptx(OpCode::or_, {"b32"}, {result(operand(in, 0)), lower, upper});
}

// Translates HMNMX2 R0, R1, R2, !PT, and VHMNMX R0, R1, R2, R3, !PT with three sources.
void Lifter::hmnmx(const Instruction& in) {
    const bool three = in.opcode == "VHMNMX";
    only(in, {"BF16_V2", "FTZ", "NAN", "XORSIGN"});
    if (in.has("XORSIGN")) return hmnmx_of_magnitudes(in);
    const bool bfloat = in.has("BF16_V2");
    const std::string_view ftz = flushing(in), nan = in.has("NAN") ? "NaN" : "",
                           type = bfloat ? "bf16x2" : "f16x2";
    size_t n = 1;
    Locator a = halves_of(in, n, bfloat), b = halves_of(in, n, bfloat);
    const Locator last = three ? halves_of(in, n, bfloat) : no_operand;
    const OpCode code = min_or_max(operand(in, n));
    if (three) {
        const Locator two = scratch();
        as_ptx_to_scratch(code, {ftz, nan, type}, {two, a, b});
        a = two, b = last;
    }
    as_ptx(code, {ftz, nan, type}, {result(operand(in, 0)), a, b});
}

// Translates HMNMX2.XORSIGN R0, |R1|, |R2|, PT. The second source may be a pair of numbers.
void Lifter::hmnmx_of_magnitudes(const Instruction& in) {
    if (in.opcode == "VHMNMX") unsupported("the modifier .XORSIGN");
    const bool bfloat = in.has("BF16_V2");
    size_t n = 1;
    const auto source = [&] {
        const Operand& o = operand(in, n);
        if (o.kind == Operand::Kind::reg) return ++n, half_pair(signed_magnitude(o));
        for (const size_t half : {n, n + 1})
            if (std::signbit(operand(in, half).value)) unsupported("a negative number");
        return halves_of(in, n, bfloat);
    };
    const Locator a = source(), b = source();
    as_ptx(
        min_or_max(operand(in, n)),
        {flushing(in), in.has("NAN") ? "NaN" : "", "xorsign", "abs", bfloat ? "bf16x2" : "f16x2"},
        {result(operand(in, 0)), a, b});
}

// Translates F2I.FTZ.U32.TRUNC.NTZ, I2F.U32.RP, F2F.F32.F64, FRND.FLOOR
void Lifter::convert(const Instruction& in) {
    only(in,
         {"FTZ", "NTZ", "TRUNC", "FLOOR", "CEIL", "ROUND", "RN",  "RZ",  "RM",  "RP",  "SAT", "F16",
          "F32", "F64", "BF16",  "U8",    "S8",   "U16",   "S16", "U32", "S32", "U64", "S64"});
    std::vector<std::string> types;
    for (const std::string_view m : in.modifiers) {
        const bool type =
            m.size() <= 4 && (m[0] == 'F' || m[0] == 'U' || m[0] == 'S' || m[0] == 'B') &&
            (m.ends_with("8") || m.ends_with("16") || m.ends_with("32") || m.ends_with("64"));
        if (type) types.push_back(lower(m));
    }
    std::string to, from;
    const auto is_float = [](const std::string& t) { return t[0] == 'f' || t[0] == 'b'; };
    if (in.opcode == "F2F" && types.size() == 2) {
        to = types[0], from = types[1];
    } else if (in.opcode == "FRND") {
        to = from = types.empty() ? "f32" : types[0];
    } else {
        // A type that the instruction does not name is F32 or S32.
        const bool to_integer = in.opcode == "F2I";
        std::string number = "f32", integer = "s32";
        for (const std::string& t : types) (is_float(t) ? number : integer) = t;
        to = to_integer ? integer : number;
        from = to_integer ? number : integer;
    }
    // With .NTZ, a NaN is converted to zero. PTX does this for exactly these types.
    const bool to_zero = in.opcode == "F2I" && from != "f64" && !to.ends_with("64");
    if (in.has("NTZ") != to_zero) unsupported("how NaN is treated");
    const bool rounds_to_integer = in.opcode == "F2I" || in.opcode == "FRND";
    const bool down = in.has("FLOOR") || in.has("RM"), up = in.has("CEIL") || in.has("RP");
    const bool zero = in.has("TRUNC") || in.has("RZ");
    std::string mode = down ? "rm" : up ? "rp" : zero ? "rz" : "rn";
    if (rounds_to_integer) mode += 'i';
    if (in.opcode == "F2F" && to == "f64") mode.clear();
    const Operand& o = operand(in, 1);
    Locator source = no_operand;
    if (from == "f64") {
        source = real_pair(o);
    } else if (from == "u64" || from == "s64") {
        if (o.negated) unsupported("a negated pair");
        // An immediate number is the upper word of the pair.
        source = o.kind == Operand::Kind::integer ? constant_pair(o.bits << 32) : raw(o, 2);
    } else if (from == "f32") {
        source = real(o);
    } else if (is_float(from) &&
               (o.kind == Operand::Kind::real || o.kind == Operand::Kind::integer)) {
        source = constant(immediate(o, half_bits(o, from == "bf16")));
    } else if (is_float(from)) {
        Operand whole = o;
        whole.part = {};
        source = word(whole);
        if (!o.part.empty() && !o.part.starts_with("H0") && !o.part.starts_with("H1"))
            unsupported("the part ." + std::string(o.part));
        if (o.part.starts_with("H1")) {
            const Locator upper = scratch();
            machine_to_scratch(MachineOp::shift_right_u32, {upper, source},
                               sim::ShiftOperand{.by = 16});
            source = upper;
        }
    } else {
        std::string type = from;
        type[0] = char(type[0] - 'a' + 'A');
        source = part(o, type);
    }
    const Locator d = result(operand(in, 0), to.ends_with("64") ? 2 : 1);
    const std::string_view sat = in.has("SAT") ? "sat" : "";
    if (to != "s16" && to != "s8")
        return as_ptx(OpCode::cvt, {mode, flushing(in), sat, to, from}, {d, source});
    // The register receives the sign in all its upper bits. The compiler relies on this.
    const Locator narrow = scratch();
    as_ptx_to_scratch(OpCode::cvt, {mode, flushing(in), sat, to, from}, {narrow, source});
    as_ptx(OpCode::cvt, {"s32", to}, {d, narrow});
}

// I2I.S8.S32.SAT R0, R1 clamps R1 to a byte. A signed result has its sign in all upper bits.
void Lifter::clamp_integer(const Instruction& in) {
    only(in, {"S8", "U8", "S16", "U16", "S32", "U32", "SAT"});
    if (in.modifiers.size() != 3 || in.modifiers[2] != "SAT" || !in.modifiers[1].ends_with("32"))
        unsupported();
    const std::string to = lower(in.modifiers[0]), from = lower(in.modifiers[1]);
    const Locator a = word(operand(in, 1)), d = result(operand(in, 0)), narrow = scratch();
    as_ptx_to_scratch(OpCode::cvt, {"sat", to, from}, {narrow, a});
    as_ptx(OpCode::cvt, {to[0] == 's' ? "s32" : "u32", to}, {d, narrow});
}

// F2IP.U8.F32.TRUNC.NTZ R0, R1, R2, R3 converts R1 and R2 to bytes. These two bytes become the
// lower half of R0, with that of R2 at the bottom. The lower half of R3 becomes the upper half.
void Lifter::pack_bytes_of_floats(const Instruction& in) {
    only(in, {"U8", "S8", "F32", "NTZ", "TRUNC", "FLOOR", "CEIL", "FTZ"});
    if (!in.has("F32") || !in.has("NTZ") || in.has("U8") == in.has("S8")) unsupported();
    const std::string_view mode = in.has("TRUNC")   ? "rzi"
                                  : in.has("FLOOR") ? "rmi"
                                  : in.has("CEIL")  ? "rpi"
                                                    : "rni";
    const std::string_view type = in.has("U8") ? "u8" : "s8";
    const auto byte = [&](size_t n) {
        const Locator narrow = scratch(), wide = scratch();
        as_ptx_to_scratch(OpCode::cvt, {mode, flushing(in), type, "f32"},
                          {narrow, real(operand(in, n))});
        as_ptx_to_scratch(OpCode::cvt, {"u32", "u8"}, {wide, narrow});
        return wide;
    };
    const Locator d = result(operand(in, 0)), upper = byte(1), lower = byte(2), both = scratch();
    as_ptx_to_scratch(OpCode::prmt, {"b32"}, {both, lower, upper, constant(0x0040)});
    as_ptx(OpCode::prmt, {"b32"}, {d, both, word(operand(in, 3)), constant(0x5410)});
}

// F2FP.F16.E4M3.UNPACK_B R0, R2.H1 converts two 8-bit floats to halves.
// F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C R0, R2, R3, R4 converts two floats to 8 bits each. The
// lower half of R4 becomes the upper half of the result.
void Lifter::pack_fp8(const Instruction& in) {
    only(in, {"F16", "F32", "E4M3", "E5M2", "UNPACK_B", "UNPACK_B_MERGE_C", "PACK_AB_MERGE_C",
              "SATFINITE", "RELU"});
    const std::string_view type = in.has("E4M3") ? "e4m3x2" : "e5m2x2";
    const std::string_view relu = in.has("RELU") ? "relu" : "";
    const Locator d = result(operand(in, 0));
    if (in.has("UNPACK_B")) {
        if (!in.has("F16") || in.has("F32") || in.has("SATFINITE")) unsupported();
        as_ptx(OpCode::cvt, {"rn", relu, "f16x2", type}, {d, part(operand(in, 1), "U16")});
        return;
    }
    const bool floats = in.has("PACK_AB_MERGE_C");
    if (floats == in.has("UNPACK_B_MERGE_C") || floats != in.has("F32") || !in.has("SATFINITE"))
        unsupported();
    const Locator two = scratch(), upper = word(operand(in, floats ? 3 : 2));
    if (floats)
        as_ptx_to_scratch(OpCode::cvt, {"rn", "satfinite", relu, type, "f32"},
                          {two, real(operand(in, 1)), real(operand(in, 2))});
    else
        as_ptx_to_scratch(OpCode::cvt, {"rn", "satfinite", relu, type, "f16x2"},
                          {two, half_pair(operand(in, 1))});
    as_ptx(OpCode::prmt, {"b32"}, {d, two, upper, constant(0x5410)});
}

// F2FP.F16.F32.PACK_AB R0, R1, R2 converts two floats to halves. The first source becomes the upper
// half.
// F2FP.F16.F32.MERGE_C R0, R1, RZ converts one float, and the upper half is zero.
// F2FP.TF32.F32.PACK_B R0, R1 converts a float to tf32.
void Lifter::pack_floats(const Instruction& in) {
    if (in.has("E4M3") || in.has("E5M2")) return pack_fp8(in);
    only(in, {"F16", "BF16", "TF32", "F32", "PACK_AB", "PACK_B", "MERGE_C", "RZ", "RELU"});
    const std::string_view mode = in.has("RZ") ? "rz" : "rn", relu = in.has("RELU") ? "relu" : "";
    if (!in.has("F32") || in.has("TF32") != in.has("PACK_B") ||
        in.has("PACK_AB") + in.has("PACK_B") + in.has("MERGE_C") != 1)
        unsupported();
    const Locator d = result(operand(in, 0)), a = real(operand(in, 1));
    if (in.has("TF32")) return as_ptx(OpCode::cvt, {mode, relu, "tf32", "f32"}, {d, a});
    if (in.has("MERGE_C")) {
        if (!is_zero(operand(in, 2))) unsupported("a result that is merged");
        return as_ptx(OpCode::cvt, {mode, relu, in.has("BF16") ? "bf16" : "f16", "f32"}, {d, a});
    }
    as_ptx(OpCode::cvt, {mode, relu, in.has("BF16") ? "bf16x2" : "f16x2", "f32"},
           {d, a, real(operand(in, 2))});
}

}  // namespace coalesce::sass
