// mbarriers: barriers in shared memory (sim/program/mbarrier.hpp).
//
// On the hardware, the word of an mbarrier has another layout than on the simulator. The simulator
// uses its own layout for machine code, too. Programs do not see the difference: an arrival returns
// the state of the mbarrier, but a program may only wait for the phase with it. In both layouts,
// the highest bit of the state is the parity of the phase.
#include "sass/lifter.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;
using sim::Access;
using sim::MbarrierUpdate;

Op Lifter::mbarrier_op(const Operand& address, Access access) {
    Op op;
    op.set(sim::MbarrierOperand{}).memory.bytes = sizeof(uint64_t);
    describe(ptx::Space::shared, access, sizeof(uint64_t));
    set_address(op, address, ptx::Space::shared);
    return op;
}

void Lifter::mbarrier(const Instruction& in) {
    if (in.has("EXCH")) return mbarrier_init(in);
    if (in.has("ARRIVE")) return mbarrier_arrive(in);
    if (in.has("PHASECHK")) return mbarrier_wait(in);
    // SYNCS.CCTL.IV [UR4] ends an mbarrier.
    only(in, {"CCTL", "IV"});
    if (!in.has("CCTL") || !in.has("IV")) unsupported();
    Op op = mbarrier_op(operand(in, 0), Access::store);
    op.get<sim::MbarrierOperand>().update = MbarrierUpdate::inval;
    op.run = engine_.memory.mbarrier_update;
    emit(op);
}

// SYNCS.EXCH.64 URZ, [UR8], UR4 stores the first word of an mbarrier.
void Lifter::mbarrier_init(const Instruction& in) {
    only(in, {"EXCH", "64"});
    if (!in.has("64")) unsupported();
    expect(in, 0, "URZ");
    Op op = mbarrier_op(operand(in, 1), Access::store);
    op.get<sim::MbarrierOperand>().update = MbarrierUpdate::init_word;
    if (!is_register(operand(in, 2)) || is_zero(in.operands[2])) unsupported();
    op.operand[1] = raw(in.operands[2], 2);
    op.operand[2] = register_after(op.operand[1], 1);
    op.run = engine_.memory.mbarrier_update;
    emit(op);
}

// SYNCS.ARRIVE.TRANS64.A1T0 R4, [UR8], RZ changes an mbarrier. A stands for the pending arrivals,
// and T for the pending bytes. The character after each of them says by how much the instruction
// changes this number: 0, 1, or R for the value of the last operand. TX decreases the bytes. An
// instruction without these letters means the same as one with A1TR.
void Lifter::mbarrier_arrive(const Instruction& in) {
    only(in, {"ARRIVE", "TRANS64", "RED", "OPTOUT", "A1T0", "ART0", "A0T1", "A0TR", "A0TX"});
    if (!in.has("TRANS64")) unsupported();
    MbarrierUpdate update = MbarrierUpdate::arrive_expect;
    bool counts = true, one = false;  // the amount is the last operand, or 1
    int forms = 0;
    const auto form = [&](std::string_view letters, MbarrierUpdate of, bool by_register) {
        if (!in.has(letters)) return;
        ++forms;
        update = of;
        counts = by_register;
        one = !by_register;
    };
    form("A1T0", MbarrierUpdate::arrive, false);
    form("ART0", MbarrierUpdate::arrive, true);
    form("A0T1", MbarrierUpdate::expect, false);
    form("A0TR", MbarrierUpdate::expect, true);
    form("A0TX", MbarrierUpdate::complete, true);
    if (forms > 1) unsupported("its form");
    if (in.has("OPTOUT")) {
        if (update == MbarrierUpdate::expect || update == MbarrierUpdate::complete) unsupported();
        update = update == MbarrierUpdate::arrive ? MbarrierUpdate::arrive_drop
                                                  : MbarrierUpdate::arrive_drop_expect;
    }
    const Operand& state = operand(in, 0);
    if (!is_register(state) || (in.has("RED") && !is_zero(state))) unsupported();
    // On the simulator, the state of an mbarrier has another layout than on the hardware. Code does
    // not notice this, except for mbarrier.pending_count, which reads a number from the state.
    for (const ptx::Function* f : graph_.functions) {
        for (const ptx::Instruction& i : f->body) {
            if (i.opcode == "mbarrier" && i.has("pending_count"))
                unsupported("mbarrier.pending_count");
        }
    }
    Op op = mbarrier_op(operand(in, 1), Access::atomic);
    op.get<sim::MbarrierOperand>().update = update;
    const Operand& amount = operand(in, 2);
    if (!counts && !is_zero(amount)) unsupported("an amount");
    op.operand[1] = one ? constant(1) : word(amount);
    const bool wanted = !is_zero(state);
    if (wanted) op.operand[0] = scratch();
    op.run = engine_.memory.mbarrier_update;
    const Locator whole = op.operand[0];
    emit(op);
    if (wanted) machine(MachineOp::split_pair, {result(state, 2), whole});
}

// SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R5 tests whether a phase of an mbarrier is complete.
// The highest bit of the last operand is the parity of the phase.
void Lifter::mbarrier_wait(const Instruction& in) {
    only(in, {"PHASECHK", "TRANS64", "TRYWAIT"});
    if (!in.has("TRANS64")) unsupported();
    Op op = mbarrier_op(operand(in, 1), Access::load);
    op.get<sim::MbarrierOperand>().by_parity = true;
    op.operand[0] = written_predicate(operand(in, 0));
    op.operand[1] = scratch();
    as_ptx_to_scratch(OpCode::shr, {"u32"}, {op.operand[1], word(operand(in, 2)), constant(31)});
    op.run = engine_.memory.mbarrier_wait;
    emit(op);
}

// ARRIVES.LDGSTSBAR.64.TRANSCNT [UR8] reports that the thread's asynchronous copies are complete.
// With .TRANSCNT, it reports one byte, which SYNCS.ARRIVE.A0T1 has announced. With .ARVCNT, it
// reports an arrival.
void Lifter::copies_arrive(const Instruction& in) {
    only(in, {"LDGSTSBAR", "64", "TRANSCNT", "ARVCNT"});
    if (!in.has("LDGSTSBAR") || !in.has("64") || in.has("TRANSCNT") == in.has("ARVCNT"))
        unsupported();
    Op wait;
    wait.run = engine_.memory.async_wait;
    wait.set(sim::AsyncGroups{.all = true});
    emit(wait);
    Op op = mbarrier_op(operand(in, 0), Access::atomic);
    op.get<sim::MbarrierOperand>().update =
        in.has("TRANSCNT") ? MbarrierUpdate::complete : MbarrierUpdate::arrive;
    op.operand[1] = constant(1);
    op.run = engine_.memory.mbarrier_update;
    emit(op);
}

}  // namespace coalesce::sass
