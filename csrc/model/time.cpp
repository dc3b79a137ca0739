#include "model/time.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace coalesce::model {

namespace {

// These constants were recorded on an H200 (tests/data/models_h200.json). They are in cycles if no
// unit is stated.
constexpr double launch_us = 1.65;  // elapsed minus active time, the same for all launches
// The cycles before the first load of a launch. This time is long because the code of the kernel is
// not in any cache yet.
constexpr double startup = 480;
// Cycles from the end of a block to the first load of the next block in its slot.
constexpr double turnover = 500;
constexpr double request_cycles = 1.25;  // the recorded lsuin_requests stay below 0.8 per cycle
constexpr double constant_cycles = 2.3;  // cycles per address of a load from constant memory
// The time from the first arrival of a warp at a barrier to the next instruction after the barrier.
// It is `barrier_cycles`, plus `barrier_cycles_per_warp` for each warp of the block.
constexpr double barrier_cycles = 20, barrier_cycles_per_warp = 5;
// Cycles from one instruction of a warp to the next.
constexpr double instruction_latency = 4;
// Sectors per cycle between the multiprocessors and L2, for kernels that only read, only write
// whole sectors, and only write parts of sectors. `together` is the rate of all 132 multiprocessors
// of an H200. If only a few have work, each of them is limited by its own rate `alone`
// (`python benchmarks/l2_rates.py`, docs/measured/l2_rates_h100.txt; reads from DRAM).
struct L2Rate {
    double together, alone;
    double of_each(double multiprocessors) const {
        return std::min(alone, together / multiprocessors);
    }
};
constexpr L2Rate l2_reads{80, 2.3}, l2_writes{65, 1.0}, l2_partial_writes{33, 0.8};
// Results per cycle of a multiprocessor, for compute capabilities 7.0 to 9.0. Source: CUDA C++
// Programming Guide, Throughput of Native Arithmetic Instructions.
constexpr double alu_lanes = 64, xu_lanes = 16;
constexpr double dram_efficiency = 0.92;  // the share of the published bandwidth that kernels reach

// The GPU starts one block per cycle, and 50 warps per cycle. In the recordings, blocks of 8 warps
// start every 1.2 cycles or later.
constexpr double block_cycles = 1, warp_cycles = 0.02;

// Returns the time of activities that run at the same time. If several of them take about equally
// long, the result is longer than the time of the longest one. If the exponent were infinite, only
// the longest would count.
double overlapped(double exponent, std::initializer_list<double> cycles) {
    double sum = 0;
    for (const double c : cycles) sum += std::pow(c, exponent);
    return std::pow(sum, 1 / exponent);
}
// Units delay each other if they have a queue of work, and more if the warps of a multiprocessor
// wait for results in between. Then the warps often wait, or compute, at the same time.
constexpr double of_units = 4, of_waiting_warps = 2;

}  // namespace

Work scaled(Work work, double by) {
    constexpr uint64_t Work::* sums[] = {&Work::blocks,
                                         &Work::instructions,
                                         &Work::fp32,
                                         &Work::fp64,
                                         &Work::alu,
                                         &Work::xu,
                                         &Work::tensor_cycles,
                                         &Work::requests,
                                         &Work::tag_lookups,
                                         &Work::shared_wavefronts,
                                         &Work::constant_lookups};
    for (uint64_t Work::* const sum : sums) work.*sum = uint64_t(double(work.*sum) * by + 0.5);
    return work;
}

const char* name_of(Bound bound) {
    switch (bound) {
        case Bound::issue:
            return "issue";
        case Bound::fp32:
            return "fp32";
        case Bound::fp64:
            return "fp64";
        case Bound::alu:
            return "alu";
        case Bound::xu:
            return "xu";
        case Bound::tensor:
            return "tensor";
        case Bound::requests:
            return "requests";
        case Bound::data:
            return "data";
        case Bound::constants:
            return "constants";
        case Bound::l2:
            return "l2";
        case Bound::atomics:
            return "atomics";
        case Bound::dram:
            return "dram";
        case Bound::latency:
            return "latency";
    }
    return "";
}

