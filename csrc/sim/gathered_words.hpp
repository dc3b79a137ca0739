// Memory that the lanes of a warp have read together, for loads of words that are close to each
// other. Only launches with observers use it: plain runs have multiply_chain.hpp.
//
// METHOD
// If each lane reads from another row of a matrix, a load reads 32 lines of the host's cache, and
// uses four bytes of each. The loads that follow often read the next words of the same lines. But
// the lines of 32 rows of a large matrix rarely stay in the host's L1, because many of them belong
// to the same set. Therefore the first of these loads copies 32 bytes per lane, and the others read
// the copies.
//
// A copy must not be used after memory may have changed. So a load uses copies only if the lifter
// has found that no op since the load that made them writes memory or orders accesses
// (MemoryOperand::gathered_before), and if both loads belong to the same execution of a segment.
// No other warp of the block runs in between. Other blocks may run, but a program cannot rely on
// the order of its loads if nothing between them orders accesses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/lanes.hpp"

namespace coalesce::sim {

struct GatheredWords {
    static constexpr int64_t bytes = 32;

    // The address of lane 0's bytes in the host's memory. 0: nothing was copied.
    uintptr_t host = 0;
    int64_t stride = 0;  // the distance to the bytes of the next lane
    alignas(bytes) std::byte of_lane[warp_size][bytes];

    void forget() { host = 0; }
};

struct Program;

// Sets MemoryOperand::gathers and gathered_before for the loads of a program from machine code. The
// segments of the program must be known.
void find_gathered_words(Program& program);

}  // namespace coalesce::sim
