// Models the time that a warp takes for its machine code if no other warp runs.
//
// METHOD
// The assembler encodes how many cycles pass from each instruction to the next, and for which
// results a warp waits (sass/schedule.hpp). The model follows one warp through the code from top to
// bottom. It passes each loop twice, because the first iteration may load data for the next. If
// code is jumped over by a branch and is executed rarely, its time is not added to the path that
// jumps over it.
//
// L1, L2 or DRAM answers each access. The model chooses among them at random, with the frequencies
// of the cache replay. Therefore it follows several warps and takes the average. In the load-store
// unit, an access waits until the access before it has ended all its passes of one cycle. The time
// at an instruction is multiplied by the number of its executions.
#pragma once

#include <vector>

#include "analysis/counts.hpp"
#include "sim/program.hpp"

namespace coalesce::analysis {

// Returns cycles, summed over all warps, without waiting times at barriers. `work` has the shares
// of the loads that L2 and DRAM answer.
[[nodiscard]] double latency(const Counts& counts, const std::vector<sim::Schedule>& schedule,
                             const model::Work& work, const CacheResult* caches);

}  // namespace coalesce::analysis
