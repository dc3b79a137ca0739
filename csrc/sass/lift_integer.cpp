// Integer arithmetic, logic, comparisons and selections.
#include <algorithm>
#include <bit>

#include "sass/lifter.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;

// UIADD3.64 UR6, UR4, UR6, URZ or UIADD3.64 UR6, UR4, 0x80, URZ adds register pairs.
void Lifter::add_pairs(const Instruction& in) {
    only(in, {"64"});
    if (in.operands.size() != 4 || !is_zero(operand(in, 3))) unsupported();
    for (size_t n = 0; n < 3; ++n) {
        const Operand& o = operand(in, n);
        const bool number = n == 2 && o.kind == Kind::integer && o.bits < 0x80000000;
        if (!is_register(o) && !number) unsupported("the operand " + std::string(o.text));
    }
    machine(MachineOp::add_pairs,
            {result(operand(in, 0), 2), raw(operand(in, 1), 2), raw(operand(in, 2), 2)});
}

void Lifter::iadd3(const Instruction& in) {
    if (in.has("64")) return add_pairs(in);
    only(in, {"X", "U32"});
    size_t n = 1;
    Locator out[2] = {no_operand, no_operand};
    bool carries = in.has("X");
    for (int k = 0; n < in.operands.size() && is_predicate(in.operands[n]) && k < 2; ++k, ++n) {
        out[k] = predicate_result(operand(in, n));
        carries = carries || out[k] != no_operand;
    }
    const Operand *a = &operand(in, n), *b = &operand(in, n + 1), *c = &operand(in, n + 2);
    if (carries) return add_with_carries(in, n, out);
    const Locator d = result(operand(in, 0));
    const Operand* terms[3] = {a, b, c};
    const auto end = std::remove_if(terms, terms + 3, [](auto* o) { return is_zero(*o); });
    const auto count = end - terms;
    if (count == 0) return void(machine(MachineOp::move, {d, constant(0)}, sim::Registers{1}));
    if (count == 1) return void(machine(MachineOp::move, {d, word(*terms[0])}, sim::Registers{1}));
    if (count == 2) {
        if (terms[0]->negated) std::swap(terms[0], terms[1]);
        if (!terms[0]->negated && terms[1]->negated) {
            Operand plain = *terms[1];
            plain.negated = false;
            return as_ptx(OpCode::sub, {"u32"}, {d, word(*terms[0]), word(plain)});
        }
        return as_ptx(OpCode::add, {"u32"}, {d, word(*terms[0]), word(*terms[1])});
    }
    machine(MachineOp::add3, {d, word(*a), word(*b), word(*c)});
}

// Translates an IADD3 with carries. The terms start at operand `first`. The incoming carries follow
// the terms.
void Lifter::add_with_carries(const Instruction& in, size_t first, const Locator (&out)[2]) {
    const Locator d = result(operand(in, 0));
    struct Term {
        Locator at;
        bool negated, inverted;
    };
    std::vector<Term> terms;
    for (size_t k = first; k < first + 3; ++k) {
        const Operand& o = operand(in, k);
        if (is_zero(o) && !o.negated && !o.inverted) continue;
        Operand plain = o;
        plain.negated = plain.inverted = false;
        terms.push_back({word(plain), o.negated, o.inverted});
    }
    std::vector<Locator> in_carries;
    for (size_t m = first + 3; in.has("X") && m < in.operands.size(); ++m) {
        const Operand& o = operand(in, m);
        if (o.number >= 0 || !o.negated) in_carries.push_back(predicate(o));
    }
    if (in_carries.size() > 2) unsupported("a third carry");
    // The operation on pairs takes two terms and a carry. -b is computed as ~b with a carry of 1.
    const auto negated = std::ranges::count_if(terms, &Term::negated);
    if (terms.size() <= 2 && in_carries.size() + size_t(negated) <= 1 && out[1] == no_operand) {
        terms.resize(2, {constant(0), false, false});
        const Locator carry = negated              ? truth(true)
                              : in_carries.empty() ? no_operand
                                                   : in_carries[0];
        const auto flips = [](const Term& t) { return int(t.negated || t.inverted); };
        machine(MachineOp::add_carry, {d, terms[0].at, terms[1].at, no_operand, out[0], carry},
                sim::CarryOperand{.inverted = uint8_t(flips(terms[0]) | flips(terms[1]) << 1)});
        return;
    }
    terms.resize(3, {constant(0), false, false});
    in_carries.resize(2, no_operand);
    sim::CarryOperand carry{.carry_in = {in_carries[0], in_carries[1]}};
    for (size_t k = 0; k < 3; ++k) {
        carry.negated |= uint8_t(terms[k].negated << k);
        carry.inverted |= uint8_t(terms[k].inverted << k);
    }
    machine(MachineOp::add3_carry, {d, terms[0].at, terms[1].at, terms[2].at, out[0], out[1]},
            carry);
}

