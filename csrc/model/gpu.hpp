// The simulated GPUs: tables of published figures.
//
// SOURCES
// The limits of a multiprocessor (warps, blocks, registers, shared memory) are from the CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability". The sizes that shared
// memory can have within L1 are from the same guide, "Shared Memory" of each compute capability.
// gpu.cpp cites the sources of the other figures for each GPU.
//
// Latencies and the throughput of L2 are not published. They were derived from Nsight Compute's
// recordings on an H200 (tests/data/models_h200.json). For other GPUs the model uses the same
// numbers of cycles. Only the H200 is checked against hardware.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace coalesce::model {

// The figures of one GPU.
struct Gpu {
    std::string_view name;   // "h200"
    std::string_view title;  // "NVIDIA H200 SXM"
    std::string_view source;
    bool checked;           // true if the counts were compared with hardware counters
    uint32_t major, minor;  // compute capability

    uint32_t multiprocessors;
    double clock_ghz;                 // boost clock
    uint32_t fp32_lanes, fp64_lanes;  // arithmetic lanes per multiprocessor
    uint32_t warps, blocks;           // the largest numbers that a multiprocessor can hold
    uint32_t shared_kb;               // largest shared memory of a multiprocessor
    uint32_t l1_kb;                   // L1 and shared memory together
    double l2_mb;
    // The number of partitions of L2. Each partition holds the data that its multiprocessors read.
    uint32_t partitions;
    double dram_gbps;

    [[nodiscard]] uint32_t max_block_shared_bytes() const {
        // From compute capability 8.0 on, the system uses 1 KB of the shared memory of each block.
        return (shared_kb - reserved_shared_bytes() / 1024) * 1024;
    }
    [[nodiscard]] uint32_t reserved_shared_bytes() const { return major >= 8 ? 1024 : 0; }
    [[nodiscard]] std::span<const uint32_t> carveouts_kb() const;
    // Graphics processing clusters (GPCs), with 16 to 18 multiprocessors each.
    [[nodiscard]] uint32_t gpcs() const { return multiprocessors < 32 ? 1 : multiprocessors / 16; }
    [[nodiscard]] uint32_t gpc_of(uint32_t multiprocessor) const {
        return multiprocessor * gpcs() / multiprocessors;
    }
};

inline constexpr uint32_t schedulers = 4;  // each issues one warp instruction per cycle
inline constexpr uint32_t registers = 65536;
inline constexpr uint32_t block_threads = 1024;     // the largest number of threads of a block
inline constexpr uint32_t local_bytes = 512 << 10;  // local memory of a thread
// Registers are allocated to a warp in multiples of this number.
inline constexpr uint32_t register_unit = 256;

[[nodiscard]] std::span<const Gpu> gpus();
// Returns null if there is no such GPU.
[[nodiscard]] const Gpu* find_gpu(std::string_view name);

// The number of blocks that a multiprocessor holds at once, and the memory that is left for L1.
struct Occupancy {
    uint32_t blocks = 0;  // blocks per multiprocessor; 0 if not even one fits
    // what limits the number: "warps", "blocks", "registers" or "shared memory"
    const char* limit = "";
    uint32_t cache_bytes = 0;  // size of L1
    uint32_t warps = 0;        // warps per block
    uint64_t on_gpu = 0;       // blocks that fit on all multiprocessors together
};

// Returns the largest number of threads of a block that uses this many registers per thread. If the
// number of registers is 0, it is unknown and sets no limit.
[[nodiscard]] uint32_t most_threads(uint32_t registers_per_thread);

// Returns the occupancy for blocks of `threads` threads. If `registers_per_thread` is 0, the number
// of registers is unknown and sets no limit.
[[nodiscard]] Occupancy occupancy(const Gpu& gpu, uint32_t threads, uint32_t registers_per_thread,
                                  uint32_t shared_bytes);

}  // namespace coalesce::model
