// How decoders choose a handler: a request for an operation, and the selection that answers it.
//
// METHOD
// A row of ops.inc names a function that gets the Request and the modifiers. It consumes each
// modifier that it gives a meaning, and returns the handler with the types of its operands. The
// decoder of PTX converts operands to these types; the lifter of machine code splits and joins
// registers for them.
//
// This header and modifiers.hpp are included where lanes' loops are compiled once per instruction
// set. Nothing in them may become a function of its own there: the linker keeps one of several
// equal inline functions, and that could be one with instructions that the processor lacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "ptx/module.hpp"
#include "sim/modifiers.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

struct Request {
    OpCode code = OpCode::unknown;
    std::span<const ptx::Operand> operands;  // of the lifter: as many, none of any kind
};

// The types of an operation's operands, destinations first.
class OperandTypes {
  public:
    static constexpr size_t most = std::extent_v<decltype(Op::operand)>;

    constexpr OperandTypes() = default;
    [[gnu::always_inline]] constexpr OperandTypes(std::initializer_list<ptx::Type> types) {
        for (const ptx::Type type : types) push_back(type);
    }
    // `count` operands of one type.
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

// The types say how wide registers are read and how immediates are converted.
struct Selection {
    Handler run = nullptr;  // null: there is none for these types and modifiers
    OperandTypes types;
    uint8_t destinations = 1;
    Payload payload;
    bool synchronizes = false;  // the last operand is a member mask
};

// What an atomic leaves in memory; ops_transfer.cpp says it of each.
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

// Updates that only replace or combine bits, whatever type these are of.
[[nodiscard]] constexpr bool is_bitwise(AtomicUpdate update) {
    return update == AtomicUpdate::exchange || update == AtomicUpdate::compare_and_swap ||
           update == AtomicUpdate::bit_and || update == AtomicUpdate::bit_or ||
           update == AtomicUpdate::bit_xor;
}

// The handlers of ops_matrix.cpp.
enum class MatrixKind : uint8_t {
    product,    // by Matrices::arithmetic
    doubles,    // a chain of fused multiply-adds
    in_floats,  // m8n8k4 of halves without tensor cores for it: by FFMA, each group of 8 lanes
    transpose,
};

}  // namespace coalesce::sim