void Lifter::imad(const Instruction& in) {
    only(in, {"U32", "S32", "MOV", "SHL", "IADD", "X", "WIDE", "HI"});
    const Locator d = result(operand(in, 0), in.has("WIDE") ? 2 : 1);
    size_t n = 1;
    Locator out = no_operand;
    if (is_predicate(operand(in, n))) out = predicate_result(operand(in, n++));
    const Operand &a = operand(in, n), &b = operand(in, n + 1), &c = operand(in, n + 2);
    const Locator carry =
        in.operands.size() > n + 3 && in.has("X") ? predicate(operand(in, n + 3)) : no_operand;
    const bool is_unsigned = in.has("U32");
    if (in.has("WIDE") || in.has("HI")) {
        if (c.negated || c.inverted) unsupported("a negated pair of registers");
        const Locator third = raw(c, 2);
        const auto of_type = [&](MachineOp of_u32, MachineOp of_s32) {
            return is_unsigned ? of_u32 : of_s32;
        };
        using enum MachineOp;
        const bool carries = out != no_operand || carry != no_operand;
        if (in.has("HI") || carries) {
            machine(in.has("HI") ? of_type(multiply_high_u32, multiply_high_s32)
                                 : of_type(multiply_wide_carry_u32, multiply_wide_carry_s32),
                    {d, word(a), word(b), third, out, carry});
        } else if (b.kind == Kind::integer && b.bits >> 31 == 0 && std::has_single_bit(b.bits)) {
            machine(of_type(shift_add_wide_u32, shift_add_wide_s32), {d, word(a), third},
                    sim::ShiftOperand{.by = uint8_t(std::countr_zero(b.bits))});
        } else {
            machine(of_type(multiply_wide_u32, multiply_wide_s32), {d, word(a), word(b), third});
        }
        return;
    }
    if (out != no_operand) unsupported("a carry out");
    const auto is_one = [](const Operand& o) { return o.kind == Kind::integer && o.bits == 1; };
    if (carry != no_operand) {
        const bool is_sum = is_one(b) || is_zero(a) || is_zero(b);
        if (is_sum)
            machine(MachineOp::add_carry,
                    {d, is_one(b) ? word(a) : constant(0), word(c), no_operand, no_operand, carry},
                    sim::CarryOperand{});
        else
            machine(MachineOp::multiply_add_carry, {d, word(a), word(b), word(c), carry});
        return;
    }
    if (is_zero(a) || is_zero(b))
        return void(machine(MachineOp::move, {d, word(c)}, sim::Registers{1}));
    if (is_one(b)) {
        if (c.negated) {
            Operand plain = c;
            plain.negated = false;
            return as_ptx(OpCode::sub, {"u32"}, {d, word(a), word(plain)});
        }
        return as_ptx(OpCode::add, {"u32"}, {d, word(a), word(c)});
    }
    if (is_zero(c)) return as_ptx(OpCode::mul, {"lo", "u32"}, {d, word(a), word(b)});
    as_ptx(OpCode::mad, {"lo", "u32"}, {d, word(a), word(b), word(c)});
}

