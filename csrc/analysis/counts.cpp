#include "analysis/counts.hpp"

#include <algorithm>

#include "errors.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

void InstructionCounts::add(const InstructionCounts& o) {
    for (const Counter& c : counters) this->*c.value += o.*c.value;
    space = std::max(space, o.space);
    if (o.requests) access = o.access;
}

std::shared_ptr<const Listing> listing_of(const sim::Program& program) {
    return std::make_shared<const Listing>(
        Listing{program.kernel, program.source_file, program.files, program.instructions});
}

void Counts::add(const Counts& other) {
    if (listing != other.listing && *listing != *other.listing)
        throw LaunchError("counts of " + listing->kernel + " and of " + other.listing->kernel +
                          " cannot be added: they are not of one compiled kernel");
    for (size_t i = 0; i < instructions.size(); ++i) instructions[i].add(other.instructions[i]);
}

bool Counts::operator==(const Counts& other) const {
    return instructions == other.instructions &&
           (listing == other.listing || *listing == *other.listing);
}

void CountObserver::add_to(Counts& counts) const {
    counts.instructions.resize(program_.instructions.size());
    for (size_t i = 0; i < sites_.size(); ++i) counts.instructions[i].add(sites_[i]);
    // A segment executed each of its instructions once.
    for (uint32_t start = 0; start < runs_.size(); ++start) {
        if (runs_[start].executed == 0) continue;
        for (uint32_t op = start; op < program_.segment_end[start]; ++op) {
            if (!program_.ops[op].starts) continue;
            InstructionCounts& c = counts.instructions[program_.ops[op].pc];
            c.executed += runs_[start].executed;
            c.threads += runs_[start].threads;
        }
    }
}

// What was counted since the last block ended is this block's: blocks of a launch with groups do
// not wait for each other.
void CountObserver::flush(const sim::Block& block) {
    {
        const std::lock_guard lock(groups_->mutex);
        add_to(groups_->groups[groups_->group_of.at(block.linear)]);
    }
    std::fill(runs_.begin(), runs_.end(), Runs{});
    std::fill(sites_.begin(), sites_.end(), InstructionCounts{});
}

InstructionCounts Counts::sum(Space space, Access access) const {
    InstructionCounts total;
    for (const InstructionCounts& c : instructions) {
        if (c.requests && c.space == space && c.access == access) total.add(c);
    }
    return total;
}

uint64_t Counts::executed() const {
    uint64_t n = 0;
    for (const InstructionCounts& c : instructions) n += c.executed;
    return n;
}

uint64_t Counts::threads() const {
    uint64_t n = 0;
    for (const InstructionCounts& c : instructions) n += c.threads;
    return n;
}

model::Work Counts::work(uint64_t blocks, uint64_t buffer_bytes) const {
    model::Work work;
    work.blocks = blocks;
    work.instructions = executed();
    uint64_t sectors = 0;
    for (const InstructionCounts& c : instructions) {
        if (c.space == Space::shared) {
            work.shared_wavefronts += c.wavefronts;
        } else if (c.requests && c.space != Space::constant) {
            work.first_level_cycles += std::max(2 * c.requests, c.lines);
            sectors += c.sectors;
        }
    }
    work.dram_bytes = std::min(sectors * model::sector_bytes, buffer_bytes);
    return work;
}

std::map<std::string, double> Counts::metrics() const {
    std::map<std::string, double> m;
    const auto global = [&](const char* op, Access access) {
        const InstructionCounts c = sum(Space::global, access);
        const std::string suffix = std::string("_pipe_lsu_mem_global_op_") + op + ".sum";
        m["l1tex__t_requests" + suffix] = double(c.requests);
        m["l1tex__t_sectors" + suffix] = double(c.sectors);
        if (c.requests)
            m[std::string("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_") + op +
              ".ratio"] = double(c.sectors) / double(c.requests);
        return c;
    };
    const auto shared = [&](const char* op, Access access) {
        const InstructionCounts c = sum(Space::shared, access);
        m[std::string("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_") + op + ".sum"] =
            double(c.wavefronts);
        m[std::string("smsp__inst_executed_op_shared_") + op + ".sum"] = double(c.requests);
        return c;
    };
    const InstructionCounts load = global("ld", Access::load), store = global("st", Access::store);
    global("atom", Access::atomic);
    global("red", Access::reduction);
    const InstructionCounts shared_load = shared("ld", Access::load),
                            shared_store = shared("st", Access::store);
    const InstructionCounts shared_atomic = sum(Space::shared, Access::atomic);
    m["memory_l1_tag_requests_global"] = double(load.lines + store.lines);
    m["memory_l2_theoretical_sectors_global"] = double(load.sectors + store.sectors);
    m["memory_l2_theoretical_sectors_global_ideal"] = double(load.ideal + store.ideal);
    m["memory_l1_wavefronts_shared"] =
        double(shared_load.wavefronts + shared_store.wavefronts + shared_atomic.wavefronts);
    m["memory_l1_wavefronts_shared_ideal"] =
        double(shared_load.ideal + shared_store.ideal + shared_atomic.ideal);
    m["smsp__inst_executed.sum"] = double(executed());
    m["smsp__thread_inst_executed.sum"] = double(threads());
    return m;
}

}  // namespace coalesce::analysis
