// A modelled time from counts: always labelled as such, never shown as a measurement.
//
// METHOD
// The kernel takes as long as its slowest resource (a roofline over four of them): instructions
// issued, requests served by the first-level caches (two cycles a request, one more for each line
// after the second), wavefronts of shared memory (a cycle each), bytes moved from DRAM. The first
// three scale with the multiprocessor that got the most blocks. DRAM is taken to deliver every line
// the kernel touches at least as often as its footprint does not fit: the model counts each buffer
// once, so it is a lower bound for kernels that overflow the L2 cache.
#pragma once

#include <cstdint>

#include "model/gpu.hpp"

namespace coalesce::model {

struct Work {
    uint64_t blocks = 0;
    uint64_t instructions = 0;        // of warps
    uint64_t first_level_cycles = 0;  // see above, over all requests
    uint64_t shared_wavefronts = 0;
    uint64_t dram_bytes = 0;
};

// Milliseconds.
[[nodiscard]] double modelled_ms(const Gpu& gpu, const Work& work);

}  // namespace coalesce::model