void Lifter::lea(const Instruction& in) {
    only(in, {"HI", "X", "SX32"});
    const Locator d = result(operand(in, 0));
    size_t n = 1;
    Locator out = no_operand;
    if (is_predicate(operand(in, n))) out = predicate_result(operand(in, n++));
    const bool high = in.has("HI"), sign = in.has("SX32");
    Operand a = operand(in, n++);
    const Operand& b = operand(in, n++);
    const Locator c = high && !sign ? word(operand(in, n++)) : no_operand;
    const Operand& shift = operand(in, n++);
    if (shift.kind != Kind::integer && shift.kind != Kind::real) unsupported("a variable shift");
    const Locator carry = in.has("X") ? predicate(operand(in, n)) : no_operand;
    const bool negated = a.negated;
    a.negated = false;
    if (negated && high && (out != no_operand || carry != no_operand))
        unsupported("a carry in or out together with a negated pair of registers");
    const uint8_t by = uint8_t(shift.bits & 31);
    if (!high && out == no_operand && carry == no_operand && !negated)
        return void(
            machine(MachineOp::shift_add, {d, word(a), word(b)}, sim::ShiftOperand{.by = by}));
    machine(MachineOp::shift_add_carry, {d, word(a), word(b), c, out, carry},
            sim::ShiftOperand{.by = by,
                              .is_signed = sign,
                              .upper = high,
                              .negated = negated,
                              .negative_addend = b.negated});
}

void Lifter::lop3(const Instruction& in) {
    only(in, {"LUT", "PAND"});
    size_t n = 0;
    Locator truth_of = no_operand;
    const bool tests = is_predicate(operand(in, 0));
    if (tests) truth_of = predicate_result(operand(in, n++));
    const Locator d = result(operand(in, n));
    const Operand &a = operand(in, n + 1), &b = operand(in, n + 2), &c = operand(in, n + 3);
    const uint8_t table = uint8_t(operand(in, n + 4).bits);
    // On a GPU, the instruction may combine the result with another predicate. The simulator
    // accepts only a constant predicate that has no effect.
    if (truth_of == no_operand && in.operands.size() > n + 5)
        expect_constant(operand(in, n + 5), in.has("PAND"));
    const bool two = is_zero(c);
    if (two && table == 0xc0)
        as_ptx(OpCode::and_, {"b32"}, {d, word(a), word(b)});
    else if (two && table == 0xfc)
        as_ptx(OpCode::or_, {"b32"}, {d, word(a), word(b)});
    else if (two && table == 0x3c)
        as_ptx(OpCode::xor_, {"b32"}, {d, word(a), word(b)});
    else
        as_ptx(OpCode::lop3, {"b32"}, {d, word(a), word(b), word(c)}, table);
    if (tests && truth_of != no_operand)
        machine(in.has("PAND") ? MachineOp::not_zero_and : MachineOp::not_zero_or,
                {truth_of, d, predicate(operand(in, n + 5))});
}

void Lifter::plop3(const Instruction& in) {
    only(in, {"LUT"});
    const Locator d = predicate_result(operand(in, 0)), e = predicate_result(operand(in, 1));
    // R1.SIGN is true if R1 is negative.
    const auto source = [&](const Operand& o) {
        if (!is_register(o) || o.part != "SIGN") return predicate(o);
        Operand whole = o;
        whole.part = {};
        const Locator negative = scratch_predicate();
        as_ptx_to_scratch(OpCode::setp, {"lt", "and", "s32"},
                          {negative, no_operand, raw(whole), constant(0), truth(true)});
        return negative;
    };
    const Locator a = source(operand(in, 2)), b = source(operand(in, 3)),
                  c = source(operand(in, 4));
    machine(MachineOp::predicate_logic, {d, e, a, b, c},
            sim::TruthTables{uint8_t(operand(in, 5).bits), uint8_t(operand(in, 6).bits)});
}

