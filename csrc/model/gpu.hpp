// The simulated GPUs, as tables of published figures.
//
// SOURCES
// The limits of a multiprocessor (warps, blocks, registers, shared memory) are those of the CUDA
// C++ Programming Guide, "Technical Specifications per Compute Capability"; how much of
// L1 can be shared memory is from the same guide, "Shared Memory" of each compute
// capability. gpu.cpp cites the rest, GPU by GPU.
//
// Some figures are in no publication: how long memory takes, what a level passes on in a cycle.
// They were read off Nsight Compute's recordings on an H200 (tests/data/models_h200.json) and are
// taken to hold, in cycles of a multiprocessor or a partition of L2, for the others
// too. Only the H200 is checked against hardware.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace coalesce::model {

struct Gpu {
    std::string_view name;   // "h200"
    std::string_view title;  // "NVIDIA H200 SXM"
    std::string_view source;
    bool checked;           // against the counters of hardware
    uint32_t major, minor;  // compute capability

    uint32_t multiprocessors;
    double clock_ghz;                 // boost
    uint32_t fp32_lanes, fp64_lanes;  // of a multiprocessor
    uint32_t warps, blocks;           // that a multiprocessor holds
    uint32_t shared_kb;               // of a multiprocessor, at most
    uint32_t first_level_kb;          // L1 and shared memory together
    double second_level_mb;
    uint32_t partitions;  // of L2, each with the data its multiprocessors read
    double dram_gbps;

    [[nodiscard]] uint32_t max_block_shared_bytes() const {
        // One of the kilobytes of compute capability 8.0 and later is the system's.
        return (shared_kb - reserved_shared_bytes() / 1024) * 1024;
    }
    [[nodiscard]] uint32_t reserved_shared_bytes() const { return major >= 8 ? 1024 : 0; }
    [[nodiscard]] std::span<const uint32_t> carveouts_kb() const;
    // Graphics processing clusters: 16 to 18 multiprocessors each.
    [[nodiscard]] uint32_t clusters() const {
        return multiprocessors < 32 ? 1 : multiprocessors / 16;
    }
};

inline constexpr uint32_t schedulers = 4;  // each issues a warp instruction a cycle
inline constexpr uint32_t registers = 65536;
inline constexpr uint32_t register_unit = 256;  // a warp's are allocated by so many

[[nodiscard]] std::span<const Gpu> gpus();
// By name; null if there is none.
[[nodiscard]] const Gpu* find_gpu(std::string_view name);

// What a multiprocessor holds of a kernel at once, and what part of its memory is left as cache.
struct Occupancy {
    uint32_t blocks = 0;       // a multiprocessor
    const char* limit = "";    // "warps", "blocks", "registers" or "shared memory"
    uint32_t cache_bytes = 0;  // L1
    uint32_t warps = 0;        // a block
};

// Of blocks of `threads` with `registers_a_thread` (0: not known, no limit) and `shared_bytes`.
[[nodiscard]] Occupancy occupancy(const Gpu& gpu, uint32_t threads, uint32_t registers_a_thread,
                                  uint32_t shared_bytes);

}  // namespace coalesce::model
