// Finds the register, constant or predicate of an operand, applies its sign, and appends
// operations.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "errors.hpp"
#include "round_up.hpp"
#include "sass/lifter.hpp"
#include "sim/ptx_analysis/modifiers.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;

const Operand& Lifter::operand(const Instruction& in, size_t n) const {
    if (n >= in.operands.size()) unsupported("an operand is missing");
    used_ |= uint64_t{1} << n;
    return in.operands[n];
}

bool Lifter::is_zero(const Operand& o) {
    return (o.kind == Kind::reg && o.number < 0) || (o.kind == Kind::integer && o.bits == 0) ||
           (o.kind == Kind::real && o.value == 0 && o.bits == 0 && !std::signbit(o.value));
}

Locator Lifter::constant(uint32_t bits) {
    // The constant zero gets as many registers as the widest operand has.
    return Emitter::constant(bits, 4, bits == 0 ? uint32_t(max_registers) : 1);
}

Locator Lifter::constant_pair(uint64_t bits) {
    return bits == 0 ? constant(0) : Emitter::constant(bits, 4, 2);
}

namespace {

// Returns true if a word of constant bank 0 belongs to the parameters, or to the data about the
// launch that machine_constants() fills in (sim/warp/machine.cpp). The pair of words at 0x208
// describes global memory. The simulator does not need it.
bool is_known_field(uint32_t offset, int registers, uint32_t parameter_bytes) {
    if (offset >= sim::first_parameter)
        return offset < sim::first_parameter + round_up(parameter_bytes, 4u);
    static constexpr struct {
        uint32_t begin, end;
    } fields[] = {{0, 0x18},    {0x20, 0x2c},   {0x44, 0x4c},   {0x6c, 0x70},
                  {0xd0, 0xd8}, {0x140, 0x168}, {0x188, 0x18c}, {0x198, 0x1a0}};
    return (offset >= 0x208 && registers == 2) || std::ranges::any_of(fields, [&](const auto& f) {
               return offset >= f.begin && offset < f.end;
           });
}

}  // namespace

Locator Lifter::bank_word(uint32_t bank, uint32_t offset, int registers) {
    if (bank == 0 && (offset == 0xd0 || offset == 0xd4) && machine_->variables.size() != 1)
        unsupported("the address of one of several constant variables");
    // The PTX of the kernel is executed instead. There, an access outside the parameters is a
    // fault.
    for (uint32_t n = 0; bank == 0 && n < uint32_t(registers); ++n) {
        if (!is_known_field(offset + 4 * n, registers, program_.parameter_bytes))
            unsupported("a constant outside the parameters");
    }
    const auto [it, fresh] = bank_words_.try_emplace({bank, offset, registers}, 0);
    if (!fresh) return it->second;
    it->second = new_constant(uint32_t(registers) * register_bytes);
    for (uint32_t n = 0; n < uint32_t(registers); ++n)
        machine_->words.push_back({(it->second >> 1) + n * register_bytes, bank, offset + 4 * n});
    return it->second;
}

// Returns the exact bits of a 32-bit immediate operand, from the encoding of the instruction. The
// text of nvdisasm is not enough: it rounds numbers, and prints all NaNs in the same way.
uint32_t Lifter::immediate(const Operand& o, uint32_t printed) const {
    if (in_->lower == 0) return printed;
    const auto encoded = uint32_t(in_->lower >> 32);
    if (encoded != printed && !std::isnan(o.value)) unsupported("its immediate operand");
    return encoded;
}

Locator Lifter::raw(const Operand& o, int registers) {
    if (o.negated || o.inverted || o.absolute || !o.part.empty())
        unsupported("the operand " + std::string(o.text));
    return bare(o, registers);
}

