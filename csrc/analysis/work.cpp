// What the time model needs, from the counts.
//
// METHOD
// Everything but the latency is a sum over the instructions. For the latency we need how often a
// warp waits: for loads from memory once in each stretch of instructions that are executed equally
// often and have no barrier between them, as the GPU's assembler issues the loads of a stretch
// before the first use of one. Each turn of a loop is a stretch; an `if` that most warps take does
// not end one.
#include <algorithm>
#include <string_view>

#include "analysis/counts.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

namespace {

bool is_barrier(std::string_view opcode) {
    return opcode.starts_with("bar.sync") || opcode.starts_with("barrier") ||
           opcode.starts_with("bar.red");
}

// Whether two instructions are executed about equally often.
bool alike(uint64_t a, uint64_t b) { return 2 * std::min(a, b) > std::max(a, b); }

// The waits of all warps, added up.
struct Waits {
    uint64_t memory = 0, shared = 0, barriers = 0;
};

Waits waits_of(const Counts& counts) {
    Waits total;
    uint64_t executed = 0, memory = 0, shared = 0;  // of the stretch; loads' executions at most
    const auto end = [&] {
        total.memory += memory;
        total.shared += shared;
        executed = memory = shared = 0;
    };
    for (size_t i = 0; i < counts.instructions.size(); ++i) {
        const InstructionCounts& c = counts.instructions[i];
        const sim::InstructionInfo& info = counts.listing->instructions[i];
        if (c.executed == 0) continue;
        const bool barrier = is_barrier(info.opcode);
        if (barrier) total.barriers += c.executed;
        if (barrier || (executed && !alike(executed, c.executed))) end();
        executed = std::max(executed, c.executed);
        if (info.space == Space::reg || !c.requests) continue;
        if (info.access != Access::load && info.access != Access::atomic) continue;
        if (c.space == Space::shared) {
            shared = std::max(shared, c.requests);
        } else if (c.space != Space::constant) {
            memory = std::max(memory, c.requests);
        }
    }
    end();
    return total;
}

}  // namespace

model::Work Counts::work(uint64_t blocks, uint32_t warps, uint64_t buffer_bytes) const {
    model::Work work;
    work.blocks = blocks;
    work.instructions = executed();
    uint64_t sectors = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
        const InstructionCounts& c = instructions[i];
        const sim::InstructionInfo& info = listing->instructions[i];
        if (info.space == Space::reg) {
            if (info.opcode.ends_with(".f64")) work.fp64 += c.executed;
            if (info.opcode.ends_with(".f32")) work.fp32 += c.executed;
        } else if (c.space == Space::constant) {
            const uint64_t addresses = c.distinct_bytes / std::max<uint64_t>(1, info.bytes);
            work.constant_lookups += addresses - std::min(addresses, c.requests);
        } else {
            work.requests += c.requests;
            work.shared_wavefronts += c.wavefronts;
            work.tag_lookups += std::max(c.requests - c.shared_requests, c.lines);
            sectors += c.sectors;
        }
    }
    // Without a replay of the caches: every line comes from DRAM once.
    work.dram_bytes = std::min(sectors * model::sector_bytes, buffer_bytes);
    work.l2_sectors = work.dram_bytes / model::sector_bytes;
    work.from_dram = sectors ? double(work.l2_sectors) / double(sectors) : 0;

    const double of_a_warp = 1.0 / std::max(1.0, double(blocks) * warps);
    const Waits waits = waits_of(*this);
    work.instructions_a_warp = double(work.instructions) * of_a_warp;
    work.memory_waits = double(waits.memory) * of_a_warp;
    work.shared_waits = double(waits.shared) * of_a_warp;
    work.barriers = double(waits.barriers) * of_a_warp;
    return work;
}

}  // namespace coalesce::analysis
