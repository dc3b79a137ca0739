// The simulated GPUs, as tables of published figures.
#pragma once

#include <cstdint>
#include <string_view>

namespace coalesce::model {

struct Gpu {
    std::string_view name;
    std::string_view description;
    uint32_t compute_capability;  // 90
    uint32_t multiprocessors;
    double clock_ghz;  // boost
    double dram_gbps;
    uint64_t memory_bytes;
    double launch_us;       // the shortest a kernel takes
    uint32_t schedulers;    // warp instructions a cycle of a multiprocessor
    uint32_t threads;       // resident, of a multiprocessor
    uint32_t shared_bytes;  // of a multiprocessor, for blocks
};

// NVIDIA H200 SXM: 132 multiprocessors, 1.98 GHz boost, 4.8 TB/s, 141 GB (NVIDIA H200 datasheet;
// H100 architecture whitepaper). Resident threads and shared memory: CUDA C++ Programming
// Guide, 9.0.
inline constexpr Gpu h200{"h200",    "NVIDIA H200 (simulated)", 90,  132, 1.98,
                          4800,      141'000'000'000,           2.0, 4,   2048,
                          228 * 1024};

}  // namespace coalesce::model
