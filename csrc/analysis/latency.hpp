// How long a warp of machine code takes that has its multiprocessor to itself.
//
// METHOD
// The assembler wrote down how many cycles pass from each instruction to the next, and for which
// results a warp waits before it goes on (sass/schedule.hpp). So one warp is taken through the code
// from top to bottom: a loop twice, that what its end loads for its beginning is seen; what is
// behind a branch, and seldom executed, as an aside. An access is answered by L1, the
// second, or DRAM, at random and as often as the replay of the caches found its lines there; for
// that several warps are tried. It follows the access before it through the load-store unit, a
// cycle for each pass it takes there. What the warp spends at an instruction counts as often as the
// instruction was executed.
#pragma once

#include <vector>

#include "analysis/counts.hpp"
#include "sim/program.hpp"

namespace coalesce::analysis {

// In cycles, of all warps together, without what they wait at barriers. `work` tells how many loads
// L2 and DRAM answer.
[[nodiscard]] double latency(const Counts& counts, const std::vector<sim::Schedule>& schedule,
                             const model::Work& work, const CacheResult* caches);

}  // namespace coalesce::analysis
