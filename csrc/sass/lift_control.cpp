// Branches, calls, barriers, special registers and the exchange of values between lanes.
#include <algorithm>
#include <bit>
#include <tuple>

#include "sass/lifter.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;
using sim::Control;

// Emits a control op. If the op is guarded and not a branch, it also emits a branch around the op.
void Lifter::guarded_control(Op op, const Operand* condition) {
    const Operand& guard = in_->guard;
    const bool guarded = guard.kind == Kind::predicate && !(guard.number < 0 && !guard.negated);
    if (guarded || condition) {
        Op skip;
        skip.control = Control::branch;
        if (condition) {
            skip.guard =
                guarded ? both(predicate(*condition), predicate(guard)) : predicate(*condition);
            skip.guard_negated = true;
        } else {
            Operand plain = guard;
            plain.negated = false;
            skip.guard = predicate(plain);
            skip.guard_negated = !guard.negated;
        }
        const uint32_t at = uint32_t(program_.ops.size());
        skip.set(sim::Branch{.target = at + 2, .skips_guarded = true});
        append(skip);
    }
    append(op);
}

// Returns a predicate that is true if both predicates are true.
Locator Lifter::both(Locator one, Locator other) {
    const Locator result = scratch_predicate();
    as_ptx_to_scratch(OpCode::and_, {"pred"}, {result, one, other});
    return result;
}

// Translates BRA `(.L_x_0), BRA P1, `(.L_x_0), BRA.U UP0, `(.L_x_0), BRA.DIV UR4, `(.L_x_0) and
// @P0 BRA.U.ANY `(.L_x_0)
void Lifter::branch(const Instruction& in) {
    only(in, {"U", "ANY", "DIV", "CONV"});
    if (in.operands.empty() || in.operands.size() > 2) unsupported();
    const Operand& target = operand(in, in.operands.size() - 1);
    if (target.kind != Kind::label) unsupported("a target elsewhere");
    const bool guarded = in.guard.kind == Kind::predicate;
    const bool conditional = in.operands.size() == 2;
    Op op;
    op.control = Control::branch;
    op.set(sim::Branch{.target = target.target});
    // Whether all lanes branch depends on other lanes, too. Then operand 0 is the guard of the
    // lane.
    const bool together = in.has("ANY") || in.has("DIV") || in.has("CONV");
    if (together) op.operand[0] = guarded ? predicate(in.guard) : truth(true);
    if (in.has("ANY")) {
        // All active lanes branch if the guard is true in any of them.
        if (!in.has("U") || !guarded || conditional || in.modifiers.size() != 2) unsupported();
        op.guard = scratch_predicate();
        machine_to_scratch(MachineOp::vote, {no_operand, op.guard, op.operand[0]},
                           sim::VoteOperand{.kind = sim::VoteKind::any});
    } else if (together) {
        // The operand of BRA.DIV names lanes. The branch is taken if one of these lanes is
        // inactive, or if the guard is false in it. (Lanes that have exited do not count.) BRA.CONV
        // branches in the opposite case. Either all active lanes branch, or none does.
        if (!conditional || !is_register(operand(in, 0))) unsupported();
        op.guard = scratch_predicate();
        machine_to_scratch(in.has("CONV") ? MachineOp::has_converged : MachineOp::has_diverged,
                           {op.guard, word(in.operands[0]), op.operand[0]});
    } else if (conditional) {
        if (!is_predicate(operand(in, 0))) unsupported();
        op.guard = predicate(in.operands[0]);
        if (guarded) op.guard = both(op.guard, predicate(in.guard));
    } else if (guarded) {
        set_guard(op);
    }
    append(op);
}

// Sets the guard of an op to that of its instruction.
void Lifter::set_guard(Op& op) {
    if (in_->guard.kind != Kind::predicate) return;
    Operand plain = in_->guard;
    plain.negated = false;
    op.guard = predicate(plain);
    op.guard_negated = in_->guard.negated;
}

// Refuses the instruction if the label is not the start of the section. Jumps through registers are
// relative to this start.
void Lifter::expect_code_start(const Operand& o) const {
    if (o.kind != Kind::label || o.text != code_.name || o.target != 0)
        unsupported("relative to " + std::string(o.text));
}

