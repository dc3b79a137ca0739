// Finds loops in which a thread waits for another thread by reading memory repeatedly.
//
// METHOD
// Such a loop reads memory with strong loads (volatile, acquire, relaxed) or tests an mbarrier, and
// does not write memory. Each iteration reads the same values again until another warp has run.
// Therefore, at the end of each iteration, another warp runs. A loop of another kind may look like
// such a loop. Then the kernel still runs correctly; the simulator only switches between warps more
// often.
#include <algorithm>
#include <ranges>

#include "sim/program/program.hpp"

namespace coalesce::sim {

namespace {

// Returns true if the operand is a constant whose bits are zeros in all lanes.
bool is_zero(const Program& program, Locator operand, uint32_t bytes) {
    if (operand == no_operand || (operand & 1) == 0) return false;
    const uint32_t at = operand >> 1;
    // The launch fills some constants of machine code.
    if (program.machine && std::ranges::any_of(program.machine->words, [at](const auto& word) {
            return word.constant == at;
        }))
        return false;
    return std::ranges::all_of(
        program.constants | std::views::drop(at) | std::views::take(warp_size * bytes),
        [](std::byte b) { return b == std::byte{}; });
}

// Returns true for an atomic with which a thread reads memory, such as atomicAdd(&x, 0). With the
// operand 0, no atomic changes memory again when it is repeated.
bool only_reads(const Program& program, const Op& op, const InstructionInfo& in) {
    if (in.access != Access::atomic || !op.has_memory()) return false;
    if (in.traits.form == AtomicForm::compare_and_swap) return op.operand[1] == op.operand[2];
    return in.traits.form == AtomicForm::plain &&
           is_zero(program, op.operand[1], op.memory().bytes);
}

bool polls_memory(const Program& program, const Op& op, const InstructionInfo& in) {
    if (in.traits.code == OpCode::mbarrier_test_wait || in.traits.code == OpCode::mbarrier_try_wait)
        return true;
    if (in.traits.code == OpCode::SYNCS) return in.access == Access::load;
    const bool global = in.space == ptx::Space::global || in.space == ptx::Space::generic;
    return global &&
           ((in.access == Access::load && in.traits.strong) || only_reads(program, op, in));
}

// Returns true if a loop with this operation may be a waiting loop.
bool may_wait(const Program& program, const Op& op, const InstructionInfo& in) {
    switch (op.control) {
        case Control::call:
        case Control::call_indirect:
        case Control::call_outside:
        case Control::barrier:
        case Control::ret:
        case Control::jump:
            return false;
        default:
            return in.space == ptx::Space::reg || in.access == Access::load ||
                   only_reads(program, op, in);
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
            waits = may_wait(program, op, in);
            reads = reads || polls_memory(program, op, in);
        }
        branch.spins = waits && reads;
    }
}

}  // namespace coalesce::sim
