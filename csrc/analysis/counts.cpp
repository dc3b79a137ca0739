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
    for (size_t i = 0; i < parted_.size(); ++i) {
        counts.instructions[i].parted += parted_[i];
        counts.instructions[i].contended += contended_[i];
        if (!parted_[i] || !program_.machine) continue;
        const auto met = program_.machine->meetings.find(uint32_t(i));
        if (met == program_.machine->meetings.end()) continue;
        for (const uint32_t memory : met->second)
            counts.instructions[memory].unjoined += parted_[i];
    }
}

void CountObserver::contend(const sim::Warp& w, const sim::MemoryEvent& e) {
    // What nobody wrote is no number here, and stays it when a number is added.
    auto& registers = const_cast<sim::Warp&>(w);
    const uint32_t* const expected = registers.lanes<const uint32_t>(e.op->operand[1]);
    const uint32_t* const value = registers.lanes<const uint32_t>(e.op->operand[2]);
    const int words = e.bytes / 4;
    bool others = false;
    int unchanged = 0;
    sim::for_each_lane(e.mask, [&](int lane) {
        const auto [warp, fresh] = swapping_.try_emplace({w.block, e.address(lane)}, &w);
        bool unwritten = true;
        for (int n = lane; n < words * sim::warp_size; n += sim::warp_size)
            unwritten &= expected[n] == ~0u && value[n] == ~0u;
        unchanged += unwritten;
        others |= warp->second != &w;
    });
    contended_[e.pc] += others || unchanged > 1;
}

// What was counted since the last block ended is this block's: blocks of a launch with groups do
// not wait for each other.
void CountObserver::flush(const sim::Block& block) {
    {
        const std::lock_guard lock(groups_->mutex);
        add_to(groups_->groups[groups_->group_of.at(block.linear)]);
    }
    std::fill(runs_.begin(), runs_.end(), Runs{});
    std::fill(parted_.begin(), parted_.end(), 0);
    std::fill(contended_.begin(), contended_.end(), 0);
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
