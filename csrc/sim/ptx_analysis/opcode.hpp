// Opcodes: the enumeration OpCode, with one enumerator for each row of the table ops.inc.
//
// Decoders determine the OpCode of an instruction once, from the text of the instruction. All other
// code compares OpCodes, or uses the traits of the instruction (traits.hpp). It does not read the
// text again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace coalesce::ptx {
struct Instruction;
}

namespace coalesce::sim {

enum class OpCode : uint16_t {
    unknown,  // no row of the table has this spelling
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) code,
#include "sim/ptx_analysis/ops.inc"
#undef COALESCE_OPERATION
};

inline constexpr size_t operation_count = [] {
    size_t count = 1;
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) ++count;
#include "sim/ptx_analysis/ops.inc"
#undef COALESCE_OPERATION
    return count;
}();

// The execution units of a multiprocessor. Each instruction that does not access memory is executed
// by one of them.
enum class Pipe : uint8_t {
    other,    // none of the following units, or the unit is not known
    fp32,     // 32-bit floating-point arithmetic: FFMA, FADD, FMUL
    fp64,     // 64-bit floating-point arithmetic
    alu,      // integer arithmetic, logic and comparisons
    xu,       // conversions and transcendental functions
    tensor,   // matrix products
    by_type,  // Used in ops.inc only. The type of the instruction chooses between fp32 and fp64.
};

// Constants for the column `traits` in ops.inc.
namespace trait {
inline constexpr uint32_t block_barrier = 1u << 0;    // a barrier for the threads of a block
inline constexpr uint32_t warp_barrier = 1u << 1;     // a barrier for the lanes of a member mask
inline constexpr uint32_t aligned = 1u << 2;          // all lanes must reach the barrier together
inline constexpr uint32_t shuffle = 1u << 3;          // reads registers of other lanes
inline constexpr uint32_t atomic = 1u << 4;           // updates memory atomically
inline constexpr uint32_t fence = 1u << 5;            // orders memory accesses
inline constexpr uint32_t ends_copy_group = 1u << 6;  // ends a group of asynchronous copies
inline constexpr uint32_t awaits_copies = 1u << 7;
inline constexpr uint32_t no_result = 1u << 8;  // writes no register
// These two traits are for the decoder. `negates`: a predicate operand may be written with a
// negation (!p), and the handler negates it. The payload (payload.hpp) says which operand is
// negated. `any_width`: registers may be wider than the types of the instruction, as in cvt.
inline constexpr uint32_t negates = 1u << 9;
inline constexpr uint32_t any_width = 1u << 10;
// The instruction arrives at an mbarrier (a release in the memory model), or it waits for an
// mbarrier (an acquire).
inline constexpr uint32_t mbarrier = 1u << 11;
inline constexpr uint32_t bulk = 1u << 12;     // copies without the load/store unit
inline constexpr uint32_t matrix = 1u << 13;   // lanes provide the addresses of a matrix's rows
inline constexpr uint32_t texture = 1u << 14;  // accesses a texture or surface, by the texture unit
inline constexpr uint32_t cluster = 1u << 15;  // communicates with the blocks of its cluster
inline constexpr uint32_t warpgroup = 1u << 20;        // four warps together multiply matrices
inline constexpr uint32_t ends_bulk_group = 1u << 21;  // ends a group of bulk copies
inline constexpr uint32_t two_predicates =
    1u << 22;  // machine code: its first two operands are results
// These four traits are for the analyses of control flow and data flow (control_flow.hpp,
// data_flow.hpp, address_families.hpp). Only rows of PTX have them. `pure`: the result depends only
// on the operands, so lanes with equal operands get equal results. This trait is used only for an
// optimization, so a row may omit it.
inline constexpr uint32_t branch = 1u << 16;       // goes to a label of the function
inline constexpr uint32_t leaves = 1u << 17;       // returns from the function, or ends the thread
inline constexpr uint32_t accumulates = 1u << 18;  // reads its destination before it writes it
inline constexpr uint32_t pure = 1u << 19;
}  // namespace trait

// One row of the table.
struct Operation {
    OpCode code = OpCode::unknown;
    std::string_view spelling;
    Pipe pipe = Pipe::other;
    uint32_t traits = 0;  // the sum of some constants of `trait`
    std::string_view sentence;
    [[nodiscard]] bool has(uint32_t trait) const { return (traits & trait) != 0; }
    // Returns true if the row is for machine code. The spelling of such a row starts with a capital
    // letter, as in "FFMA".
    [[nodiscard]] bool is_machine_code() const {
        return !spelling.empty() && spelling[0] >= 'A' && spelling[0] <= 'Z';
    }
};

// Returns all rows, in the order of OpCode. The first row is `unknown`.
[[nodiscard]] std::span<const Operation> operations();

[[nodiscard]] inline const Operation& operation(OpCode code) {
    return operations()[static_cast<size_t>(code)];
}

// Returns the OpCode for an opcode as PTX writes it: bar for "bar.sync", bar_warp for
// "bar.warp.sync", and unknown for "nonsense.u32". A row of ops.inc matches if the text begins with
// its spelling, and a dot or the end of the text follows. If several rows match, the one with the
// longest spelling is taken.
[[nodiscard]] OpCode opcode_named(std::string_view opcode);

// Returns the opcode of an instruction of PTX with its modifiers: "ld.volatile.global.u32".
[[nodiscard]] std::string full_opcode(const ptx::Instruction& instruction);

}  // namespace coalesce::sim
