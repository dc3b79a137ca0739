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
    for (size_t i = 0; i < counts.instructions.size(); ++i)
        counts.instructions[i].add(costs_.of(i));
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
    costs_.clear();
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

}  // namespace coalesce::analysis
