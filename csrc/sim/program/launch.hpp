// A launch of a kernel, and how the simulator runs it.
//
// The caller fills in a GridRun, tests it with check(), and passes it to run_grid() (worker.hpp).
// The simulator does not change a GridRun.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "errors.hpp"
#include "kernel_launch.hpp"

namespace coalesce::sim {

// Allows a kernel to continue after a read outside all arrays, and counts such reads. A GPU maps
// memory in pages of 2 MiB, and several arrays may be in one page. So on a GPU, a read near an
// array returns some other memory and is not an error. On the simulator, such a read returns zeros
// for all bytes outside arrays. Reads of freed memory are faults. Writes and atomics outside all
// arrays are always faults, because they could change other arrays on a GPU.
struct OutsideReads {
    static constexpr uint64_t page = 2u << 20;
    std::mutex mutex;
    std::optional<MemoryFault> first;  // what the first read would be otherwise
    uint64_t count = 0;                // the number of executed warp instructions with such reads
};

// The properties of the simulated GPU that a kernel can see. The default values are for an H200
// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
struct GpuFigures {
    uint32_t multiprocessors = 132;    // the value of %nsmid
    uint32_t resident_threads = 2048;  // the limit per multiprocessor
    // the value of %nwarpid
    [[nodiscard]] uint32_t resident_warps() const { return resident_threads / 32; }
};

// All that a run of a kernel needs besides the program and the memory.
struct GridRun : Launch {
    GpuFigures gpu;
    // The largest number of warp instructions that the whole grid may execute. 0 means no limit.
    uint64_t instruction_limit = 0;
    bool has_clusters = false;      // The kernel uses clusters. A cluster may consist of one block.
    bool explicit_cluster = false;  // the kernel or the launch specifies the cluster size
    uint32_t workers = 0;           // The number of host threads. 0 means one per core.

    // The linear numbers (x varies fastest) of the blocks to run, in the order in which they start.
    // Without a list, all blocks from `first_block` on run; `first_block` must be the first block
    // of a cluster. In all cases, the kernel sees the size of the whole grid (%nctaid).
    std::optional<std::vector<uint64_t>> blocks;
    uint64_t first_block = 0;
    [[nodiscard]] uint64_t block_count() const {
        return blocks ? blocks->size() : grid.count() - first_block;
    }
    [[nodiscard]] uint64_t block_at(uint64_t n) const {
        if (blocks) return (*blocks)[n];
        n += first_block;
        return cluster.count() == 1 ? n
                                    : block_of_cluster(n / cluster.count(), n % cluster.count());
    }
    // Returns the linear number of the block with this rank in cluster `number`.
    [[nodiscard]] uint64_t block_of_cluster(uint64_t number, uint64_t rank) const {
        const uint64_t across = grid.x / cluster.x, down = grid.y / cluster.y;
        const uint64_t x = number % across * cluster.x + rank % cluster.x;
        const uint64_t y = number / across % down * cluster.y + rank / cluster.x % cluster.y;
        const uint64_t z = number / across / down * cluster.z + rank / cluster.x / cluster.y;
        return x + grid.x * (y + grid.y * z);
    }

    // The launching thread calls this function every 50 ms while the grid runs. It passes the
    // number of blocks that have ended. The function may throw to stop the grid.
    std::function<void(uint64_t)> poll;
    // If poll() has thrown: receives the place at which a warp was stopped: the source line and the
    // thread. The launching thread calls this function at most once, at the end.
    std::function<void(const std::string&)> stopped;
    // Receives the text that the kernel prints. Each call passes the complete text of one or more
    // printf calls. Any worker (host thread) may call this function at any time.
    std::function<void(const std::string&)> print;
    // If not null, a read outside all arrays is not always a fault; see OutsideReads.
    OutsideReads* outside_reads = nullptr;
};

// Limits of the simulated GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability", 9.0).
struct Limits {
    uint64_t grid_x = 0x7fffffff;
    uint64_t grid_yz = 65535;
    uint32_t block_xy = 1024;
    uint32_t block_z = 64;
    uint32_t block_threads = 1024;
    uint32_t shared_bytes = 227 * 1024;
};

// Checks the geometry and the shared memory of a launch. Throws LaunchError if a value is out of
// range; the message says which one.
void check(const GridRun& launch, const Limits& limits, uint64_t static_shared_bytes,
           const std::string& kernel);

}  // namespace coalesce::sim
