// Data flow: the registers that each instruction reads and writes, and the live range of each
// register.
//
// The decoder uses the live ranges to give several registers the same place (decode.cpp). Analyses
// use the DataFlow of each instruction, which Program::data_flow stores, to follow values through
// the code (analysis/counts/dependence.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ptx/module.hpp"
#include "sim/ptx_analysis/control_flow.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

// The registers that an instruction writes, and the registers that it reads. An instruction with a
// guard may write a register in some lanes only. The other lanes keep the old value of this
// register, so the register also counts as read.
struct Effects {
    std::vector<uint32_t> writes;
    std::vector<uint32_t> reads;
};
// Returns the registers that an instruction writes and reads. `traits` are its traits. An
// instruction without a row in ops.inc counts as one that only reads.
[[nodiscard]] Effects effects_of(const ptx::Instruction& instruction, const Traits& traits);

// Describes the data flow through an instruction, for analyses that do not have the PTX instruction
// itself.
struct DataFlow : Effects {
    // The part of `reads` that determines addresses. The base of the first address comes first.
    std::vector<uint32_t> address;
    std::string symbol;  // the variable in the first address, such as [s+4], or empty
    int64_t offset = 0;  // the constant offset in the first address
    // Some instructions copy a register or add a constant to it: mov, cvta, and integer additions.
    // For them, `copied` is the register, and the result is `copied` + `added`. For other
    // instructions, `copied` is -1.
    int32_t copied = -1;
    int64_t added = 0;
    bool guarded = false;
    // The instructions of the function that may be next, as indices into Program::instructions.
    // decode() sets them.
    std::vector<uint32_t> successors;
};
[[nodiscard]] DataFlow data_flow(const ptx::Instruction& instruction, const Traits& traits);

// The range of instructions in which a register must keep its value. It is the smallest interval,
// in the order of the PTX text, that contains all instructions at which the register is live,
// written or read.
struct LiveRange {
    uint32_t first = UINT32_MAX;  // if first > last, the register is never used
    uint32_t last = 0;            // the last instruction belongs to the range
};
// Returns the live range of each register of the function. `traits` has an entry for each
// instruction of its body.
[[nodiscard]] std::vector<LiveRange> live_ranges(const ptx::Function& function,
                                                 std::span<const Traits> traits,
                                                 const ControlFlow& flow);

}  // namespace coalesce::sim
