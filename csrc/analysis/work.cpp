// What the time model needs, from the counts.
//
// METHOD
// Everything but the latency is a sum over the instructions. For the latency we need how often a
// warp waits: for loads from memory once in each stretch of instructions that are executed equally
// often and have no barrier between them, as the GPU's assembler issues the loads of a stretch
// before the first use of one. In machine code a store to global memory ends a wait: loads behind
// it are waited for anew. Each turn of a loop is a stretch, but one without barriers is
// unrolled until eight loads are under way (seen in recordings of the sums); an `if` that most
// warps take does not end a stretch.
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "analysis/counts.hpp"
#include "analysis/latency.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

namespace {

constexpr uint64_t loads_under_way = 8;

// Machine code's opcodes are written in capitals: "LDG.E", "FFMA", "BAR.SYNC".
bool is_machine_code(std::string_view opcode) {
    return !opcode.empty() && opcode.front() >= 'A' && opcode.front() <= 'Z';
}

// Whether an arithmetic instruction is of the pipe whose opcodes start with this letter, or in PTX
// have this type.
bool is_arithmetic(std::string_view opcode, char letter, std::string_view type) {
    if (!is_machine_code(opcode)) return opcode.ends_with(type);
    const std::string_view rest = opcode.substr(1);
    return opcode.front() == letter &&
           (rest.starts_with("FMA") || rest.starts_with("ADD") || rest.starts_with("MUL"));
}

bool starts_with_one_of(std::string_view opcode, std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return opcode.starts_with(name); });
}

// Of machine code only: what PTX becomes is not known well enough.
bool is_of_alu(std::string_view opcode) {
    return starts_with_one_of(opcode,
                              {"IADD", "ISETP", "ISCADD", "IABS",   "IMNMX",    "VIMNMX", "VIADD",
                               "LOP",  "LEA",   "SHF",    "SHL",    "SHR",      "SEL",    "PRMT",
                               "SGXT", "BMSK",  "PLOP",   "PSETP",  "FSETP",    "FMNMX",  "FSEL",
                               "FCHK", "I2FP",  "HSETP2", "HMNMX2", "VABSDIFF", "P2R",    "R2P"});
}

bool is_of_xu(std::string_view opcode) {
    return starts_with_one_of(opcode,
                              {"MUFU", "F2I", "I2F.", "F2F", "FRND", "POPC", "FLO", "BREV"});
}

bool is_barrier(std::string_view opcode) {
    return opcode.starts_with("BAR.") || opcode.starts_with("bar.sync") ||
           opcode.starts_with("barrier") || opcode.starts_with("bar.red");
}

// Whether two instructions are executed about equally often.
bool alike(uint64_t a, uint64_t b) { return 2 * std::min(a, b) > std::max(a, b); }

// The waits of all warps, added up.
struct Waits {
    uint64_t memory = 0, shared = 0, barriers = 0;
};

Waits waits_of(const Counts& counts, uint64_t warps) {
    Waits total;
    // Of the stretch: executions, those of its loads at most, and how many loads it has.
    uint64_t executed = 0, memory = 0, shared = 0, loads = 0;
    bool after_barrier = false;
    bool machine_code = false;  // unrolled by the assembler, or else it will be
    for (const sim::InstructionInfo& info : counts.listing->instructions)
        machine_code = machine_code || is_machine_code(info.opcode);
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
        const sim::InstructionInfo& info = counts.listing->instructions[i];
        if (c.executed == 0) continue;
        const bool barrier = is_barrier(info.opcode);
        if (barrier) total.barriers += c.executed;
        if (barrier || (executed && !alike(executed, c.executed))) end(barrier);
        executed = std::max(executed, c.executed);
        if (info.space == Space::reg || !c.requests) continue;
        if (machine_code && info.access == Access::store && c.space == Space::global) {
            total.memory += memory;  // the store needs what was loaded
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
        const sim::InstructionInfo& info = listing->instructions[i];
        if (info.space == Space::reg) {
            if (is_arithmetic(info.opcode, 'D', ".f64")) work.fp64 += c.executed;
            if (is_arithmetic(info.opcode, 'F', ".f32")) work.fp32 += c.executed;
            if (is_of_alu(info.opcode)) work.alu += c.executed;
            if (is_of_xu(info.opcode)) work.xu += c.executed;
        } else if (c.space == Space::constant) {
            const uint64_t addresses = c.distinct_bytes / std::max<uint64_t>(1, info.bytes);
            work.constant_lookups += addresses - std::min(addresses, c.requests);
        } else {
            work.requests += c.requests;
            work.shared_wavefronts += c.wavefronts;
            const Misses* replayed = caches ? caches->misses_of(i) : nullptr;
            const double passes =
                replayed ? replayed->cycles_a_request() * double(c.requests) : double(c.lines);
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
        // Reads that were merged on the way wait for the second level, too.
        const double reads = double(c.l2_reads + c.l2_merged);
        work.from_l2 = std::clamp((reads - from_dram) / loads, 0.0, 1.0);
    } else {  // as if every line came from DRAM once
        work.dram_bytes = std::min(sectors * model::sector_bytes, buffer_bytes);
        work.l2_sectors = work.dram_bytes / model::sector_bytes;
        work.from_dram = sectors ? double(work.l2_sectors) / double(sectors) : 0;
    }

    const double of_a_warp = 1.0 / std::max(1.0, double(blocks) * warps);
    const Waits waits = waits_of(*this, blocks * warps);
    work.instructions_a_warp = double(work.instructions) * of_a_warp;
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
