// Executes exchanges between lanes (shuffles, votes, matches, reductions) whose lanes wait for each
// other at different places of the code.
//
// METHOD
// PTX says that such an instruction waits for all lanes of its member mask. It does not matter at
// which place of the code the lanes execute it, as long as its modifiers and the mask are the same.
// Compilers generate such code: if a loop contains a branch that does not change from iteration to
// iteration, they make two copies of the loop. At each place, the operands may be in other
// registers. Therefore the operands of all lanes are copied to one place, the instruction is
// executed there, and the results are copied to the registers of each lane.
//
// In machine code, the registers are the same at all places, because the assembler moves the
// operands there (WARPSYNC.COLLECTIVE). So all lanes execute the code at one of the places; see
// split_members() and end_section().
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "sim/run/scheduler.hpp"

namespace coalesce::sim {

namespace {

enum class Part : uint8_t { predicate, word, pair };  // a pair is a value of 64 bits

// The operands of an exchange. The destinations come first.
struct Exchange {
    std::vector<Part> operands;
    size_t destinations = 1;
};

// Returns the operands of an exchange. There are none for other instructions.
Exchange exchange_of(const Op& op) {
    using enum Part;
    switch (op.code) {
        case OpCode::shfl:
            return {{word, predicate, word, word, word, word}, 2};
        case OpCode::vote: {
            const bool ballot = op.get<VoteOperand>().kind == VoteKind::ballot;
            return {{ballot ? word : predicate, predicate, word}};
        }
        case OpCode::match: {
            const Part value = op.get<Registers>().count == 2 ? pair : word;
            const bool all = op.operand[3] != no_operand;
            return all ? Exchange{{word, predicate, value, word}, 2}
                       : Exchange{{word, value, word}};
        }
        case OpCode::redux:
            return {{word, word, word}};
        case OpCode::elect:
            return {{word, predicate, word}, 2};
        default:
            return {};
    }
}

Handler handler_of(const Op& op) { return op.guard == no_operand ? op.run : op.inner; }

// Returns true if the payloads contain the same modifiers. The negation of a vote's predicate is
// part of an operand, not a modifier.
bool are_modifiers_equal(const Op& a, const Op& b) {
    if (a.code == OpCode::shfl) return a.get<ShuffleOperand>().mode == b.get<ShuffleOperand>().mode;
    return a.code != OpCode::vote || a.get<VoteOperand>().kind == b.get<VoteOperand>().kind;
}

// Lanes that take part in an exchange, with the op at their place.
struct Participant {
    Path path;
    const Op* op;
    LaneMask lanes = 0;  // without the lanes in which the guard is false
};

// The operands of all lanes, in the layout of a warp's registers.
struct Operands {
    static constexpr size_t size = warp_size * sizeof(uint64_t);
    alignas(64) std::byte bytes[std::extent_v<decltype(Op::operand)>][size] = {};
    [[nodiscard]] static Locator locator(size_t n) { return Locator(n * size) << 1; }
};

// Copies an operand of the running path's lanes, from or to its register.
void copy(Warp& w, const Participant& from, size_t n, Part part, std::byte* together, bool store) {
    const Locator at = from.op->operand[n];
    if (at == no_operand) return;
    if (part == Part::predicate) {
        auto* const all = reinterpret_cast<LaneMask*>(together);
        LaneMask& own = w.predicate(at);
        const bool negated =
            !store && from.op->code == OpCode::vote && from.op->get<VoteOperand>().negated;
        const LaneMask value = store ? *all : negated ? ~own : own;
        LaneMask& to = store ? own : *all;
        to = (to & ~from.lanes) | (value & from.lanes);
        return;
    }
    const size_t bytes = part == Part::pair ? sizeof(uint64_t) : sizeof(uint32_t);
    auto* const own = w.lanes<std::byte>(at);
    for_each_lane(from.lanes, [&](int lane) {
        const size_t offset = size_t(lane) * bytes;
        if (store)
            std::memcpy(own + offset, together + offset, bytes);
        else
            std::memcpy(together + offset, own + offset, bytes);
    });
}

void run_at_places(Warp& w, const Op& op, std::span<Participant> participants) {
    const Exchange exchange = exchange_of(op);
    const Path own = w.current;
    const bool overdue = w.overdue;
    const LaneMask together = w.mask;
    Operands operands;
    LaneMask lanes = 0;
    for (Participant& p : participants) {
        run_path(w, p.path);  // so that the registers are those of its frame
        p.lanes = p.path.mask;
        if (p.op->guard != no_operand) {
            const LaneMask guard = w.predicate(p.op->guard);
            p.lanes &= p.op->guard_negated ? ~guard : guard;
        }
        lanes |= p.lanes;
        for (size_t n = exchange.destinations; n < exchange.operands.size(); ++n)
            copy(w, p, n, exchange.operands[n], operands.bytes[n], false);
    }
    Op joint = op;
    joint.guard = no_operand;
    if (op.code == OpCode::vote) joint.get<VoteOperand>().negated = false;
    for (size_t n = 0; n < exchange.operands.size(); ++n) joint.operand[n] = Operands::locator(n);
    std::byte* const registers = w.bank[0];
    w.bank[0] = operands.bytes[0];
    w.mask = lanes;
    if (lanes) handler_of(op)(w, joint);
    w.bank[0] = registers;
    for (const Participant& p : participants) {
        run_path(w, p.path);
        for (size_t n = 0; n < exchange.destinations; ++n)
            copy(w, p, n, exchange.operands[n], operands.bytes[n], true);
    }
    run_path(w, own);
    w.overdue = overdue;
    w.mask = together;
    // Registers have changed that the running path's segment does not write.
    w.strides.give_up(~uint64_t{0});
}

}  // namespace

bool are_together(const Op& a, const Op& b) {
    if (a.is<WarpSync>() || b.is<WarpSync>())
        return a.is<WarpSync>() && b.is<WarpSync>() &&
               a.get<WarpSync>().section == b.get<WarpSync>().section;
    if (a.code != b.code) return false;
    if (operation(a.code).has(trait::warp_barrier)) return true;
    return !exchange_of(a).operands.empty() && handler_of(a) == handler_of(b) &&
           are_modifiers_equal(a, b);
}

void run_together(Warp& w, const Op& op, uint32_t at) {
    if (w.mask == w.current.mask || exchange_of(op).operands.empty()) return op.run(w, op);
    std::vector<Participant> participants{{w.current, &op}};
    bool one_place = true;
    for (const Path& p : w.paths) {
        if (p.wait != Wait::lanes || (p.mask & ~w.mask)) continue;
        participants.push_back({p, &w.block->program->ops[p.pc]});
        one_place = one_place && p.pc == at && p.frame.registers == w.current.frame.registers;
    }
    if (one_place) return op.run(w, op);
    run_at_places(w, op, participants);
}

}  // namespace coalesce::sim