Locator Lifter::bare(const Operand& o, int registers) {
    if (o.wide && o.kind != Kind::address) unsupported("the operand " + std::string(o.text));
    switch (o.kind) {
        case Kind::reg:
            if (o.number < 0) return constant(0);
            return ((o.uniform ? uniforms_ : general_) + uint32_t(o.number) * register_bytes) << 1;
        case Kind::integer:
            if (registers > 2 && o.bits != 0) unsupported("a wide constant");
            return registers == 1 ? constant(uint32_t(o.bits)) : constant_pair(o.bits);
        case Kind::real:
            if (registers > 1) unsupported("a wide constant");
            return constant(immediate(o, std::bit_cast<uint32_t>(float(o.value))));
        case Kind::bank:
            if (uint32_t(o.number) >= sim::MachineCode::banks)
                unsupported("an unknown constant bank");
            if (o.base >= 0 || o.uniform_base >= 0) {
                if (registers > 2) unsupported("a wide constant by an index");
                const Locator d = scratch();
                const bool uniform = o.base < 0;
                Operand index;
                index.kind = Kind::reg;
                index.uniform = uniform;
                index.number = uniform ? o.uniform_base : o.base;
                machine_to_scratch(
                    registers == 2 ? MachineOp::load_bank_b64 : MachineOp::load_bank_b32,
                    {d, raw(index)}, sim::ConstantBank{uint8_t(o.number), uint32_t(o.offset)});
                return d;
            }
            return bank_word(uint32_t(o.number), uint32_t(o.offset), registers);
        default:
            unsupported("the operand " + std::string(o.text));
    }
}

Locator Lifter::word(const Operand& o) {
    if (!o.part.empty()) unsupported("a part of a register");
    // Integers are printed in hexadecimal. The only exception is 0.
    if (o.kind == Kind::real && o.value != double(int64_t(o.bits))) unsupported("a real number");
    const Locator at = o.kind == Kind::real ? constant(uint32_t(o.bits)) : bare(o);
    if (o.absolute || (o.negated && o.inverted)) unsupported("the operand " + std::string(o.text));
    if (!o.negated && !o.inverted) return at;
    const Locator d = scratch();
    if (o.negated)
        as_ptx_to_scratch(OpCode::neg, {"s32"}, {d, at});
    else
        as_ptx_to_scratch(OpCode::not_, {"b32"}, {d, at});
    return d;
}

Locator Lifter::real(const Operand& o) {
    if (!o.part.empty() || o.inverted) unsupported("the operand " + std::string(o.text));
    Locator at = bare(o);
    if (o.absolute) {
        const Locator d = scratch();
        as_ptx_to_scratch(OpCode::and_, {"b32"}, {d, at, constant(0x7fffffff)});
        at = d;
    }
    if (o.negated) {
        const Locator d = scratch();
        as_ptx_to_scratch(OpCode::xor_, {"b32"}, {d, at, constant(0x80000000)});
        at = d;
    }
    return at;
}

Locator Lifter::real_pair(const Operand& o) {
    if (!o.part.empty() || o.inverted) unsupported("the operand " + std::string(o.text));
    if (o.kind == Kind::real) {  // the immediate is the upper word of a double
        const uint64_t bits = std::bit_cast<uint64_t>(o.value);
        return constant_pair(uint64_t{immediate(o, uint32_t(bits >> 32))} << 32);
    }
    if (o.kind == Kind::integer) return constant_pair(o.bits << 32);
    const Locator at = bare(o, 2);
    if (!o.negated && !o.absolute) return at;
    const Locator d = scratch();
    machine_to_scratch(MachineOp::pair_sign, {d, at}, sim::SignOperand{o.negated, o.absolute});
    return d;
}

uint32_t Lifter::half_bits(const Operand& o, bool bfloat) {
    if (o.kind == Kind::integer) return uint32_t(o.bits) & 0xffff;
    const uint32_t bits = std::bit_cast<uint32_t>(float(o.value));
    if (bfloat) return bits >> 16;
    const uint32_t sign = bits >> 16 & 0x8000;
    const double size = std::abs(o.value);
    if (!(size < 65536)) return sign | (size == size ? 0x7c00 : 0x7fff);
    if (size < 0x1p-14) return sign | uint32_t(size * 0x1p24);
    return sign | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff);
}

