// Decodes operands. Each register, immediate value or symbol is converted to a Locator
// (locator.hpp), which says where the handler finds the value. Special registers and addresses of
// local variables are first copied to a scratch register.
#include <algorithm>
#include <bit>
#include <cstring>

#include "errors.hpp"
#include "ptx/lexer.hpp"
#include "sim/decode/decode.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Type;

// Returns the bits that an immediate value has in a lane of this type.
uint64_t Decoder::immediate_bits(const Operand& operand, Type type) {
    const auto as_double = [&] {
        if (operand.kind == Operand::Kind::f32)
            return double(std::bit_cast<float>(uint32_t(operand.bits)));
        if (operand.kind == Operand::Kind::f64) return std::bit_cast<double>(operand.bits);
        return double(int64_t(operand.bits));
    };
    const bool integer = operand.kind == Operand::Kind::integer;
    switch (type) {
        case Type::f32:
            if (operand.kind == Operand::Kind::f32) return operand.bits;
            return integer ? operand.bits : std::bit_cast<uint32_t>(float(as_double()));
        case Type::f64:
            if (operand.kind == Operand::Kind::f64) return operand.bits;
            return integer ? operand.bits : std::bit_cast<uint64_t>(as_double());
        default:
            return operand.bits;
    }
}

// Appends an op that stores the negation of a predicate to a scratch register, and returns this
// register.
Locator Decoder::negated(Locator predicate) {
    const Locator opposite = scratch();
    append_not(opposite, predicate);
    return opposite;
}

uint32_t Decoder::register_bytes(const Operand& operand) const {
    if (operand.kind != Operand::Kind::reg) return 0;
    const Type t = current_->function->registers[size_t(operand.reg)].type;
    return t == Type::pred ? 0 : std::max(2u, ptx::size_of(t));
}

Locator Decoder::source(const Operand& operand, Type type) {
    if (type == Type::pred &&
        (operand.kind == Operand::Kind::special || operand.kind == Operand::Kind::symbol))
        malformed("`" + std::string(operand.name) + "` is not a predicate");
    const uint32_t width = type == Type::pred ? 0 : std::max(2u, ptx::size_of(type));
    switch (operand.kind) {
        case Operand::Kind::reg:
            return slot(operand.reg, type);
        case Operand::Kind::integer:
        case Operand::Kind::f32:
        case Operand::Kind::f64:
            return constant(immediate_bits(operand, type), width);
        case Operand::Kind::special: {
            Op op;
            const Selection s = engine_.ops->special(special_named(operand.name), type);
            if (!s.run)
                throw UnsupportedInstruction("the special register " + std::string(operand.name) +
                                             " is not simulated");
            op.run = s.run;
            op.payload() = s.payload;
            op.operand[0] = scratch();
            return append(op).operand[0];
        }
        case Operand::Kind::symbol: {
            uint32_t offset = 0;
            if (find_local(operand, offset)) {
                Op op;
                op.run = engine_.ops->local_address;
                op.set(LocalAddress{offset + uint64_t(operand.offset), uint8_t(width)});
                op.operand[0] = scratch();
                return append(op).operand[0];
            }
            return constant(address_of_symbol(operand), width);
        }
        default:
            malformed("an operand is neither a register nor a value");
    }
}

Locator Decoder::destination(const Operand& operand, Type type) {
    // A sink (_) is a result that is not needed. It is written to a scratch register.
    if (operand.kind == Operand::Kind::sink) return scratch();
    if (operand.kind != Operand::Kind::reg) malformed("a result is not a register");
    return slot(operand.reg, type);
}

// Returns the slot of a register. Checks that the register is a predicate if and only if the
// instruction needs a predicate. Also checks that the register has the width of the type. Only ld,
// st and cvt accept wider registers (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
Locator Decoder::slot(int32_t reg, Type type) const {
    const ptx::Register& r = current_->function->registers[size_t(reg)];
    const bool widens = opcode_ == OpCode::ld || opcode_ == OpCode::ldu || opcode_ == OpCode::st ||
                        opcode_ == OpCode::cvt;
    const uint32_t have = ptx::size_of(r.type), need = ptx::size_of(type);
    const bool fits = type == Type::pred ? r.type == Type::pred
                                         : need > 0 && (widens ? have >= need : have == need);
    if (!fits)
        malformed("register " + r.name + " has type ." + std::string(ptx::name_of(r.type)) +
                  ", but " +
                  (need == 0 && type != Type::pred
                       ? "the instruction has no type for this operand"
                       : std::string("the operand needs ") +
                             (widens && type != Type::pred ? "at least ." : ".") +
                             std::string(ptx::name_of(type))));
    const Locator at = current_->slots[size_t(reg)];
    if (at == no_operand) malformed("register " + r.name + " is neither written nor read here");
    return at;
}

Locator Decoder::address_slot(int32_t reg) const {
    const Type type = current_->function->registers[size_t(reg)].type;
    const bool real =
        type == Type::f32 || type == Type::f64 || type == Type::f16x2 || type == Type::bf16x2;
    if (real || (ptx::size_of(type) != 4 && ptx::size_of(type) != 8))
        malformed("register " + current_->function->registers[size_t(reg)].name + " has type ." +
                  std::string(ptx::name_of(type)) +
                  ", but an address needs an integer of 32 or 64 bits");
    return slot(reg, type);
}

void Decoder::malformed(const std::string& why) const {
    throw ptx::error_at(*module_.text, instruction_->position,
                        "`" + program_.instructions.at(pc_).text + "`: " + why);
}

bool Decoder::find_local(const Operand& symbol, uint32_t& offset) const {
    if (symbol.variable >= 0) {
        const size_t n = size_t(symbol.variable);
        const ptx::Space space = current_->function->variables[n].space;
        offset = current_->variables[n];
        return space == ptx::Space::local || space == ptx::Space::param;
    }
    const auto formal = current_->formals.find(symbol.name);
    if (formal == current_->formals.end()) return false;
    offset = formal->second;
    return true;
}

const ptx::Variable* Decoder::find_shared(std::string_view name) const {
    for (const ptx::Variable& v : current_->function->variables) {
        if (v.name == name && v.space == ptx::Space::shared) return &v;
    }
    const ptx::Variable* v = module_.find_variable(name);
    return v && v->space == ptx::Space::shared ? v : nullptr;
}

uint64_t Decoder::address_of_symbol(const Operand& operand) {
    const std::string name(operand.name);
    const uint64_t by = uint64_t(operand.offset);
    if (const ptx::Variable* v = find_shared(name)) {
        const uint64_t dynamic = program_.shared_bytes;
        return program_.reserved_shared + by +
               (v->count == 0 ? dynamic : program_.shared_variables.at(name).first);
    }
    if (current_->function->entry) {
        for (const ParameterInfo& p : program_.parameters) {
            if (p.name == name) return p.offset + by;
        }
    }
    const auto variable = program_.memory->address_of.find(name);
    if (variable != program_.memory->address_of.end()) return variable->second + by;
    if (const uint64_t address = function_address(module_, name)) return address + by;
    const ptx::Function* const f = module_.find_function(name);
    if (f && f->entry)
        throw UnsupportedInstruction("the code takes the address of the kernel " + name +
                                     "; the simulator does not support addresses of kernels, or "
                                     "launches from kernels");
    if (f)
        throw UnsupportedInstruction("the code takes the address of the function " + name +
                                     ", but " + name + " has no body in this module");
    throw UnsupportedInstruction("the symbol " + name + " is not defined in this module");
}

}  // namespace coalesce::sim