// Translates a call: CALL.REL.NOINC `($k$_Z1ff) calls the function f of kernel k. In a call through
// a pointer, CALL.REL.NOINC R8 `(k), register R8 has the function's offset in the code of k.
void Lifter::call(const Instruction& in) {
    if (in.has("ABS")) return call_outside(in);
    only(in, {"REL", "NOINC"});
    Op op;
    if (in.operands.size() == 1) {
        const Operand& target = operand(in, 0);
        if (target.kind != Kind::label) unsupported("a target elsewhere");
        op.control = Control::branch;
        op.set(sim::Branch{.target = target.target});
        if (in.guard.kind == Kind::predicate) op.guard = predicate(in.guard);
        append(op);
        return;
    }
    expect_code_start(operand(in, 1));
    if (!is_register(operand(in, 0))) unsupported();
    find_functions();
    op.control = Control::jump;
    op.set(sim::Jump{.to_function = true});
    op.operand[1] = raw(in.operands[0]);
    guarded_control(op);
}

// Translates @P0 EXIT P1. Lanes exit in which both the guard and the operand are true.
void Lifter::exit(const Instruction& in) {
    only(in, {});
    Op op;
    op.control = Control::exit;
    if (in.operands.size() > 1 || (in.operands.size() == 1 && !is_predicate(operand(in, 0))))
        unsupported("a condition");
    guarded_control(op, in.operands.empty() ? nullptr : &in.operands[0]);
}

// CALL.ABS.NOINC R2 calls printf, assert, malloc or free. The code of these functions is not in the
// cubin. Their addresses are in constant bank 4.
void Lifter::call_outside(const Instruction& in) {
    only(in, {"ABS", "NOINC"});
    if (in.operands.size() != 1 || !is_register(operand(in, 0))) unsupported();
    for (const auto& [address, builtin] : machine_->outside) {
        if (builtin == sim::CallSite::Builtin::none)
            unsupported(
                "it may call code outside the kernel other than printf, assert, malloc and free");
    }
    Operand r4;
    r4.kind = Kind::reg;
    r4.number = 4;
    Op op;
    op.control = Control::call_outside;
    op.operand[0] = raw(r4);
    op.operand[1] = raw(in.operands[0], 2);
    guarded_control(op);
}

// Translates LEPC R20, `(.L_x_0)
void Lifter::return_address(const Instruction& in) {
    only(in, {});
    const Operand& label = operand(in, 1);
    if (label.kind != Kind::label) unsupported();
    machine(MachineOp::move,
            {result(operand(in, 0), 2), constant_pair(uint64_t{label.target} * instruction_bytes)},
            sim::Registers{2});
}

// Translates RET.REL.NODEC R20 `(k), BRX R4 -0x190 or BRXU UR4 -0x190
void Lifter::jump(const Instruction& in) {
    const bool uniform = in.opcode == "BRXU", by_table = uniform || in.opcode == "BRX";
    if (by_table)
        only(in, {});
    else
        only(in, {"REL", "NODEC"});
    Op op;
    op.control = Control::jump;
    if (!is_register(operand(in, 0)) || in.operands.size() != 2) unsupported();
    if (in.operands[0].uniform != uniform) unsupported();
    op.operand[1] = raw(in.operands[0]);
    if (by_table) {
        const Operand& by = operand(in, 1);
        if (by.kind != Kind::integer) unsupported();
        // The offset counts from the next instruction.
        op.set(sim::Jump{.offset = uint32_t(in.offset + instruction_bytes + by.bits)});
    } else {
        expect_code_start(operand(in, 1));
        op.set(sim::Jump{});
    }
    guarded_control(op);
}

// BMOV.32.CLEAR R2, B6; BMOV.32 B6, R2: a function saves its caller's barrier in a register, and
// restores the barrier later. The simulator keeps the barrier in a join (sim/warp/warp.hpp), so it
// does not need the register, and stores no value there.
void Lifter::save_barrier(const Instruction& in) {
    only(in, {"32", "CLEAR"});
    if (!in.has("32") || in.operands.size() != 2) unsupported();
    const bool saves = in.has("CLEAR");
    const Operand& barrier = operand(in, saves ? 1 : 0);
    if (barrier.kind != Kind::barrier || !is_register(operand(in, saves ? 0 : 1))) unsupported();
    Op op;
    op.control = saves ? Control::keep_barrier : Control::restore_barrier;
    op.set(sim::ReconvergenceBarrier{.number = int8_t(barrier.number)});
    guarded_control(op);
}

