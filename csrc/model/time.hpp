// Models the time of a kernel. A modelled time is always labelled as modelled, and is never shown
// as a measured time.
//
// METHOD
// A kernel takes as long as its slowest resource on its busiest multiprocessor. The resources are:
//
//  issue      the schedulers; each issues one warp instruction per cycle
//  fp32, fp64, alu, xu
//             the arithmetic pipes, which have fewer lanes than a warp
//  tensor     the tensor cores, for products of a warp (mma.sync)
//  requests   the load-store unit, which takes the memory instructions
//  data       the data path of L1, for tag lookups and for wavefronts of shared memory
//  constants  the constant cache, which serves the addresses of a load one after another
//  l2         the path to L2; writes take longer than reads, and partial writes take longest
//  atomics    the units for atomics in L2; the address with the most accesses takes longest
//  dram       the bandwidth of DRAM
//  latency    the slots for blocks; each block occupies its slot for at least its own latency
//
// If several resources are nearly equally slow, the time is somewhat longer. The time before the
// first block runs is added. The constants are derived from recordings (gpu.hpp).
#pragma once

#include <cstdint>

#include "model/gpu.hpp"

namespace coalesce::model {

// The sectors per cycle between one multiprocessor and L2 if all 132 multiprocessors of an H200
// have work. Together they transfer at most 72 sectors per cycle. The value was recorded with a
// copy kernel, which reads as many sectors as it writes.
inline constexpr double l2_sectors_per_cycle = 72.0 / 132;

// The work of a launch, summed over all blocks.
struct Work {
    uint64_t blocks = 0;
    uint64_t instructions = 0;  // warp instructions
    // Numbers of instructions, by the pipe that executes them.
    uint64_t fp32 = 0, fp64 = 0;
    uint64_t alu = 0;  // integer, logic and comparison instructions
    // Conversions, bit counts and transcendental functions.
    uint64_t xu = 0;
    uint64_t tensor_cycles = 0;  // cycles of the tensor cores, of which a multiprocessor has four
    uint64_t requests = 0;       // accesses to global, local and shared memory
    uint64_t tag_lookups = 0;    // L1 cycles; if the caches were not replayed, the number of lines
    uint64_t shared_wavefronts = 0;
    // The number of different addresses beyond the first one of each request.
    uint64_t constant_lookups = 0;
    uint64_t l2_sectors = 0;         // sectors read or written
    uint64_t l2_writes = 0;          // sectors written
    uint64_t l2_partial_writes = 0;  // partly written sectors
    uint64_t dram_bytes = 0;
    double atomics = 0;  // cycles that L2 needs for atomics (atomics.hpp)
    // The following four numbers are averages over the warps. `memory_waits` and `shared_waits`
    // count how often a warp waits for global and for shared memory, and `barriers` how often it
    // waits at a barrier.
    double instructions_per_warp = 0;
    double memory_waits = 0, shared_waits = 0, barriers = 0;
    // The cycles that a warp needs on average, without its waits at barriers
    // (analysis/time/latency.hpp). 0 if the machine code is not known.
    double latency = 0;
    // The number of instructions of the slowest warp, divided by the average over all warps.
    // `slowest_in_block` is for the slowest warp of a block (averaged over the blocks), and
    // `slowest` is for the slowest warp of the launch.
    double slowest_in_block = 1, slowest = 1;
    // The shares of L2 and DRAM in the answers to the loads for which a warp waits.
    double from_l2 = 0, from_dram = 0;
};

// Extrapolates the work of some blocks to the whole grid, which has `by` times as many blocks. Sums
// over instructions are multiplied by `by`. Averages over warps do not change. Cache counts do not
// change either, because the cache replay already reports them for the whole grid.
[[nodiscard]] Work scaled(Work work, double by);

// The resources that can determine the time of a kernel; see METHOD.
enum class Bound : uint8_t {
    issue,
    fp32,
    fp64,
    alu,
    xu,
    tensor,
    requests,
    data,
    constants,
    l2,
    atomics,
    dram,
    latency
};
inline constexpr int bounds = 13;
[[nodiscard]] const char* name_of(Bound bound);

// The modelled time, and the resource that determines it.
struct Time {
    double ms = 0;
    Bound bound = Bound::latency;
    double cycles[bounds] = {};  // cycles that each resource alone would need
};

// Cycles from the issue of an access to its answer, recorded on an H200
// (tests/data/models_h200.json).
inline constexpr double l1_latency = 35, l2_latency = 270, dram_latency = 820, shared_latency = 30;

[[nodiscard]] Time modelled_time(const Gpu& gpu, const Occupancy& occupancy, const Work& work);

}  // namespace coalesce::model
