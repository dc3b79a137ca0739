// An optimization for plain runs, in which no observer receives events: loads are executed together
// with the multiply-adds that use them (multiply_chain.hpp).
#include <algorithm>

#include "sim/decode/decode.hpp"

namespace coalesce::sim {

// Returns the registers that exactly one instruction writes and exactly one instruction reads.
std::vector<bool> Decoder::registers_read_once() const {
    const ptx::Function& f = *current_->function;
    std::vector<uint8_t> reads(f.registers.size()), writes(f.registers.size());
    const auto count = [](std::vector<uint8_t>& counts, const std::vector<uint32_t>& registers) {
        for (const uint32_t r : registers) counts[r] = uint8_t(std::min(2, counts[r] + 1));
    };
    for (size_t i = 0; i < f.body.size(); ++i) {
        const Effects effects = effects_of(f.body[i], current_->traits[i]);
        count(reads, effects.reads);
        count(writes, effects.writes);
    }
    std::vector<bool> once(f.registers.size());
    for (size_t r = 0; r < once.size(); ++r) once[r] = reads[r] == 1 && writes[r] == 1;
    return once;
}

// Returns true if this op and the next op each load a word, and the op after them multiplies these
// two words and adds a third one.
bool Decoder::begins_multiply_add(uint32_t op) const {
    if (op + 2 >= program_.ops.size()) return false;
    const Op &first = program_.ops[op], &second = program_.ops[op + 1],
             &product = program_.ops[op + 2];
    const auto loads_word = [&](const Op& load) {
        return load.run == engine_.memory.words[0][0][0] ||
               load.run == engine_.memory.words[1][0][0];
    };
    if (!loads_word(first) || !loads_word(second) || product.run != engine_.ops->multiply_add)
        return false;
    const Locator x = first.operand[0], y = second.operand[0];
    const Locator* const read = product.operand + 1;
    const bool both = (read[0] == x && read[1] == y) || (read[0] == y && read[1] == x);
    return both && x != y && read[2] != x && read[2] != y && second.operand[5] != x;
}

// Finds the chains of multiply-adds (multiply_chain.hpp). Several multiply-adds of loaded words
// form a chain if each sum is used only by the next multiply-add. Other ops may be in between if
// they are arithmetic and have no guard. The handler of the first op then executes the whole chain.
// The other ops keep their handlers, so a branch may still lead to any of them.
void Decoder::find_chains(uint32_t first_op, uint32_t first_instruction) {
    std::vector<Op>& ops = program_.ops;
    const std::vector<bool> once = registers_read_once();
    const auto operand = [&](const Op& op, size_t n) -> const ptx::Operand& {
        return current_->function->body[op.pc - first_instruction].operands[n];
    };
    const auto is_read_once = [&](const Op& op) {
        const ptx::Operand& d = operand(op, 0);
        return d.kind == ptx::Operand::Kind::reg && once[size_t(d.reg)];
    };
    const auto may_stand_between = [&](const Op& op) {
        return op.control == Control::none && op.starts && op.guard == no_operand &&
               // Ops with an entry in this table are arithmetic, which accesses no memory.
               engine_.ops->selects[size_t(op.code)];
    };
    // Returns true if the address register has the same value in both loads.
    const auto names_same_address = [&](const Op& before, const Op& load) {
        const int32_t reg = operand(load, 1).reg;
        if (reg < 0 || operand(before, 1).reg != reg) return false;
        for (uint32_t pc = before.pc; pc < load.pc; ++pc) {
            const size_t i = pc - first_instruction;
            const auto writes = effects_of(current_->function->body[i], current_->traits[i]).writes;
            if (std::ranges::find(writes, uint32_t(reg)) != writes.end()) return false;
        }
        return true;
    };
    for (uint32_t i = first_op; i < ops.size();) {
        if (!begins_multiply_add(i)) {
            ++i;
            continue;
        }
        const uint32_t begin = i;
        // `end` is the op after the last multiply-add that was found. `last` is the first of the
        // two loads of this multiply-add.
        uint32_t end = i, last = i;
        size_t products = 0;
        while (products < longest_chain && begins_multiply_add(i) && i + 3 - begin <= UINT8_MAX) {
            if (end != begin && (!is_read_once(ops[end - 1]) ||
                                 operand(ops[end - 1], 0).reg != operand(ops[i + 2], 3).reg))
                break;
            for (Op* const load : {&ops[i], &ops[i + 1]}) {
                load->memory().read_once = is_read_once(*load);
                if (products == 0) continue;
                const Op& before = *(load - (i - last));
                load->memory().same_address = load->memory().form == before.memory().form &&
                                              names_same_address(before, *load);
            }
            ops[i].loads_factor = true;
            last = i;
            end = i += 3;
            ++products;
            while (i < ops.size() && may_stand_between(ops[i])) ++i;
        }
        Op& head = ops[begin];
        head.inner = head.run;
        head.run = engine_.memory.multiply_chain;
        head.length = uint8_t(end - begin);
        i = end;
    }
}

}  // namespace coalesce::sim