void Lifter::shf(const Instruction& in) {
    only(in, {"L", "R", "W", "HI", "U32", "S32", "U64", "S64"});
    const Locator d = result(operand(in, 0));
    const Operand &low = operand(in, 1), &by = operand(in, 2), &high = operand(in, 3);
    const bool right = in.has("R"), upper = in.has("HI");
    const bool wide = in.has("U64") || in.has("S64");
    const bool is_signed = in.has("S32") || in.has("S64");
    if (by.kind == Kind::integer && by.bits < 32) {
        const sim::ShiftOperand amount{.by = uint8_t(by.bits)};
        if (!right && !upper) return void(machine(MachineOp::shift_left, {d, word(low)}, amount));
        if (right && upper)
            return void(machine(is_signed ? MachineOp::shift_right_s32 : MachineOp::shift_right_u32,
                                {d, word(high)}, amount));
        // The instruction shifts a pair of words as one number of 64 bits, and returns one word of
        // the result. Bits of the other word may be shifted into this word.
        if (!right || by.bits > 0)
            return void(machine(MachineOp::shift_funnel, {d, word(low), word(high)},
                                sim::ShiftOperand{.by = uint8_t(right ? 32 - by.bits : by.bits)}));
    }
    machine(MachineOp::shift_pair, {d, word(low), word(by), word(high)},
            sim::ShiftOperand{.right = right,
                              .is_signed = is_signed,
                              .upper = upper,
                              .wide = wide,
                              .wraps = in.has("W")});
}

void Lifter::isetp(const Instruction& in) {
    using namespace sim::relation;
    static constexpr struct {
        std::string_view name, ptx;
        uint8_t relations;
    } comparisons[] = {{"LT", "lt", less},           {"EQ", "eq", equal},
                       {"LE", "le", less | equal},   {"GT", "gt", greater},
                       {"NE", "ne", less | greater}, {"GE", "ge", greater | equal}};
    only(in, {"LT", "EQ", "LE", "GT", "NE", "GE", "U32", "S32", "AND", "OR", "XOR", "EX"});
    const Locator p = predicate_result(operand(in, 0)), q = predicate_result(operand(in, 1));
    const Locator a = word(operand(in, 2)), b = word(operand(in, 3));
    const Locator with = predicate(operand(in, 4));
    const std::string_view type = in.has("U32") ? "u32" : "s32";
    const std::string_view combine = in.has("OR") ? "or" : in.has("XOR") ? "xor" : "and";
    for (const auto& comparison : comparisons) {
        if (!in.has(comparison.name)) continue;
        if (in.has("EX")) {
            using enum sim::Combination;
            const sim::ComparisonOperand how{.relations = comparison.relations,
                                             .combination = in.has("OR")    ? disjunction
                                                            : in.has("XOR") ? difference
                                                                            : conjunction};
            machine(in.has("U32") ? MachineOp::compare_upper_u32 : MachineOp::compare_upper_s32,
                    {p, q, a, b, with, predicate(operand(in, 5))}, how);
            return;
        }
        return as_ptx(OpCode::setp, {comparison.ptx, combine, type}, {p, q, a, b, with});
    }
    unsupported();
}

void Lifter::mov(const Instruction& in) {
    only(in, {"64"});
    const int registers = in.has("64") ? 2 : 1;
    const Operand& source = operand(in, 1);
    machine(MachineOp::move,
            {result(operand(in, 0), registers), registers == 1 ? word(source) : raw(source, 2)},
            sim::Registers{uint8_t(registers)});
}

void Lifter::sel(const Instruction& in) {
    only(in, {});
    const Locator p = predicate(operand(in, 3));
    as_ptx(OpCode::selp, {"b32"},
           {result(operand(in, 0)), word(operand(in, 1)), word(operand(in, 2)), p});
}

