// Finds the reads with which a thread waits for a value in global memory that another thread
// writes. How often they are repeated depends on the order of the threads, so no time can be
// modelled.
//
// METHOD
// Such a read is a strong load, or an atomic that has no further effect when it is repeated: a
// compare-and-swap, an exchange, a minimum, a maximum, AND, OR, or the addition of 0. It is in a
// short loop that does not change its address, and the value that it reads decides whether the loop
// ends. Values are followed through registers, not through memory or calls.
//
// EXAMPLES
//     while (atomicCAS(&lock, 0, 1)) __nanosleep(100);   waits
//     while (*(volatile int*)&flag == 0) {}              waits
//     while ((i = atomicAdd(&next, 1)) < n) work(i);     does not wait: each repetition does work
//     while (i < n) i = volatile_list[i];                does not wait: the address changes
#pragma once

#include <span>
#include <vector>

#include "ptx/module.hpp"
#include "sim/ptx_analysis/control_flow.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

// Returns one entry for each instruction of the function: true for a read that waits. If a thread
// executes the first of these reads before the loop, as compilers may write it, this read counts,
// too. `traits` has an entry for each instruction.
[[nodiscard]] std::vector<bool> waiting_reads(const ptx::Function& function,
                                              std::span<const Traits> traits,
                                              const ControlFlow& flow);

}  // namespace coalesce::sim