Locator Lifter::half_pair(const Operand& o) {
    Locator at = bare(o);
    if (o.kind == Kind::real || o.kind == Kind::integer || o.inverted)
        unsupported("the operand " + std::string(o.text));
    const std::string_view part = o.part;
    if (part == "H0_H0" || part == "H1_H1") {
        const Locator d = scratch();
        as_ptx_to_scratch(OpCode::prmt, {"b32"},
                          {d, at, at, constant(part == "H0_H0" ? 0x1010 : 0x3232)});
        at = d;
    } else if (part == "H0_NH1") {  // the upper half is half 0; the lower half is minus half 1
        const Locator swapped = scratch(), d = scratch();
        as_ptx_to_scratch(OpCode::prmt, {"b32"}, {swapped, at, at, constant(0x1032)});
        as_ptx_to_scratch(OpCode::xor_, {"b32"}, {d, swapped, constant(0x8000)});
        at = d;
    } else if (!part.empty() && part != "H1_H0") {
        unsupported("the halves ." + std::string(part));
    }
    if (o.absolute) {
        const Locator d = scratch();
        as_ptx_to_scratch(OpCode::and_, {"b32"}, {d, at, constant(0x7fff7fff)});
        at = d;
    }
    if (o.negated) {
        const Locator d = scratch();
        as_ptx_to_scratch(OpCode::xor_, {"b32"}, {d, at, constant(0x80008000)});
        at = d;
    }
    return at;
}

// Returns a byte or half of a register, extended to 32 bits. Examples are R1.B2 as S8 and R1.H1 as
// U16.
Locator Lifter::part(const Operand& o, std::string_view type) {
    Operand whole = o;
    whole.part = {};
    const Locator at = word(whole);
    const bool is_signed = type.starts_with('S');
    const uint32_t width = type.ends_with("16") ? 16 : type.ends_with('8') ? 8 : 32;
    if (width == 32 && o.part.empty()) return at;
    uint32_t first = 0;
    if (o.part.size() >= 2 && (o.part[0] == 'B' || o.part[0] == 'H'))
        first = uint32_t(o.part[1] - '0') * (o.part[0] == 'B' ? 8 : 16);
    else if (!o.part.empty())
        unsupported("the part ." + std::string(o.part));
    const Locator d = scratch();
    as_ptx_to_scratch(OpCode::bfe, {is_signed ? "s32" : "u32"},
                      {d, at, constant(first), constant(width)});
    return d;
}

Locator Lifter::result(const Operand& o, int registers) {
    if (o.kind != Kind::reg) unsupported("the result " + std::string(o.text));
    if (o.number >= 0 && !o.uniform) written_.push_back({pc_, o.number, registers});
    return o.number < 0 ? scratch() : raw(o, registers);
}

Locator Lifter::predicate(const Operand& o) {
    if (o.kind != Kind::predicate || o.inverted || o.absolute || !o.part.empty())
        unsupported("the predicate " + std::string(o.text));
    if (o.number < 0) return truth(!o.negated);
    const Locator at = predicate_at(o);
    if (!o.negated) return at;
    const Locator d = scratch_predicate();
    append_not(d, at);
    return d;
}

Locator Lifter::predicate_result(const Operand& o) {
    if (o.kind != Kind::predicate || o.negated || o.inverted || o.absolute || !o.part.empty())
        unsupported("the predicate " + std::string(o.text));
    if (o.number < 0) return no_operand;
    return predicate_at(o);
}

Locator Lifter::written_predicate(const Operand& o) {
    const Locator at = predicate_result(o);
    return at == no_operand ? scratch_predicate() : at;
}

