#include "model/time.hpp"

#include <algorithm>
#include <cmath>

namespace coalesce::model {

namespace {

// Recorded on an H200 (tests/data/models_h200.json), in cycles unless said otherwise.
constexpr double launch_us = 1.65;  // elapsed less active time, of every launch
constexpr double startup = 700;     // before the first load of a launch: cold caches for its code
constexpr double turnover = 600;    // between a block's end and its successor's first load
constexpr double request_cycles = 1.25;  // lsuin_requests stay below 0.8 a cycle
constexpr double constant_cycles = 2.3;  // an address of a load from constant memory
constexpr double l1_latency = 35, l2_latency = 270, dram_latency = 560, shared_latency = 30;
constexpr double barrier_cycles = 100;     // from the last arrival to the first shared load's issue
constexpr double instruction_latency = 4;  // from one instruction of a warp to the next
// Like l2_sectors_a_cycle, which is between them: of reads (`access/gather`), of writes, of writes
// of part of a sector.
constexpr double l2_reads_a_cycle = 80.0 / 132, l2_writes_a_cycle = 65.0 / 132;
constexpr double l2_partial_a_cycle = 33.0 / 132;
constexpr double dram_efficiency = 0.92;  // of the published bandwidth

}  // namespace

const char* name_of(Bound bound) {
    switch (bound) {
        case Bound::issue:
            return "issue";
        case Bound::fp32:
            return "fp32";
        case Bound::fp64:
            return "fp64";
        case Bound::requests:
            return "requests";
        case Bound::data:
            return "data";
        case Bound::constants:
            return "constants";
        case Bound::l2:
            return "l2";
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
    // The busiest multiprocessor has a whole number of blocks.
    const double most = std::ceil(double(work.blocks) / gpu.multiprocessors);
    const double share = most / double(work.blocks);
    const auto at = [&t](Bound b) -> double& { return t.cycles[int(b)]; };
    at(Bound::issue) = double(work.instructions) * share / schedulers;
    at(Bound::fp32) = double(work.fp32) * share * 32 / gpu.fp32_lanes;
    at(Bound::fp64) = double(work.fp64) * share * 32 / gpu.fp64_lanes;
    at(Bound::requests) = double(work.requests) * share * request_cycles;
    at(Bound::data) = double(work.tag_lookups + work.shared_wavefronts) * share;
    at(Bound::constants) = double(work.constant_lookups) * share * constant_cycles;
    at(Bound::l2) = (double(work.l2_sectors - work.l2_writes) / l2_reads_a_cycle +
                     double(work.l2_writes - work.l2_partial_writes) / l2_writes_a_cycle +
                     double(work.l2_partial_writes) / l2_partial_a_cycle) *
                    share;
    at(Bound::dram) = double(work.dram_bytes) / (gpu.dram_gbps * dram_efficiency) * gpu.clock_ghz;

    const double miss = work.from_l2 + work.from_dram;
    const double load =
        (1 - miss) * l1_latency + work.from_l2 * l2_latency + work.from_dram * dram_latency;
    const double alone = work.instructions_a_warp * instruction_latency + work.memory_waits * load +
                         work.shared_waits * shared_latency + work.barriers * barrier_cycles;
    // Blocks that find a slot at once, and those that wait for one.
    const double rounds = std::max(1.0, most / occupancy.blocks);
    at(Bound::latency) = rounds * alone + (rounds - 1) * turnover;

    const double throughput = *std::max_element(t.cycles, t.cycles + int(Bound::latency));
    // The first load of a launch is answered before anything is busy; and of blocks that started
    // together none has work while all are at their barriers.
    const double meetings = work.barriers * barrier_cycles +
                            (work.barriers > 0 ? work.shared_waits * shared_latency : 0);
    const double busy = throughput + (work.memory_waits > 0 ? load : 0) + meetings / rounds;
    // Where waiting and work take about as long, each makes the other longer.
    const double cycles = std::cbrt(std::pow(busy, 3) + std::pow(at(Bound::latency), 3));
    t.bound = Bound::latency;
    if (throughput > at(Bound::latency))
        t.bound = Bound(std::max_element(t.cycles, t.cycles + int(Bound::latency)) - t.cycles);
    t.ms = (launch_us + (startup + cycles) / (gpu.clock_ghz * 1e3)) / 1e3;
    return t;
}

}  // namespace coalesce::model