namespace {

bool are_equal(const Operand& a, const Operand& b) {
    const auto fields = [](const Operand& o) {
        return std::tie(o.kind, o.uniform, o.negated, o.inverted, o.absolute, o.wide, o.number,
                        o.base, o.uniform_base, o.bits, o.offset, o.part);
    };
    return fields(a) == fields(b) &&
           std::bit_cast<uint64_t>(a.value) == std::bit_cast<uint64_t>(b.value);
}

bool are_equal(const Instruction& a, const Instruction& b) {
    return a.code == b.code && a.modifiers == b.modifiers && are_equal(a.guard, b.guard) &&
           std::ranges::equal(a.operands, b.operands,
                              [](const Operand& x, const Operand& y) { return are_equal(x, y); });
}

bool is_control_flow(const Instruction& in) {
    using enum sim::OpCode;
    static constexpr OpCode codes[] = {BRA, BRX, BRXU, CALL, RET, EXIT, BSSY, BSYNC, WARPSYNC, BAR};
    return std::ranges::count(codes, in.code) > 0;
}

}  // namespace

// Returns the number of the section that a WARPSYNC starts (sim::WarpSync).
//
// WARPSYNC.COLLECTIVE: the section ends with ENDCOLLECTIVE. The label of the WARPSYNC is the next
// instruction. If the section does nothing, its number is 0.
//
// WARPSYNC.COLLECTIVE.ALL comes before a barrier of the block, such as that of grid.sync(). All
// lanes must be there, so no section is needed.
//
// WARPSYNC.ALL before a shuffle or a match: the assembler generates this code if no other place has
// the same shuffle or match. Therefore the number is different from those of all other sections. (A
// vote may belong to other code, such as an atomic.)
uint32_t Lifter::section(const Instruction& in) {
    const std::span all(code_.instructions);
    size_t end = pc_ + 1;
    if (in.has("COLLECTIVE") && operand(in, in.operands.size() - 1).kind != Kind::label)
        unsupported();
    if (in.has("ALL")) {
        for (; end < all.size() && !is_control_flow(all[end]); ++end) {
            if (all[end].code == OpCode::SHFL || all[end].code == OpCode::MATCH)
                return UINT32_MAX - pc_;
        }
        return 0;
    }
    if (!in.has("COLLECTIVE")) return 0;
    while (end < all.size() && all[end].code != OpCode::ENDCOLLECTIVE) {
        if (is_control_flow(all[end])) unsupported("control flow in its section");
        ++end;
    }
    const Operand& label = operand(in, in.operands.size() - 1);
    if (label.kind != Kind::label || label.target != end + 1)
        unsupported("a section that does not end before its label");
    const auto section = all.subspan(pc_ + 1, end - pc_ - 1);
    if (std::ranges::all_of(section, [](const Instruction& i) { return i.code == OpCode::NOP; }))
        return 0;
    const auto same = [&](const std::span<const Instruction>& other) {
        return std::ranges::equal(section, other, [](const Instruction& a, const Instruction& b) {
            return are_equal(a, b);
        });
    };
    const auto known = std::ranges::find_if(sections_, same);
    const auto number = uint32_t(known - sections_.begin()) + 1;
    if (known == sections_.end()) sections_.push_back(section);
    return number;
}

void Lifter::convergence(const Instruction& in) {
    Op op;
    if (in.opcode == "WARPSYNC") {
        only(in, {"ALL", "COLLECTIVE", "EXCLUSIVE"});
        op.control = Control::synchronize;
        op.run = engine_.ops->machine(MachineOp::nothing);
        op.set(sim::WarpSync{.splits = in.has("COLLECTIVE") || in.has("EXCLUSIVE"),
                             .section = section(in),
                             .before_barrier = of_barriers_[pc_]});
        op.operand[0] = in.has("ALL") ? constant(~0u) : word(operand(in, 0));
        if (in.guard.kind == Kind::predicate && !of_barriers_[pc_]) unsupported("a guard");
        set_guard(op);
        append(op);
        return;
    }
    only(in, {});
    size_t n = 0;
    Locator condition = no_operand;
    if (is_predicate(operand(in, n))) condition = predicate(in.operands[n++]);
    const Operand& barrier = operand(in, n);
    if (barrier.kind != Kind::barrier) unsupported();
    auto& convergence_barrier = op.set(sim::ReconvergenceBarrier{.number = int8_t(barrier.number)});
    if (in.opcode == "BREAK") {
        op.control = Control::break_barrier;
        // @P1 BREAK P0, B0 removes the lanes for which both predicates are true.
        if (condition != no_operand && in.guard.kind == Kind::predicate) {
            const Locator both = scratch_predicate();
            machine_to_scratch(MachineOp::predicate_logic,
                               {both, no_operand, condition, predicate(in.guard), truth(true)},
                               sim::TruthTables{0x80, 0});
            condition = both;
        }
        if (condition != no_operand) op.guard = condition;
        emit(op);
        return;
    }
    if (condition != no_operand) unsupported("a condition");
    if (in.opcode == "BSSY") {
        op.control = Control::set_barrier;
        const Operand& target = operand(in, n + 1);
        if (target.kind != Kind::label) unsupported();
        convergence_barrier.target = target.target;
    } else {
        op.control = Control::sync_barrier;
    }
    guarded_control(op);
}

