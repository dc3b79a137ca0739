// Branches, calls, barriers, special registers and what lanes tell each other.
#include <algorithm>

#include "sass/lifter.hpp"

namespace coalesce::sass {

using Kind = Operand::Kind;
using sim::Control;

// A control op; a guard on anything but a branch becomes a branch around it.
void Lifter::guarded_control(Op op) {
    const Operand& guard = in_->guard;
    if (guard.kind == Kind::predicate && !(guard.number < 0 && !guard.negated)) {
        Op skip;
        skip.control = Control::branch;
        Operand plain = guard;
        plain.negated = false;
        skip.guard = predicate(plain);
        skip.guard_negated = !guard.negated;
        skip.skips_guarded = true;
        const uint32_t at = uint32_t(program_.ops.size());
        skip.target = at + 2;
        append(skip);
    }
    append(op);
}

void Lifter::branch(const Instruction& in) {
    only(in, {"U", "DIV", "CONV", "REL", "NOINC", "ANY"});
    const Operand* target = nullptr;
    std::vector<Locator> conditions;
    for (const Operand& o : in.operands) {
        if (o.kind == Kind::label) target = &o;
        if (is_predicate(o)) conditions.push_back(predicate(o));
    }
    if (!target || target->target > code_.instructions.size()) unsupported("a target elsewhere");
    Op op;
    op.control = Control::branch;
    op.target = target->target;
    if (in.has("DIV") || in.has("CONV")) {
        if (!is_register(operand(in, 0))) unsupported();
        Locator parted = scratch_predicate();
        help("is_parted", {parted, raw(in.operands[0])}, in.has("CONV"));
        if (in.guard.kind == Kind::predicate) {
            const Locator both = scratch_predicate();
            help_as_ptx("and.pred", {both, parted, predicate(in.guard)});
            parted = both;
        }
        op.guard = parted;
    } else if (in.guard.kind == Kind::predicate || !conditions.empty()) {
        const bool guarded = in.guard.kind == Kind::predicate;
        if (guarded && conditions.empty()) {
            Operand plain = in.guard;
            plain.negated = false;
            op.guard = predicate(plain);
            op.guard_negated = in.guard.negated;
        } else {
            Locator both = guarded ? predicate(in.guard) : truth(true);
            for (const Locator c : conditions) {
                const Locator d = scratch_predicate();
                help_as_ptx("and.pred", {d, both, c});
                both = d;
            }
            op.guard = both;
        }
    }
    append(op);
}

void Lifter::exit(const Instruction& in) {
    only(in, {});
    Op op;
    op.control = Control::exit;
    if (!in.operands.empty()) unsupported("a condition");
    guarded_control(op);
}

// RET.REL.NODEC R20 `(f); BRX R4 -0x190
void Lifter::jump(const Instruction& in) {
    only(in, {"REL", "NODEC"});
    Op op;
    op.control = Control::jump;
    if (!is_register(operand(in, 0))) unsupported();
    op.operand[1] = raw(in.operands[0]);
    if (in.opcode == "BRX") {
        // Relative to the next instruction.
        op.immediate = int64_t{in.offset} + instruction_bytes;
        for (const Operand& o : in.operands) {
            if (o.kind == Kind::integer) op.immediate += int64_t(o.bits);
        }
    }
    guarded_control(op);
}

void Lifter::convergence(const Instruction& in) {
    Op op;
    if (in.opcode == "BMOV") {
        // A barrier saved to a register and restored: the path that set it still knows it.
        return nothing(in);
    }
    if (in.opcode == "WARPSYNC") {
        only(in, {"ALL", "COLLECTIVE", "EXCLUSIVE"});
        op.control = Control::synchronize;
        op.run = engine_.ops->machine("nothing");
        op.operand[0] = in.has("ALL") ? constant(~0u) : word(operand(in, 0));
        if (in.guard.kind == Kind::predicate) unsupported("a guard");
        append(op);
        return;
    }
    only(in, {});
    size_t n = 0;
    Locator condition = no_operand;
    if (is_predicate(operand(in, n))) condition = predicate(in.operands[n++]);
    const Operand& barrier = operand(in, n);
    if (barrier.kind != Kind::barrier) unsupported();
    op.extra = uint8_t(barrier.number);
    if (in.opcode == "BREAK") {
        op.control = Control::break_barrier;
        if (condition != no_operand && in.guard.kind == Kind::predicate) unsupported("a guard");
        if (condition != no_operand) op.guard = condition;
        emit(op);
        return;
    }
    if (condition != no_operand) unsupported("a condition");
    if (in.opcode == "BSSY") {
        op.control = Control::set_barrier;
        op.target = operand(in, n + 1).target;
        if (in.operands[n + 1].kind != Kind::label) unsupported();
    } else {
        op.control = Control::sync_barrier;
    }
    guarded_control(op);
}

// BAR.SYNC.DEFER_BLOCKING 0x0[, 0x40]; BAR.RED.POPC.DEFER_BLOCKING 0x0, P0
void Lifter::barrier(const Instruction& in) {
    only(in, {"SYNC", "ARV", "RED", "POPC", "AND", "OR", "DEFER_BLOCKING", "SYNCALL"});
    using Kind = sim::BarrierKind;
    Op op;
    op.control = Control::barrier;
    op.extra = uint8_t(in.has("ARV") ? Kind::arrive : Kind::sync);
    size_t n = in.operands.size();
    if (in.has("RED")) {
        const bool counts = in.has("POPC");
        op.extra = uint8_t(counts ? Kind::popc : in.has("AND") ? Kind::all : Kind::any);
        op.operand[0] = counts ? voted_ : voted_predicate_;
        if (n == 0 || !is_predicate(in.operands[n - 1])) unsupported("no predicate");
        Operand plain = in.operands[--n];
        op.immediate = plain.negated;
        plain.negated = false;
        op.operand[3] = predicate(plain);
    }
    op.operand[1] = n == 0 ? constant(0) : word(in.operands[0]);
    if (n > 1) op.operand[2] = word(in.operands[1]);
    guarded_control(op);
}

// B2R.RESULT R0[, P0]: what the last BAR.RED of the warp came to.
void Lifter::barrier_result(const Instruction& in) {
    only(in, {"RESULT"});
    if (!in.has("RESULT")) unsupported();
    if (in.operands.size() > 1)
        as_ptx("and.pred", {written_predicate(in.operands[1]), voted_predicate_, truth(true)});
    machine("move", {result(operand(in, 0)), voted_}, 1);
}

void Lifter::trap(const Instruction& in) {
    only(in, {"TRAP"});
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
    if (name == "SRZ") return void(machine("move", {at, constant(0)}, pair ? 2 : 1));
    static constexpr struct {
        std::string_view sass, ptx;
    } registers[] = {{"SR_TID.X", "%tid.x"},
                     {"SR_TID.Y", "%tid.y"},
                     {"SR_TID.Z", "%tid.z"},
                     {"SR_CTAID.X", "%ctaid.x"},
                     {"SR_CTAID.Y", "%ctaid.y"},
                     {"SR_CTAID.Z", "%ctaid.z"},
                     {"SR_LANEID", "%laneid"},
                     {"SR_EQMASK", "%lanemask_eq"},
                     {"SR_LTMASK", "%lanemask_lt"},
                     {"SR_LEMASK", "%lanemask_le"},
                     {"SR_GTMASK", "%lanemask_gt"},
                     {"SR_GEMASK", "%lanemask_ge"},
                     {"SR_VIRTUALSMID", "%smid"},
                     {"SR_CLOCKLO", "%clock"},
                     {"SR_CLOCKHI", "%clock_hi"},
                     {"SR_GLOBALTIMERLO", "%globaltimer_lo"},
                     {"SR_GLOBALTIMERHI", "%globaltimer_hi"}};
    if (name == "SR_CgaCtaId") return void(machine("move", {at, constant(0)}, 1));
    if (name == "SR_SWINHI")
        return void(
            machine("move", {at, constant(uint32_t(sim::MachineCode::shared_window >> 32))}, 1));
    for (const auto& r : registers) {
        if (r.sass != name) continue;
        const sim::Selection s =
            engine_.ops->special(pair && name == "SR_CLOCKLO" ? "%clock64" : r.ptx,
                                 pair ? ptx::Type::u64 : ptx::Type::u32);
        if (!s.run) break;
        Op op;
        op.run = s.run;
        op.extra = s.extra;
        op.operand[0] = pair ? scratch() : at;
        emit(op);
        if (pair) machine("split_pair", {at, op.operand[0]});
        return;
    }
    unsupported("a special register");
}

// VOTEU.ANY UR4, UPT, PT; VOTE.ALL P0, P1
void Lifter::vote(const Instruction& in) {
    only(in, {"ANY", "ALL", "EQ"});
    size_t n = 0;
    Locator d = no_operand;
    if (is_register(operand(in, n))) {
        const Operand& o = in.operands[n++];
        d = o.number < 0 ? no_operand : raw(o);
    }
    const Locator p = predicate_result(operand(in, n++));
    const uint8_t kind = in.has("ALL") ? 1 : in.has("EQ") ? 2 : 0;
    machine("vote", {d, p, predicate(operand(in, n))}, kind, in.opcode == "VOTEU");
}

// SHFL.DOWN PT, R5, R4, 0x10, 0x1f
void Lifter::shuffle(const Instruction& in) {
    only(in, {"UP", "DOWN", "BFLY", "IDX"});
    const std::string mode = in.has("UP")     ? "up"
                             : in.has("DOWN") ? "down"
                             : in.has("BFLY") ? "bfly"
                                              : "idx";
    const Operand& d = operand(in, 1);
    as_ptx("shfl." + mode + ".b32",
           {d.number < 0 ? no_operand : result(d), predicate_result(operand(in, 0)),
            word(operand(in, 2)), word(operand(in, 3)), word(operand(in, 4))});
}

// MATCH.ANY R5, R4; MATCH.ALL PT, R5, R4; of pairs with .U64
void Lifter::match(const Instruction& in) {
    only(in, {"ANY", "ALL", "U64"});
    size_t n = 0;
    Locator p = no_operand;
    if (is_predicate(operand(in, n))) p = predicate_result(in.operands[n++]);
    const Locator d = result(operand(in, n++));
    const bool wide = in.has("U64");
    const Locator a = wide ? raw(operand(in, n), 2) : word(operand(in, n));
    const Locator all = constant(~0u);
    if (in.has("ALL"))
        return as_ptx(wide ? "match.all.sync.b64" : "match.all.sync.b32", {d, p, a, all});
    as_ptx(wide ? "match.any.sync.b64" : "match.any.sync.b32", {d, a, all});
}

// REDUX.SUM UR5, R2
void Lifter::redux(const Instruction& in) {
    only(in, {"SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32", "U32"});
    const std::string what = in.has("SUM")   ? "add"
                             : in.has("MIN") ? "min"
                             : in.has("MAX") ? "max"
                             : in.has("OR")  ? "or"
                             : in.has("XOR") ? "xor"
                                             : "and";
    const std::string type = what == "or" || what == "xor" || what == "and" ? "b32"
                             : in.has("S32")                                ? "s32"
                                                                            : "u32";
    const Operand& d = operand(in, 0);
    const Locator value = scratch();
    as_ptx("redux.sync." + what + "." + type, {value, word(operand(in, 1)), constant(~0u)});
    machine("broadcast", {result(d), value});
}

void Lifter::to_uniform(const Instruction& in) {
    only(in, {});
    size_t n = 0;
    if (is_predicate(operand(in, n))) ++n;
    if (in.operands.size() > n + 2) unsupported();
    machine("broadcast", {result(operand(in, n)), word(operand(in, n + 1))});
}

void Lifter::nothing(const Instruction&) {
    Op op;
    op.run = engine_.ops->machine("nothing");
    append(op);
}

void Lifter::sleep(const Instruction&) {
    Op op;
    op.control = Control::yield;
    guarded_control(op);
}

}  // namespace coalesce::sass
