// Finds the memory accesses that depend on how often a thread waits. The instructions of tensor
// cores count as accesses, too.
//
// METHOD
// A thread usually waits in a loop. It tests an mbarrier until its phase is complete, or it reads a
// value until another thread has changed it. How often the loop runs differs from run to run. For
// most kernels with mbarriers, this changes only the number of executed instructions. But a kernel
// may also access memory in such a loop, or choose an address by the result of the test. Then the
// counts of this access differ, too.
//
// The search follows the results of the tests through registers and predicates, in the order of the
// instructions (a data flow analysis). Instructions between a branch that depends on a test and the
// point where both of its sides meet also depend on the test. The search may find too many
// accesses, but it misses none, with one exception: it does not follow values through global
// memory.
//
// Many kernels read values that other threads write, but do not wait for them. For example, the
// block that ends last adds up the sums of all blocks. So for such values, only short loops
// are found whose number of iterations depends on a value that they read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "sass/listing.hpp"
#include "sim/program/program.hpp"

namespace coalesce::sass {

// Returns the numbers of these accesses, each with a branch on which it depends. If the address of
// an access depends on a test, the second number is that of the access. `accesses` returns true for
// an instruction that metrics count. `infos` describes the same instructions as `code`.
// `volatile_loads` has one element for each instruction: true for a volatile load. In machine code,
// volatile loads of shared memory look like other loads, but the PTX shows the difference.
[[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> accesses_after_waits(
    const Code& code, std::span<const sim::InstructionInfo> infos,
    const std::function<bool(uint32_t)>& accesses, const std::vector<bool>& volatile_loads);

}  // namespace coalesce::sass
