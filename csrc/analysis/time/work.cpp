// Computes the input of the time model from the counts.
//
// METHOD
// Everything except the latency is a sum over the instructions. The latency depends on how often a
// warp waits. The code is divided into stretches. A stretch is a sequence of instructions that are
// executed equally often and have no barrier between them. The model assumes one wait for memory
// per stretch, because the GPU's assembler issues all loads of a stretch before their first use.
// There are three refinements:
// - In machine code, a store to global memory divides a stretch. The warp waits once for the loads
//   before the store, and once for the loads after it.
// - Each iteration of a loop is a stretch. But the assembler unrolls loops. For a loop of the PTX
//   without barriers, the model assumes that it is unrolled until eight loads are pending. This
//   agrees with recordings of the kernels in csrc/kernels/sums.
// - An `if` that most warps take does not end a stretch.
#include <algorithm>

#include "analysis/caches/cache_result.hpp"
#include "analysis/counts/counts.hpp"
#include "analysis/time/latency.hpp"
#include "model/coalescing.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

namespace {

constexpr uint64_t loads_under_way = 8;

// Returns true if two instructions, executed `a` and `b` times, are executed about equally often.
bool alike(uint64_t a, uint64_t b) { return 2 * std::min(a, b) > std::max(a, b); }

// Returns the member of `work` for a pipe, or null if the model does not have this pipe.
uint64_t* part_of(model::Work& work, sim::Pipe pipe) {
    switch (pipe) {
        case sim::Pipe::fp32:
            return &work.fp32;
        case sim::Pipe::fp64:
            return &work.fp64;
        case sim::Pipe::alu:
            return &work.alu;
        case sim::Pipe::xu:
            return &work.xu;
        default:
            return nullptr;
    }
}

// The numbers of waits of all warps together: for global memory, for shared memory and at barriers.
struct Waits {
    uint64_t memory = 0, shared = 0, barriers = 0;
};

Waits waits_of(const Counts& counts, uint64_t warps) {
    Waits total;
    // These numbers describe the current stretch. `executed` says how often it is executed.
    // `memory` says how often its most frequent load of global or local memory is executed, and
    // `shared` says the same for shared memory. `loads` is the number of its loads of global or
    // local memory.
    uint64_t executed = 0, memory = 0, shared = 0, loads = 0;
    bool after_barrier = false;
    bool machine_code = false;  // in machine code, the assembler has already unrolled loops
    for (const sim::InstructionInfo& info : counts.code->instructions)
        machine_code = machine_code || info.traits.machine_code;
    const auto end = [&](bool at_barrier) {
        if (!machine_code && executed >= 2 * warps && loads < loads_under_way && !after_barrier &&
            !at_barrier)
            memory = std::max(std::min(memory, warps), memory * loads / loads_under_way);
        total.memory += memory;
        total.shared += shared;
        executed = memory = shared = loads = 0;
        after_barrier = at_barrier;
    };
    for (size_t i = 0; i < counts.instructions.size(); ++i) {
        const InstructionCounts& c = counts.instructions[i];
        const sim::InstructionInfo& info = counts.code->instructions[i];
        if (c.executed == 0) continue;
        const bool barrier = info.traits.block_barrier;
        if (barrier) total.barriers += c.executed;
        if (barrier || (executed && !alike(executed, c.executed))) end(barrier);
        executed = std::max(executed, c.executed);
        if (info.space == Space::reg || info.traits.bulk || !c.requests) continue;
        if (machine_code && info.access == Access::store && c.space == Space::global) {
            total.memory += memory;  // the store needs the loaded value
            memory = 0;
        }
        if (info.access != Access::load && info.access != Access::atomic) continue;
        if (c.space == Space::shared) {
            shared = std::max(shared, c.requests);
        } else if (c.space != Space::constant) {
            memory = std::max(memory, c.requests);
            ++loads;
        }
    }
    end(false);
    return total;
}

}  // namespace

model::Work Counts::work(uint64_t blocks, uint32_t warps, uint64_t buffer_bytes,
                         const sim::MachineCode* machine, const CacheResult* caches) const {
    model::Work work;
    work.blocks = blocks;
    work.instructions = executed();
    uint64_t sectors = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
        const InstructionCounts& c = instructions[i];
        const sim::InstructionInfo& info = code->instructions[i];
        work.tensor_cycles += c.executed * info.traits.tensor_cycles;
        if (info.traits.bulk) continue;  // its time is not modelled
        if (info.space == Space::reg) {
            if (uint64_t* const issued = part_of(work, info.traits.pipe)) *issued += c.executed;
        } else if (c.space == Space::constant) {
            const uint64_t addresses = c.distinct_bytes / std::max<uint64_t>(1, info.bytes);
            work.constant_lookups += addresses - std::min(addresses, c.requests);
        } else {
            work.requests += c.requests;
            work.shared_wavefronts += c.wavefronts;
            const Misses* replayed = caches ? caches->misses_of(i) : nullptr;
            const double passes =
                replayed ? replayed->cycles_per_request() * double(c.requests) : double(c.lines);
            work.tag_lookups += std::max(c.requests - c.shared_requests, uint64_t(passes));
            sectors += c.sectors;
        }
    }
    if (caches) {
        const model::CacheCounts& c = caches->counts;
        work.dram_bytes = c.dram_read_bytes + c.dram_written_bytes;
        work.l2_sectors = c.l2_reads + c.l2_writes;
        work.l2_writes = c.l2_writes;
        work.l2_partial_writes = c.l2_partial_writes;
        const double loads = std::max(1.0, double(c.l1_loads));
        const double from_dram = double(c.dram_read_bytes) / model::sector_bytes;
        work.from_dram = std::min(1.0, from_dram / loads);
        // A read that was merged with another read waits for L2, too.
        const double reads = double(c.l2_reads + c.l2_merged);
        work.from_l2 = std::clamp((reads - from_dram) / loads, 0.0, 1.0);
    } else {  // the model assumes that each line comes from DRAM once
        work.dram_bytes = std::min(sectors * model::sector_bytes, buffer_bytes);
        work.l2_sectors = work.dram_bytes / model::sector_bytes;
        work.from_dram = sectors ? double(work.l2_sectors) / double(sectors) : 0;
    }

    const double of_a_warp = 1.0 / std::max(1.0, double(blocks) * warps);
    const Waits waits = waits_of(*this, blocks * warps);
    work.instructions_per_warp = double(work.instructions) * of_a_warp;
    work.memory_waits = double(waits.memory) * of_a_warp;
    work.shared_waits = double(waits.shared) * of_a_warp;
    work.barriers = double(waits.barriers) * of_a_warp;
    if (caches && caches->operations > 0) {
        work.slowest_in_block = caches->most_in_block / caches->operations;
        work.slowest = caches->most / caches->operations;
    }
    if (caches) work.atomics = caches->atomics;
    if (machine) work.latency = latency(*this, machine->schedule, work, caches) * of_a_warp;
    return work;
}

}  // namespace coalesce::analysis
