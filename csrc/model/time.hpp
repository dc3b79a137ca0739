// A modelled time from counts: always labelled as such, never shown as a measurement.
//
// METHOD
// A kernel takes as long as its slowest resource on its busiest multiprocessor:
//
//   issue      warp instructions, of each scheduler one a cycle
//   fp32, fp64, alu, xu
//              warp instructions of the arithmetic pipes, which have fewer lanes than a warp
//   requests   memory instructions, through the load-store unit
//   data       L1's tag lookups (a cycle a line of a request) and the wavefronts of
//              shared memory, which share one path
//   constants  different addresses of a load from constant memory, one after the other
//   l2         sectors through L2; writes take longer, of part of a sector longest
//   atomics    those of L2, at the place most wanted
//   dram       bytes
//   latency    what a warp waits for when it has nothing else to do: blocks follow each other in as
//              many slots as a multiprocessor has for them, and each takes at least its own latency
//
// and somewhat longer where several are nearly as slow, plus what passes before the first block is
// under way. The constants are recorded (gpu.hpp).
#pragma once

#include <cstdint>

#include "model/gpu.hpp"

namespace coalesce::model {

// Sectors between a multiprocessor and L2: 72 a cycle of all 132 together, and no
// more each where few are busy, in a copy: half are read and half written.
inline constexpr double l2_sectors_a_cycle = 72.0 / 132;

// What a launch does, over all its blocks.
struct Work {
    uint64_t blocks = 0;
    uint64_t instructions = 0;  // of warps
    // Of them, by the pipe that executes them.
    uint64_t fp32 = 0, fp64 = 0;
    uint64_t alu = 0;       // integers, logic, comparisons
    uint64_t xu = 0;        // conversions, bit counts, transcendental functions
    uint64_t requests = 0;  // global, local and shared
    uint64_t tag_lookups =
        0;  // passes through L1's tags and data, or lines where nothing was replayed
    uint64_t shared_wavefronts = 0;
    uint64_t constant_lookups = 0;   // beyond the first of a request
    uint64_t l2_sectors = 0;         // read and written
    uint64_t l2_writes = 0;          // of them, written
    uint64_t l2_partial_writes = 0;  // of these, in part
    uint64_t dram_bytes = 0;
    double atomics = 0;  // cycles that L2 takes for them (atomics.hpp)
    // Of one warp, on the average: instructions, and how often it waits for a load from global
    // memory, for shared memory, at a barrier.
    double instructions_a_warp = 0;
    double memory_waits = 0, shared_waits = 0, barriers = 0;
    // Its cycles without the barriers, if machine code tells them (analysis/latency.hpp); else 0.
    double latency = 0;
    // How much more than the average warp the slowest one of a block executes, and of the launch.
    double slowest_in_block = 1, slowest = 1;
    // Of the loads it waits for, how many L2 and DRAM answer.
    double from_l2 = 0, from_dram = 0;
};

// The work of a whole grid from that of some of its blocks, which did a share of 1 / `by`: the sums
// over instructions grow. Averages over warps stay, and so does what caches did, as a replay tells
// it of the whole grid.
[[nodiscard]] Work scaled(Work work, double by);

enum class Bound : uint8_t {
    issue,
    fp32,
    fp64,
    alu,
    xu,
    requests,
    data,
    constants,
    l2,
    atomics,
    dram,
    latency
};
inline constexpr int bounds = 12;
[[nodiscard]] const char* name_of(Bound bound);

struct Time {
    double ms = 0;
    Bound bound = Bound::latency;
    double cycles[bounds] = {};  // of each resource alone
};

// Cycles from an access's issue to its answer, recorded on an H200 (tests/data/models_h200.json).
inline constexpr double l1_latency = 35, l2_latency = 270, dram_latency = 820, shared_latency = 30;

[[nodiscard]] Time modelled_time(const Gpu& gpu, const Occupancy& occupancy, const Work& work);

}  // namespace coalesce::model
