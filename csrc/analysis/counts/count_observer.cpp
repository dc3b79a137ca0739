#include "analysis/counts/count_observer.hpp"

namespace coalesce::analysis {

void CountObserver::add_to(Counts& counts) const {
    counts.instructions.resize(program_.instructions.size());
    for (size_t i = 0; i < counts.instructions.size(); ++i)
        counts.instructions[i].add(costs_.of(i));
    for (size_t i = 0; i < guarded_.size(); ++i)
        counts.instructions[i].predicated_on += guarded_[i];
    std::vector<bool> has_guard(program_.instructions.size());
    for (const sim::Op& op : program_.ops)
        if (op.starts_guarded) has_guard[op.pc] = true;
    std::vector<uint64_t> executed(program_.instructions.size());
    // `runs_` says how often each segment was executed. A segment is a sequence of consecutive
    // instructions. When it is executed, each of its instructions is executed once.
    for (uint32_t start = 0; start < runs_.size(); ++start) {
        if (runs_[start].executed == 0) continue;
        for (uint32_t op = start; op < program_.segment_end[start]; ++op) {
            if (!program_.ops[op].starts) continue;
            InstructionCounts& c = counts.instructions[program_.ops[op].pc];
            c.executed += runs_[start].executed;
            executed[program_.ops[op].pc] += runs_[start].executed;
            c.threads += runs_[start].threads;
            if (!has_guard[program_.ops[op].pc]) c.predicated_on += runs_[start].threads;
        }
    }
    if (program_.machine) {
        for (const auto& [access, branch] : program_.machine->after_waits)
            counts.instructions[access].after_waits += executed[access] + executed[branch];
    }
    for (size_t i = 0; i < executed.size(); ++i) {
        const sim::InstructionInfo& info = program_.instructions[i];
        if (info.waits) counts.instructions[i].waits += executed[i];
        if (program_.allocates &&
            (info.traits.calls_outside || info.traits.code == sim::OpCode::call))
            counts.instructions[i].heap_calls += executed[i];
    }
    for (size_t i = 0; i < diverged_.size(); ++i) {
        counts.instructions[i].diverged += diverged_[i];
        if (!diverged_[i] || !program_.machine) continue;
        const auto reached = program_.machine->possible_reconvergence.find(uint32_t(i));
        if (reached == program_.machine->possible_reconvergence.end()) continue;
        for (const uint32_t memory : reached->second)
            counts.instructions[memory].unjoined += diverged_[i];
    }
}

}  // namespace coalesce::analysis
