// The identity of an operation: an enumerator for each row of the table ops.inc.
//
// Decoders find it once, from the text of an instruction. Whoever comes later compares enumerators
// or asks for traits (traits.hpp); nobody reads an opcode's text again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace coalesce::sim {

enum class OpCode : uint16_t {
    unknown,  // in no row
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) code,
#include "sim/ops.inc"
#undef COALESCE_OPERATION
};

inline constexpr size_t operation_count = [] {
    size_t count = 1;
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) ++count;
#include "sim/ops.inc"
#undef COALESCE_OPERATION
    return count;
}();

// Which execution unit of a multiprocessor issues an instruction that does not access memory.
enum class Pipe : uint8_t {
    other,    // none of those below, or not known
    fp32,     // floating-point numbers of 32 bits: FFMA, FADD, FMUL
    fp64,     // of 64 bits
    alu,      // integers, logic, comparisons
    xu,       // conversions, transcendental functions
    tensor,   // products of matrices
    by_type,  // in ops.inc only: fp32 or fp64, as the instruction's type says
};

// A row of the table.
struct Operation {
    OpCode code = OpCode::unknown;
    std::string_view spelling;
    Pipe pipe = Pipe::other;
    uint32_t traits = 0;  // a sum of the constants in traits.hpp
    std::string_view sentence;
    [[nodiscard]] bool has(uint32_t trait) const { return (traits & trait) != 0; }
    // Machine code is written in capitals.
    [[nodiscard]] bool is_machine_code() const {
        return !spelling.empty() && spelling[0] >= 'A' && spelling[0] <= 'Z';
    }
};

// All rows, in the order of OpCode; the first is that of `unknown`.
[[nodiscard]] std::span<const Operation> operations();

[[nodiscard]] inline const Operation& operation(OpCode code) {
    return operations()[static_cast<size_t>(code)];
}

// The operation of a whole opcode: that with the longest spelling which the opcode starts with, up
// to a dot. "bar.warp.sync" is bar_warp, "bar.sync" is bar, "nonsense.u32" is unknown.
[[nodiscard]] OpCode opcode_named(std::string_view opcode);

}  // namespace coalesce::sim
