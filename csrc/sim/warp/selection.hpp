// How decoders choose the handler of an instruction: they make an InstructionForm, which describes
// the instruction, and get a Selection, which contains the handler.
//
// METHOD
// Each row of ops.inc has the name of a function in its column `select`. This function gets the
// InstructionForm and the list of modifiers. It removes the modifiers that it understands from the
// list, and returns the handler and the types of the operands. The decoder of PTX converts operands
// to these types. The lifter of machine code splits registers or combines them to get operands of
// these types.
//
// This header and modifiers.hpp are included in files that are compiled once for each instruction
// set of the host. All functions here must be inlined. Otherwise several object files would contain
// the same function, compiled for different instruction sets. The linker would keep only one of
// these versions, perhaps one with instructions that the processor does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "ptx/module.hpp"
#include "sim/program/program.hpp"
#include "sim/ptx_analysis/modifiers.hpp"

namespace coalesce::sim {

// The instruction for which a handler is chosen. Its modifiers are passed separately.
struct InstructionForm {
    OpCode code = OpCode::unknown;
    // The operands of the instruction. For machine code, only the length of this list is right: its
    // elements are empty.
    std::span<const ptx::Operand> operands;
};

// The types of an operation's operands. The destinations come first.
class OperandTypes {
  public:
    static constexpr size_t most = std::extent_v<decltype(Op::operand)>;

    constexpr OperandTypes() = default;
    [[gnu::always_inline]] constexpr OperandTypes(std::initializer_list<ptx::Type> types) {
        for (const ptx::Type type : types) push_back(type);
    }
    // Returns `count` operands of the same type.
    [[gnu::always_inline]] static constexpr OperandTypes all(ptx::Type type, size_t count) {
        OperandTypes types;
        for (size_t n = 0; n < count; ++n) types.push_back(type);
        return types;
    }
    [[gnu::always_inline]] constexpr void push_back(ptx::Type type) { types_[size_++] = type; }
    [[nodiscard]] constexpr size_t size() const { return size_; }
    [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
    [[nodiscard]] constexpr ptx::Type operator[](size_t n) const { return types_[n]; }

  private:
    ptx::Type types_[most] = {};
    uint8_t size_ = 0;
};

// The handler that was chosen, and the types of its operands. Decoders use the types to choose the
// width of registers and to convert immediate values.
struct Selection {
    Handler run = nullptr;  // null if there is no handler for these types and modifiers
    OperandTypes types;
    uint8_t destinations = 1;
    Payload payload;
    // the last operand is a member mask, and its lanes must reconverge first
    bool synchronizes = false;
};

// How an atomic updates memory. memory/transfer.cpp has the updates.
enum class AtomicUpdate : uint8_t {
    add,
    minimum,
    maximum,
    exchange,
    compare_and_swap,
    bit_and,
    bit_or,
    bit_xor,
    increment,
    decrement,
};

// Returns true if an update only replaces or combines bits. Then the type of the value does not
// matter.
[[nodiscard]] constexpr bool is_bitwise(AtomicUpdate update) {
    return update == AtomicUpdate::exchange || update == AtomicUpdate::compare_and_swap ||
           update == AtomicUpdate::bit_and || update == AtomicUpdate::bit_or ||
           update == AtomicUpdate::bit_xor;
}

// The kinds of handlers in matrix/matrix.cpp.
enum class MatrixKind : uint8_t {
    product,  // computes the product that Matrices::arithmetic specifies
    doubles,  // computes each element with a chain of fused multiply-adds
    // computes m8n8k4 of halves without tensor cores: with FFMA, for each group of 8 lanes
    in_floats,
    transpose,
};

}  // namespace coalesce::sim
