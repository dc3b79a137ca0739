// Finds loops in which a thread waits for another thread by reading memory repeatedly.
//
// METHOD
// Such a loop reads memory with strong loads (volatile, acquire, relaxed) or tests an mbarrier, and
// does not write memory. Each iteration reads the same values again until another warp has run.
// Therefore, at the end of each iteration, another warp runs. A loop of another kind may look like
// such a loop. Then the kernel still runs correctly; the simulator only switches between warps more
// often.
#include "sim/program/program.hpp"

namespace coalesce::sim {

namespace {

bool polls_memory(const InstructionInfo& in) {
    if (in.traits.code == OpCode::mbarrier_test_wait || in.traits.code == OpCode::mbarrier_try_wait)
        return true;
    if (in.traits.code == OpCode::SYNCS) return in.access == Access::load;
    const bool global = in.space == ptx::Space::global || in.space == ptx::Space::generic;
    return global && in.access == Access::load && in.traits.strong;
}

// Returns true if a loop with this operation may be a waiting loop.
bool may_wait(const Op& op, const InstructionInfo& in) {
    switch (op.control) {
        case Control::call:
        case Control::call_indirect:
        case Control::call_outside:
        case Control::barrier:
        case Control::ret:
        case Control::jump:
            return false;
        default:
            return in.space == ptx::Space::reg || in.access == Access::load;
    }
}

}  // namespace

void find_spins(Program& program) {
    for (uint32_t last = 0; last < program.ops.size(); ++last) {
        if (program.ops[last].control != Control::branch) continue;
        Branch& branch = program.ops[last].get<Branch>();
        if (branch.target > last) continue;
        bool waits = true, reads = false;
        for (uint32_t at = branch.target; at <= last && waits; ++at) {
            const Op& op = program.ops[at];
            const InstructionInfo& in = program.instructions[op.pc];
            waits = may_wait(op, in);
            reads = reads || polls_memory(in);
        }
        branch.spins = waits && reads;
    }
}

}  // namespace coalesce::sim
