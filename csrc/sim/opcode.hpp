// Opcodes: an enumerator for each row of the table ops.inc.
//
// Decoders determine it once from the text of an instruction. All other code compares enumerators
// or uses traits (traits.hpp), and does not read the text of an opcode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace coalesce::sim {

enum class OpCode : uint16_t {
    unknown,  // no row of the table has this spelling
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

// The execution units of a multiprocessor. One of them executes each instruction without memory
// access.
enum class Pipe : uint8_t {
    other,    // none of the following units, or the unit is not known
    fp32,     // 32-bit floating-point arithmetic: FFMA, FADD, FMUL
    fp64,     // 64-bit floating-point arithmetic
    alu,      // integer arithmetic, logic and comparisons
    xu,       // conversions and transcendental functions
    tensor,   // matrix products
    by_type,  // Used in ops.inc only. The type of the instruction chooses between fp32 and fp64.
};

// One row of the table.
struct Operation {
    OpCode code = OpCode::unknown;
    std::string_view spelling;
    Pipe pipe = Pipe::other;
    uint32_t traits = 0;  // the sum of some constants of traits.hpp
    std::string_view sentence;
    [[nodiscard]] bool has(uint32_t trait) const { return (traits & trait) != 0; }
    // The spelling of machine code has capital letters.
    [[nodiscard]] bool is_machine_code() const {
        return !spelling.empty() && spelling[0] >= 'A' && spelling[0] <= 'Z';
    }
};

// All rows, in the order of OpCode. The first row is `unknown`.
[[nodiscard]] std::span<const Operation> operations();

[[nodiscard]] inline const Operation& operation(OpCode code) {
    return operations()[static_cast<size_t>(code)];
}

// Returns the operation of a whole opcode: the one with the longest spelling that is a prefix of
// the opcode, up to a dot. "bar.warp.sync" is bar_warp, "bar.sync" is bar, "nonsense.u32" is
// unknown.
[[nodiscard]] OpCode opcode_named(std::string_view opcode);

}  // namespace coalesce::sim
