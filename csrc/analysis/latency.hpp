// Models the time that a warp needs to execute its machine code if no other warp runs.
//
// METHOD
// The assembler encodes how many cycles pass from each instruction to the next, and for which
// results a warp waits (sass/schedule.hpp). The model follows one warp through the code from top to
// bottom. It passes each loop twice, because the first iteration may load data for the next. A
// branch may jump over code. If this code is executed rarely, its time is not added to the time of
// a warp that jumps over it.
//
// L1, L2 or DRAM answers each access. The model chooses among them at random. It chooses each of
// them as often as it answered in the cache replay. Because of the random choice, it follows
// several warps and takes the average. The load-store unit needs one cycle for each pass of a
// memory access. An access has as many passes as it needs cycles of L1 and wavefronts, but at least
// one. An access starts when all passes of the previous access have ended. The time that the warp
// spends at an instruction is multiplied by the number of executions of the instruction.
#pragma once

#include <vector>

#include "analysis/counts.hpp"
#include "sim/program.hpp"

namespace coalesce::analysis {

// Returns the sum of the cycles of all warps, without the waiting times at barriers. `work` says
// which shares of the loads are answered by L2 and by DRAM.
[[nodiscard]] double latency(const Counts& counts, const std::vector<sim::Schedule>& schedule,
                             const model::Work& work, const CacheResult* caches);

}  // namespace coalesce::analysis