Op Lifter::whole_warp(Op op) const {
    if (!uniform_ || !op.run || op.control != sim::Control::none || op.inner) return op;
    op.inner = op.run;
    op.run = engine_.ops->machine(MachineOp::whole_warp);
    return op;
}

Guard Lifter::guard() {
    const Operand& o = in_->guard;
    if (o.kind != Kind::predicate) return {};
    if (o.number < 0) return {truth(true), o.negated};
    return {predicate_at(o), o.negated};
}

Op Lifter::machine_op(MachineOp code, std::initializer_list<Locator> operands,
                      const sim::Payload& payload) const {
    Op op;
    op.run = engine_.ops->machine(code);
    std::ranges::copy(operands, op.operand);
    op.payload() = payload;
    return op;
}

Op& Lifter::machine(MachineOp code, std::initializer_list<Locator> operands,
                    const sim::Payload& payload) {
    return emit(machine_op(code, operands, payload));
}

void Lifter::machine_to_scratch(MachineOp code, std::initializer_list<Locator> operands,
                                const sim::Payload& payload) {
    append(machine_op(code, operands, payload));
}

void Lifter::as_ptx(OpCode code, Words words, std::initializer_list<Locator> operands, int table) {
    emit_ptx(code, words, operands, table, guard());
}

void Lifter::as_ptx_to_scratch(OpCode code, Words words, std::initializer_list<Locator> operands) {
    emit_ptx(code, words, operands, -1, {});
}

// Appends an operation that PTX has, too. This operation expects a 64-bit value in one register of
// 64 bits. In machine code, the value is in a pair of registers instead. A 16-bit value is the
// lower half of a register. Such operands are converted in scratch registers before the operation,
// and results after it.
void Lifter::emit_ptx(OpCode code, Words words, std::initializer_list<Locator> operands, int table,
                      Guard guard) {
    std::vector<std::string_view> present;
    std::ranges::copy_if(words, std::back_inserter(present),
                         [](std::string_view word) { return !word.empty(); });
    std::vector<ptx::Operand> shape(operands.size());
    if (table >= 0) {
        shape.emplace_back().kind = ptx::Operand::Kind::integer;
        shape.back().bits = uint64_t(table);
    }
    sim::Modifiers modifiers(present);
    const sim::Selection selection = engine_.ops->select({code, shape}, modifiers);
    if (!selection.run || !modifiers.empty())
        unsupported("no operation " + std::string(sim::operation(code).spelling));
    Op op;
    op.run = selection.run;
    op.payload() = selection.payload;
    struct Split {
        Locator pair, whole;
        uint32_t bytes;
    };
    std::vector<Split> results;
    size_t n = 0;
    for (const Locator operand : operands) {
        const ptx::Type type = n < selection.types.size() ? selection.types[n] : ptx::Type::b32;
        const uint32_t bytes = ptx::size_of(type);
        if (operand == no_operand || type == ptx::Type::pred || bytes == 4) {
            op.operand[n++] = operand;
            continue;
        }
        const Locator narrow = scratch();
        if (n < selection.destinations) {
            results.push_back({operand, narrow, bytes});
        } else if (bytes == 8) {
            machine_to_scratch(MachineOp::join_pair, {narrow, operand});
        } else {
            Op cut;
            cut.run = engine_.ops->resize(ptx::Type::u32, bytes);
            cut.operand[0] = narrow;
            cut.operand[1] = operand;
            append(cut);
        }
        op.operand[n++] = narrow;
    }
    Emitter::emit(whole_warp(op), guard);
    for (const Split& r : results) {
        Op widen;
        widen.run = r.bytes == 8   ? engine_.ops->machine(MachineOp::split_pair)
                    : r.bytes == 2 ? engine_.ops->resize(ptx::Type::u16, 4)
                                   : engine_.ops->resize(ptx::Type::u8, 4);
        widen.operand[0] = r.pair;
        widen.operand[1] = r.whole;
        Emitter::emit(whole_warp(widen), guard);
    }
}

}  // namespace coalesce::sass
