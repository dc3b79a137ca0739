// The simulated GPUs, as tables of published figures.
#pragma once

#include <cstdint>

namespace coalesce::model {

struct Gpu {
    uint32_t multiprocessors;
    uint32_t schedulers;  // warp instructions a cycle of a multiprocessor
    double clock_ghz;     // boost
    double dram_gbps;
    double launch_us;  // the shortest a kernel takes
};

// NVIDIA H200 SXM: 132 multiprocessors, 1.98 GHz boost, 4.8 TB/s (NVIDIA H200 datasheet; H100
// architecture whitepaper). The shortest kernels of Nsight Compute's recordings take about 2 us
// there.
inline constexpr Gpu h200{132, 4, 1.98, 4800, 2.0};

}  // namespace coalesce::model