void Lifter::prmt(const Instruction& in) {
    only(in, {"F4E", "B4E", "RC8", "ECL", "ECR", "RC16"});
    const std::string_view mode = in.has("F4E")    ? "f4e"
                                  : in.has("B4E")  ? "b4e"
                                  : in.has("RC8")  ? "rc8"
                                  : in.has("ECL")  ? "ecl"
                                  : in.has("ECR")  ? "ecr"
                                  : in.has("RC16") ? "rc16"
                                                   : "";
    as_ptx(
        OpCode::prmt, {"b32", mode},
        {result(operand(in, 0)), word(operand(in, 1)), word(operand(in, 3)), word(operand(in, 2))});
}

// Returns a register with two integers of 16 bits. They must not be negated: word() would negate
// the register as one number of 32 bits.
Locator Lifter::integer_halves(const Operand& o) {
    if (o.negated) unsupported("negated halves");
    return word(o);
}

// Translates a sum of pairs of halves. One of the two terms may be negated.
Lifter::Sum Lifter::sum_of_halves(Operand a, Operand b) {
    if (a.negated) std::swap(a, b);
    const OpCode code = b.negated ? OpCode::sub : OpCode::add;
    b.negated = false;
    return {code, integer_halves(a), integer_halves(b)};
}

void Lifter::viadd(const Instruction& in) {
    only(in, {"U32", "16x2"});
    if (in.has("16x2")) {
        const Sum sum = sum_of_halves(operand(in, 1), operand(in, 2));
        return as_ptx(sum.code, {"u16x2"}, {result(operand(in, 0)), sum.a, sum.b});
    }
    as_ptx(OpCode::add, {"u32"},
           {result(operand(in, 0)), word(operand(in, 1)), word(operand(in, 2))});
}

// Translates VIMNMX R0, R1, R2, PT and VIMNMX3 R0, R1, R2, R3, PT. With .RELU, negative results
// become zero.
void Lifter::min_max(const Instruction& in) {
    if (in.has("U16x2") || in.has("S16x2")) return min_max_of_halves(in);
    only(in, {"U32", "S32", "RELU"});
    const MachineOp name = in.has("U32") ? MachineOp::add_min_max_u32 : MachineOp::add_min_max_s32;
    const bool three = in.opcode == "VIMNMX3";
    const Locator d = result(operand(in, 0));
    const Locator p = predicate(operand(in, three ? 4 : 3));
    Locator value = word(operand(in, 1));
    const Locator last = word(operand(in, three ? 3 : 2));
    if (three) {
        const Locator two = scratch();
        machine_to_scratch(name, {two, value, constant(0), word(operand(in, 2)), p});
        value = two;
    }
    if (!in.has("RELU")) return void(machine(name, {d, value, constant(0), last, p}));
    const Locator unbounded = scratch();
    machine_to_scratch(name, {unbounded, value, constant(0), last, p});
    machine(name, {d, unbounded, constant(0), constant(0), truth(false)});
}

// Computes the minimum or maximum of each half of a word.
void Lifter::min_max_of_halves(const Instruction& in) {
    only(in, {"U16x2", "S16x2", "RELU"});
    const bool three = in.opcode == "VIMNMX3";
    const OpCode code = min_or_max(operand(in, three ? 4 : 3));
    const std::string_view relu = in.has("RELU") ? "relu" : "",
                           type = in.has("U16x2") ? "u16x2" : "s16x2";
    Locator value = integer_halves(operand(in, 1));
    if (three) {
        const Locator two = scratch();
        as_ptx_to_scratch(code, {relu, type}, {two, value, integer_halves(operand(in, 2))});
        value = two;
    }
    as_ptx(code, {relu, type},
           {result(operand(in, 0)), value, integer_halves(operand(in, three ? 3 : 2))});
}