// Translates BAR.SYNC.DEFER_BLOCKING 0x0[, 0x40] or BAR.RED.POPC.DEFER_BLOCKING 0x0, P0
void Lifter::barrier(const Instruction& in) {
    only(in, {"SYNC", "ARV", "RED", "POPC", "AND", "OR", "DEFER_BLOCKING", "SYNCALL"});
    using Kind = sim::BarrierKind;
    Op op;
    op.control = Control::barrier;
    sim::BarrierOperand& barrier =
        op.set(sim::BarrierOperand{.kind = in.has("ARV") ? Kind::arrive : Kind::sync});
    size_t n = in.operands.size();
    if (in.has("RED")) {
        const bool counts = in.has("POPC");
        barrier.kind = counts ? Kind::popc : in.has("AND") ? Kind::all : Kind::any;
        op.operand[0] = counts ? voted_ : voted_predicate_;
        if (n == 0 || !is_predicate(in.operands[n - 1])) unsupported("no predicate");
        Operand plain = operand(in, --n);
        barrier.negated = plain.negated;
        plain.negated = false;
        op.operand[3] = predicate(plain);
    }
    op.operand[1] = n == 0 ? constant(0) : word(operand(in, 0));
    if (n > 1) op.operand[2] = word(operand(in, 1));
    if (n > 1 && is_register(in.operands[0]) && is_register(in.operands[1])) {
        // If the barrier and the number of threads come from registers, both must be in the same
        // register. The barrier is in the lowest bits, and the number of threads from bit 16 on.
        if (in.operands[0].number != in.operands[1].number) unsupported("two registers");
        const Locator both = op.operand[1];
        op.operand[1] = scratch();
        op.operand[2] = scratch();
        as_ptx(OpCode::and_, {"b32"}, {op.operand[1], both, constant(15)});
        as_ptx(OpCode::shr, {"u32"}, {op.operand[2], both, constant(16)});
        // This form is only in sections of WARPSYNC.COLLECTIVE, for barrier.sync without .aligned.
        program_.instructions[pc_].traits.aligned = false;
    }
    set_guard(op);
    append(op);
}

// Translates UCGABAR_ARV or UCGABAR_WAIT
void Lifter::cluster_barrier(const Instruction& in) {
    only(in, {});
    Op op;
    op.control = in.opcode == "UCGABAR_ARV" ? Control::cluster_arrive : Control::cluster_wait;
    guarded_control(op);
}

// B2R.RESULT R0[, P0] reads the result of the warp's last BAR.RED.
void Lifter::barrier_result(const Instruction& in) {
    only(in, {"RESULT"});
    if (!in.has("RESULT")) unsupported();
    if (in.operands.size() > 1)
        as_ptx(OpCode::and_, {"pred"},
               {written_predicate(operand(in, 1)), voted_predicate_, truth(true)});
    machine(MachineOp::move, {result(operand(in, 0)), voted_}, sim::Registers{1});
}

void Lifter::trap(const Instruction& in) {
    only(in, {"TRAP"});
    if (!in.operands.empty()) expect(in, 0, "0x1");
    Op op;
    op.run = &sim::throw_trap;
    emit(op);
}

