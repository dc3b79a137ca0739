// Loops in which a thread waits for another one by reading memory again and again.
//
// METHOD
// Such a loop reads memory by strong loads (volatile, acquire, relaxed) or asks an mbarrier, and
// changes none. Going round it again tells nothing new until another warp has run, so that the
// scheduler takes its last branch for the end of the warp's turn. A loop that is taken for one and
// is none runs as well, only with more turns.
#include "sim/program.hpp"

namespace coalesce::sim {

namespace {

bool watches(const InstructionInfo& in) {
    if (in.traits.code == OpCode::mbarrier_test_wait || in.traits.code == OpCode::mbarrier_try_wait)
        return true;
    const bool global = in.space == ptx::Space::global || in.space == ptx::Space::generic;
    return global && in.access == Access::load && in.traits.strong;
}

// Whether a loop with this operation may be one that only waits.
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
            reads = reads || watches(in);
        }
        branch.spins = waits && reads;
    }
}

}  // namespace coalesce::sim
