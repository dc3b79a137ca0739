// The time that a warp takes for its machine code if it has the multiprocessor for itself.
//
// METHOD
// The assembler encodes how many cycles pass from each instruction to the next, and for which
// results a warp waits (sass/schedule.hpp). The model follows one warp through the code from top to
// bottom. It passes each loop twice, because the first iteration may load data for the next. Code
// behind a forward branch that is rarely executed does not advance the clock of the main path.
//
// Each access is answered by L1, L2 or DRAM at random, with the frequencies of the cache replay.
// Therefore several warps are followed. In the load-store unit, an access waits for the one before
// it, one cycle for each of its passes. The time that the warp spends at an instruction counts as
// often as the instruction was executed.
#pragma once

#include <vector>

#include "analysis/counts.hpp"
#include "sim/program.hpp"

namespace coalesce::analysis {

// Cycles, summed over all warps, without waiting times at barriers. `work` has the shares of loads
// that L2 and DRAM answer.
[[nodiscard]] double latency(const Counts& counts, const std::vector<sim::Schedule>& schedule,
                             const model::Work& work, const CacheResult* caches);

}  // namespace coalesce::analysis