void Lifter::special(const Instruction& in) {
    only(in, {"32", "64"});
    const Operand& d = operand(in, 0);
    const bool pair = in.opcode == "CS2R" && !in.has("32");
    uniform_ = d.uniform;
    const std::string_view name = operand(in, 1).text;
    const Locator at = result(d, pair ? 2 : 1);
    if (name == "SRZ")
        return void(
            machine(MachineOp::move, {at, constant(0)}, sim::Registers{uint8_t(pair ? 2 : 1)}));
    using sim::Special;
    using enum sim::Special;
    static constexpr struct {
        std::string_view sass;
        Special ptx;
    } registers[] = {{"SR_TID.X", tid_x},
                     {"SR_TID.Y", tid_y},
                     {"SR_TID.Z", tid_z},
                     {"SR_CTAID.X", ctaid_x},
                     {"SR_CTAID.Y", ctaid_y},
                     {"SR_CTAID.Z", ctaid_z},
                     {"SR_LANEID", laneid},
                     {"SR_CgaCtaId", cluster_ctarank},
                     {"SR_EQMASK", lanemask_eq},
                     {"SR_LTMASK", lanemask_lt},
                     {"SR_LEMASK", lanemask_le},
                     {"SR_GTMASK", lanemask_gt},
                     {"SR_GEMASK", lanemask_ge},
                     {"SR_VIRTID", virtual_id},
                     {"SR_VIRTUALSMID", smid},
                     {"SR_CLOCKLO", clock_low},
                     {"SR_CLOCKHI", clock_high},
                     {"SR_GLOBALTIMERLO", timer_low},
                     {"SR_GLOBALTIMERHI", timer_high}};
    if (name == "SR_SWINHI")
        return void(machine(MachineOp::move, {at, constant(uint32_t(sim::shared_window >> 32))},
                            sim::Registers{1}));
    for (const auto& r : registers) {
        if (r.sass != name) continue;
        const sim::Selection s =
            engine_.ops->special(pair && name == "SR_CLOCKLO" ? Special::clock_64 : r.ptx,
                                 pair ? ptx::Type::u64 : ptx::Type::u32);
        if (!s.run) break;
        Op op;
        op.run = s.run;
        op.payload() = s.payload;
        op.operand[0] = pair ? scratch() : at;
        emit(op);
        if (pair) machine(MachineOp::split_pair, {at, op.operand[0]});
        return;
    }
    unsupported("a special register");
}

// Translates VOTEU.ANY UR4, UPT, PT or VOTE.ALL P0, P1
void Lifter::vote(const Instruction& in) {
    only(in, {"ANY", "ALL", "EQ"});
    size_t n = 0;
    Locator d = no_operand;
    if (is_register(operand(in, n))) {
        const Operand& o = in.operands[n++];
        d = o.number < 0 ? no_operand : result(o);
    }
    const Locator p = predicate_result(operand(in, n++));
    const sim::VoteKind kind = in.has("ALL")  ? sim::VoteKind::all
                               : in.has("EQ") ? sim::VoteKind::uniform
                                              : sim::VoteKind::any;
    machine(MachineOp::vote, {d, p, predicate(operand(in, n))},
            sim::VoteOperand{.kind = kind, .whole_warp = in.opcode == "VOTEU"});
}

// Translates SHFL.DOWN PT, R5, R4, 0x10, 0x1f
void Lifter::shuffle(const Instruction& in) {
    only(in, {"UP", "DOWN", "BFLY", "IDX"});
    const std::string_view mode = in.has("UP")     ? "up"
                                  : in.has("DOWN") ? "down"
                                  : in.has("BFLY") ? "bfly"
                                                   : "idx";
    const Operand& d = operand(in, 1);
    as_ptx(OpCode::shfl, {mode, "b32"},
           {d.number < 0 ? no_operand : result(d), predicate_result(operand(in, 0)),
            word(operand(in, 2)), word(operand(in, 3)), word(operand(in, 4))});
}

// Translates MATCH.ANY R5, R4 and MATCH.ALL PT, R5, R4. With .U64, the values are in register
// pairs.
void Lifter::match(const Instruction& in) {
    only(in, {"ANY", "ALL", "U64"});
    size_t n = 0;
    Locator p = no_operand;
    if (is_predicate(operand(in, n))) p = predicate_result(in.operands[n++]);
    const Locator d = result(operand(in, n++));
    const bool wide = in.has("U64");
    const std::string_view type = wide ? "b64" : "b32";
    const Locator a = wide ? raw(operand(in, n), 2) : word(operand(in, n));
    const Locator all = constant(~0u);
    if (in.has("ALL")) return as_ptx(OpCode::match, {"all", "sync", type}, {d, p, a, all});
    as_ptx(OpCode::match, {"any", "sync", type}, {d, a, all});
}

