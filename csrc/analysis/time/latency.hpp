// Models the time that a warp needs to execute its machine code if no other warp runs.
//
// METHOD
// The assembler encodes how many cycles pass from each instruction to the next, and for which
// results a warp waits (sass/schedule.hpp). The model follows one warp through the code from top to
// bottom. It passes each loop twice, because the first iteration may load data for the next. A
// branch may jump over code. If this code is executed rarely, its time is not added to the time of
// a warp that jumps over it.
//
// Each access is answered by L1, L2 or DRAM. The model chooses one of the three at random. The
// probability of each is its share of the answers in the cache replay. Because of the random
// choice, the model follows several warps and takes the average.
//
// The load-store unit handles an access in passes of one cycle each. The number of passes is the
// number of L1 cycles plus the number of wavefronts of the access, but at least one. An access
// starts when all passes of the previous access have ended. The time that the warp spends at an
// instruction is multiplied by the number of executions of the instruction.
#pragma once

#include <vector>

#include "analysis/counts/counts.hpp"
#include "sim/program/program.hpp"

namespace coalesce::analysis {

// Returns the sum of the cycles of all warps, without the waiting times at barriers. `work` has the
// fraction of the loads that L2 answers, and the fraction that DRAM answers.
[[nodiscard]] double latency(const Counts& counts, const std::vector<sim::Schedule>& schedule,
                             const model::Work& work, const CacheResult* caches);

}  // namespace coalesce::analysis
