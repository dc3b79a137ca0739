// Finds uses of registers that were never written, as in `float sum; ... sum += x[i];`.
//
// METHOD
// Before a run, find_steps() finds the registers that a path from the start of their function may
// read before it writes them. Nearly all kernels have none, and then nothing more is done. If there
// are such registers, they and all registers that are computed from them are tracked: one bit per
// lane says whether the value is undefined. An undefined value that is only computed is no mistake,
// because compilers compute values in advance and then discard them. It is a mistake if memory is
// written with it, if an address contains it, or if a branch depends on it. The finding names the
// instruction that used an unwritten register first. A kernel may also copy an unwritten register
// to shared memory: kernels load tiles without the elements outside of an array, and then store
// whole tiles.
//
// To find no mistake in a correct kernel, the result of an operation that may ignore one of its
// operands counts as defined: logical operations, selections and shuffles. An instruction with a
// guard is not judged either, because the guard is known only when the instruction runs.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.hpp"

namespace coalesce::analysis {

class UnwrittenRegisters {
  public:
    // The state of a tracked register of one warp.
    struct State {
        sim::LaneMask undefined = 0;
        uint32_t first_use = 0;  // the instruction that used the unwritten register
    };
    // A use of an undefined value that is a mistake.
    struct Use {
        uint32_t first_use = 0;
        sim::LaneMask lanes = 0;
    };

    explicit UnwrittenRegisters(const sim::Program& program);

    // The number of tracked registers.
    [[nodiscard]] size_t size() const { return unwritten_in_.size(); }
    // Call this when lanes of a warp start a function. `states` has size() elements.
    void enter(State* states, uint32_t function, sim::LaneMask lanes) const;
    // Call this before lanes execute the operations from `first` up to `end`. Returns the mistakes.
    [[nodiscard]] std::vector<Use> execute(State* states, uint32_t first, uint32_t end,
                                           sim::LaneMask lanes) const;

  private:
    struct Step {
        uint32_t op = 0, pc = 0;
        bool moves = false;     // only copies its operand
        bool defines = false;   // its results count as defined
        bool uses_any = false;  // a mistake if any operand is undefined
        bool uses_all = false;  // a mistake if all operands are undefined
        bool may_copy = false;  // but no mistake if the operand was only moved since the start
        std::vector<uint32_t> reads, writes;  // indices of tracked registers
    };

    std::vector<Step> steps_;  // in the order of their ops
    // For each tracked register: the function in which it is unwritten at the start, or
    // no_function.
    std::vector<uint32_t> unwritten_in_;
};

}  // namespace coalesce::analysis
