// Models the time that a warp needs to execute its machine code if no other warp runs.
//
// METHOD
// The assembler encodes how many cycles pass from each instruction to the next, and for which
// results a warp waits (sass/schedule.hpp). The model follows one warp through the code from top to
// bottom. It passes each loop twice, because the first iteration may load data for the next. A
// branch may jump over code. If this code is executed rarely, its time is not added to the time of
// a warp that jumps over it.
//
// L1, L2 or DRAM answers each access. The model chooses among them at random, with the frequencies
// of the cache replay. Therefore it follows several warps and takes the average. An access to
// memory takes one cycle per pass in the load-store unit, and starts when all passes of the access
// before it have ended. The time of the warp at an instruction is multiplied by the number of
// executions of the instruction.
#pragma once

#include <vector>

#include "analysis/counts.hpp"
#include "sim/program.hpp"

namespace coalesce::analysis {

// Returns the cycles of all warps together, without the waiting times at barriers. `work` has the
// shares of the loads that L2 and DRAM answer.
[[nodiscard]] double latency(const Counts& counts, const std::vector<sim::Schedule>& schedule,
                             const model::Work& work, const CacheResult* caches);

}  // namespace coalesce::analysis