// Translates REDUX.SUM UR5, R2
void Lifter::redux(const Instruction& in) {
    only(in, {"SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32", "U32"});
    const std::string_view what = in.has("SUM")   ? "add"
                                  : in.has("MIN") ? "min"
                                  : in.has("MAX") ? "max"
                                  : in.has("OR")  ? "or"
                                  : in.has("XOR") ? "xor"
                                                  : "and";
    const std::string_view type = what == "or" || what == "xor" || what == "and" ? "b32"
                                  : in.has("S32")                                ? "s32"
                                                                                 : "u32";
    const Operand& d = operand(in, 0);
    const Locator value = scratch();
    as_ptx(OpCode::redux, {"sync", what, type}, {value, word(operand(in, 1)), constant(~0u)});
    machine(MachineOp::broadcast, {result(d), value});
}

// ELECT P0, UR4, PT elects the lowest active lane: P0 becomes true in this lane and false in the
// other active lanes, and UR4 becomes the lane's number. Lanes in which a guard is false take no
// part, and keep their P0.
void Lifter::elect(const Instruction& in) {
    only(in, {});
    const Operand& d = operand(in, 1);
    if (!d.uniform) unsupported();
    expect_constant(operand(in, 2), true);
    const Locator lane = d.number < 0 ? no_operand : scratch();
    if (lane != no_operand) {
        // The number comes first, because the guard may be the predicate that ELECT writes.
        as_ptx(OpCode::elect, {"sync"}, {lane, no_operand, constant(~0u)});
        machine(MachineOp::broadcast, {result(d), lane});
    }
    as_ptx(OpCode::elect, {"sync"}, {no_operand, predicate_result(operand(in, 0)), constant(~0u)});
}

// R2UR UR4, R8 copies the value that R8 has in one lane. R2UR P0, URZ, R8 also compares the lanes:
// P0 becomes true in the lanes in which R8 has a different value. This P0 is known only from two
// kinds of code. In one, a BRA.DIV follows, which uses P0 to detect lanes with different member
// masks. In the other, a loop starts one copy for all lanes with the same operands. There the
// instruction is guarded: @P1 R2UR.OR P0, UR9, R9 finds the lanes in which any operand differs. All
// other uses are refused.
void Lifter::to_uniform(const Instruction& in) {
    only(in, {"OR"});
    const bool compares = in.operands.size() == 3, guarded = in.guard.kind == Kind::predicate;
    if (in.has("OR") && !(compares && guarded)) unsupported();
    const Operand& d = operand(in, compares ? 1 : 0);
    const Operand& a = operand(in, compares ? 2 : 1);
    if (!d.uniform || a.uniform) unsupported();
    if (!compares) return void(machine(MachineOp::broadcast, {result(d), word(a)}));
    const Operand& other = operand(in, 0);
    for (uint32_t at = pc_ + 1; !guarded && at < code_.instructions.size(); ++at) {
        const Instruction& next = code_.instructions[at];
        const bool reads = next.guard.kind == Kind::predicate && next.guard.number == other.number;
        if (reads && next.opcode == "BRA" && next.has("DIV") && next.guard.negated) break;
        const auto names = [&](const Operand& o) {
            return o.kind == Kind::predicate && !o.uniform && o.number == other.number;
        };
        if (reads || std::ranges::any_of(next.operands, names) || next.opcode == "BRA")
            unsupported("its predicate");
    }
    const Locator taken = scratch();
    machine(MachineOp::broadcast, {taken, word(a)});
    // The uniform register comes first, because the guard may be the predicate that is written.
    machine(MachineOp::broadcast, {result(d), taken});
    as_ptx(OpCode::setp, {"ne", in.has("OR") ? "or" : "and", "u32"},
           {predicate_result(other), no_operand, word(a), taken,
            in.has("OR") ? predicate(other) : truth(true)});
}

void Lifter::nothing(const Instruction& in) {
    if (in.opcode == "CCTL" && !in.operands.empty()) {
        only(in, {"E", "PF1", "PF2", "PF1.5", "PML2"});
        if (operand(in, 0).kind != Kind::address) unsupported();
    } else if (in.opcode == "CCTL") {
        only(in, {"IVALL"});
    } else {
        only(in, {});
    }
    Op op;
    if (in.opcode == "YIELD")
        op.control = Control::may_yield;
    else if (in.code == OpCode::ENDCOLLECTIVE)
        op.control = Control::end_section;
    else
        op.run = engine_.ops->machine(MachineOp::nothing);
    append(op);
}

void Lifter::sleep(const Instruction& in) {
    only(in, {});
    static_cast<void>(operand(in, 0));  // the duration has no effect
    Op op;
    op.control = Control::yield;
    guarded_control(op);
}

}  // namespace coalesce::sass