Time modelled_time(const Gpu& gpu, const Occupancy& occupancy, const Work& work) {
    Time t;
    if (work.blocks == 0) {
        t.ms = launch_us / 1e3;
        return t;
    }
    // A multiprocessor executes whole blocks only.
    const double most = std::ceil(double(work.blocks) / gpu.multiprocessors);
    const double share = most / double(work.blocks);
    const auto at = [&t](Bound b) -> double& { return t.cycles[int(b)]; };
    at(Bound::issue) = double(work.instructions) * share / schedulers;
    at(Bound::fp32) = double(work.fp32) * share * 32 / gpu.fp32_lanes;
    at(Bound::fp64) = double(work.fp64) * share * 32 / gpu.fp64_lanes;
    at(Bound::alu) = double(work.alu) * share * 32 / alu_lanes;
    at(Bound::xu) = double(work.xu) * share * 32 / xu_lanes;
    at(Bound::tensor) = double(work.tensor_cycles) * share / schedulers;
    at(Bound::requests) = double(work.requests) * share * request_cycles;
    at(Bound::data) = double(work.tag_lookups + work.shared_wavefronts) * share;
    at(Bound::constants) = double(work.constant_lookups) * share * constant_cycles;
    const double working = std::min(double(work.blocks), double(gpu.multiprocessors));
    at(Bound::l2) = (double(work.l2_sectors - work.l2_writes) / l2_reads.of_each(working) +
                     double(work.l2_writes - work.l2_partial_writes) / l2_writes.of_each(working) +
                     double(work.l2_partial_writes) / l2_partial_writes.of_each(working)) *
                    share;
    at(Bound::atomics) = work.atomics;
    at(Bound::dram) = double(work.dram_bytes) / (gpu.dram_gbps * dram_efficiency) * gpu.clock_ghz;

    const double miss = work.from_l2 + work.from_dram;
    const double load =
        (1 - miss) * l1_latency + work.from_l2 * l2_latency + work.from_dram * dram_latency;
    const double barriers =
        work.barriers * (barrier_cycles + barrier_cycles_per_warp * occupancy.warps);
    const double waits = work.memory_waits * load + work.shared_waits * shared_latency;
    const double latency_of_block =
        (work.latency > 0 ? work.latency
                          : work.instructions_per_warp * instruction_latency + waits) +
        barriers;
    // Some blocks start at once. The others wait until a slot is free.
    const double rounds = std::max(1.0, most / occupancy.blocks);
    at(Bound::latency) = ((rounds - 1) * work.slowest_in_block + work.slowest) * latency_of_block +
                         (rounds - 1) * turnover;

    const double throughput = *std::max_element(t.cycles, t.cycles + int(Bound::latency));
    // The units of one multiprocessor. The pipe for fp32 accepts an instruction in each cycle, so
    // it never delays the scheduler.
    const double own =
        overlapped(of_units, {std::max(at(Bound::issue), at(Bound::fp32)), at(Bound::fp64),
                              at(Bound::alu), at(Bound::xu), at(Bound::tensor), at(Bound::requests),
                              at(Bound::data), at(Bound::constants)});
    const double shared =
        overlapped(of_units, {at(Bound::l2), at(Bound::atomics), at(Bound::dram)});
    // No other work is done until the first load of the launch is complete.
    const double first = work.memory_waits > 0 ? load : 0;
    const double alone =
        std::max(overlapped(of_waiting_warps, {own, at(Bound::latency)}), own + first);
    const double start = double(work.blocks) * (block_cycles + warp_cycles * occupancy.warps);
    const double cycles = std::max(overlapped(of_units, {alone, shared + first}), start);
    at(Bound::latency) = std::max(at(Bound::latency), start);
    t.bound = Bound::latency;
    if (throughput > at(Bound::latency))
        t.bound = Bound(std::max_element(t.cycles, t.cycles + int(Bound::latency)) - t.cycles);
    t.ms = (launch_us + (startup + cycles) / (gpu.clock_ghz * 1e3)) / 1e3;
    return t;
}

}  // namespace coalesce::model