// Translates VIADDMNMX R0, R2, R4, R6, PT: the smaller (PT) or larger (!PT) of R2 + R4 and R6.
void Lifter::add_min_max(const Instruction& in) {
    if (in.has("U16x2") || in.has("S16x2")) {
        only(in, {"U16x2", "S16x2", "RELU"});
        if (in.has("U16x2") && in.has("RELU")) unsupported("the modifier .RELU");
        const Sum sum = sum_of_halves(operand(in, 1), operand(in, 2));
        const Locator added = scratch();
        as_ptx_to_scratch(sum.code, {"u16x2"}, {added, sum.a, sum.b});
        return as_ptx(min_or_max(operand(in, 4)),
                      {in.has("RELU") ? "relu" : "", in.has("U16x2") ? "u16x2" : "s16x2"},
                      {result(operand(in, 0)), added, integer_halves(operand(in, 3))});
    }
    only(in, {"U32", "S32", "RELU"});
    const MachineOp name = in.has("U32") ? MachineOp::add_min_max_u32 : MachineOp::add_min_max_s32;
    const Locator d = result(operand(in, 0)), p = predicate(operand(in, 4));
    const Locator a = word(operand(in, 1)), b = word(operand(in, 2)), c = word(operand(in, 3));
    if (!in.has("RELU")) return void(machine(name, {d, a, b, c, p}));
    const Locator unbounded = scratch();
    machine_to_scratch(name, {unbounded, a, b, c, p});
    machine(name, {d, unbounded, constant(0), constant(0), truth(false)});
}

// VABSDIFF R0, R1, R2, R3 computes |R1 - R2| + R3. VABSDIFF4.U8.ACC adds the differences of the
// four bytes to R3. Without .ACC, R3 has no effect: the assembler puts there what the PTX names.
void Lifter::difference(const Instruction& in) {
    const Locator d = result(operand(in, 0)), a = word(operand(in, 1)), b = word(operand(in, 2)),
                  c = word(operand(in, 3));
    if (in.opcode == "VABSDIFF") {
        only(in, {"U32", "S32"});
        return as_ptx(OpCode::sad, {in.has("U32") ? "u32" : "s32"}, {d, a, b, c});
    }
    only(in, {"U8", "ACC"});
    if (!in.has("U8"))  // the bytes are signed
        return as_ptx(OpCode::vabsdiff4, {"u32", "s32", "s32", in.has("ACC") ? "add" : ""},
                      {d, a, b, c});
    machine(in.has("ACC") ? MachineOp::byte_differences_sum : MachineOp::byte_differences,
            {d, a, b, c});
}

// Translates IDP.4A.U8.S8 R0, R1, R2, R3 or IDP.2A.LO.S16.U8
void Lifter::dot_product(const Instruction& in) {
    only(in, {"4A", "2A", "LO", "HI", "U8", "S8", "U16", "S16"});
    const bool four = in.has("4A");
    // The last two modifiers are the types of the first and the second factor.
    if (in.modifiers.size() < 3) unsupported();
    const auto type = [](std::string_view m) { return m.starts_with('U') ? "u32" : "s32"; };
    const std::string_view half = four ? "" : in.has("HI") ? "hi" : "lo";
    const std::string_view first = type(in.modifiers[in.modifiers.size() - 2]);
    as_ptx(
        four ? OpCode::dp4a : OpCode::dp2a, {half, first, type(in.modifiers.back())},
        {result(operand(in, 0)), word(operand(in, 1)), word(operand(in, 2)), word(operand(in, 3))});
}

void Lifter::bits(const Instruction& in) {
    std::string_view name = in.opcode;
    if (name.starts_with('U')) name.remove_prefix(1);
    const Locator d = result(operand(in, 0));
    size_t n = 1;
    if (is_predicate(operand(in, n))) {
        if (predicate_result(operand(in, n)) != no_operand) unsupported("two results");
        ++n;
    }
    const Locator a = word(operand(in, n));
    if (name == "POPC" || name == "BREV" || name == "IABS") {
        only(in, {});
        return as_ptx(name == "POPC"   ? OpCode::popc
                      : name == "BREV" ? OpCode::brev
                                       : OpCode::abs,
                      {name == "IABS" ? "s32" : "b32"}, {d, a});
    }
    if (name == "FLO") {
        only(in, {"U32", "SH"});
        return as_ptx(OpCode::bfind,
                      {in.has("SH") ? "shiftamt" : "", in.has("U32") ? "u32" : "s32"}, {d, a});
    }
    const Locator b = word(operand(in, n + 1));  // SGXT follows
    only(in, {"U32", "W"});
    as_ptx(OpCode::szext, {in.has("W") ? "wrap" : "clamp", in.has("U32") ? "u32" : "s32"},
           {d, a, b});
}

void Lifter::bmsk(const Instruction& in) {
    const Locator d = result(operand(in, 0));
    const Locator a = word(operand(in, 1)), b = word(operand(in, 2));
    only(in, {"W"});  // this refuses any modifier except W
    as_ptx(OpCode::bmsk, {in.has("W") ? "wrap" : "clamp", "b32"}, {d, a, b});
}

void Lifter::p2r(const Instruction& in) {
    const uint8_t shift = in.has("B1") ? 8 : in.has("B2") ? 16 : in.has("B3") ? 24 : 0;
    only(in, {"B1", "B2", "B3"});
    expect(in, 1, uniform_ ? "UPR" : "PR");
    Operand first;  // P0 or UP0
    first.uniform = uniform_;
    first.number = 0;
    machine(MachineOp::predicates_to_word,
            {result(operand(in, 0)), predicate_at(first), word(operand(in, 2))},
            sim::PredicateBits{uint32_t(operand(in, 3).bits), shift});
}

void Lifter::r2p(const Instruction& in) {
    only(in, {});
    expect(in, 0, "PR");
    Operand source = operand(in, 1);
    const bool byte = source.part.size() == 2 && source.part[0] == 'B';
    if (!source.part.empty() && !byte) unsupported("the part ." + std::string(source.part));
    const uint8_t shift = byte ? uint8_t((source.part[1] - '0') * 8) : uint8_t{0};
    source.part = {};
    machine(MachineOp::word_to_predicates, {predicates_ << 1, word(source)},
            sim::PredicateBits{uint32_t(operand(in, 2).bits), shift});
}

// I2IP.S8.S32.SAT R0, R1, R2, R3 clamps R1 and R2 to bytes. These two bytes become the lower half
// of R0. The lower half of R3 becomes the upper half of R0. I2IP.U16.S32.SAT R0, R1, R2, RZ clamps
// R1 and R2 to 16 bits.
void Lifter::pack_integers(const Instruction& in) {
    only(in, {"S8", "U8", "S16", "U16", "S32", "SAT"});
    if (in.modifiers.size() != 3 || in.modifiers[1] != "S32" || in.modifiers[2] != "SAT")
        unsupported();
    const std::string_view type = in.has("S8")    ? "s8"
                                  : in.has("U8")  ? "u8"
                                  : in.has("S16") ? "s16"
                                  : in.has("U16") ? "u16"
                                                  : "";
    const Locator d = result(operand(in, 0));
    const Locator a = word(operand(in, 1)), b = word(operand(in, 2));
    const Operand& rest = operand(in, 3);
    if (type.ends_with('8'))
        return as_ptx(OpCode::cvt, {"pack", "sat", type, "s32", "b32"},
                      {d, a, b, rest.part.empty() ? word(rest) : part(rest, "U16")});
    if (!is_zero(rest)) unsupported("a result that is merged");
    as_ptx(OpCode::cvt, {"pack", "sat", type, "s32"}, {d, a, b});
}

}  // namespace coalesce::sass
