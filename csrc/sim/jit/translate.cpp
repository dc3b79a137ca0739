#include "sim/jit/translate.hpp"

#include <algorithm>

#include "sim/jit/translator.hpp"

namespace coalesce::sim {

namespace jit {

namespace {

Handler handler(const Op& op) {
    return op.guard != no_operand || op.length > 1 ? op.inner : op.run;
}

}  // namespace

const Meaning* Translator::find_meaning(const Op& op) const {
    const Handler run = handler(op);
    const Meaning* const m = run ? meanings_.of(run) : nullptr;
    if (!m) return nullptr;
    if (m->kind == Kind::load || m->kind == Kind::store || m->kind == Kind::load_parameter) {
        const InstructionInfo& info = program_.instructions[op.pc];
        const MemoryOperand& x = op.memory();
        if (!meanings_.elements(op.mover) || info.traits.strong || x.in_cluster ||
            x.frame_relative || x.other_parameter || x.form == AddressForm::pair)
            return nullptr;
        if (m->kind != Kind::load_parameter && m->shared != (x.form == AddressForm::narrow))
            return nullptr;
    }
    if (m->kind == Kind::compare && op.operand[2] == no_operand) return nullptr;
    if (m->kind == Kind::special) {
        using enum Special;
        for (const Special s : {lanemask_eq, lanemask_le, lanemask_lt, lanemask_ge, lanemask_gt})
            if (op.get<SpecialRegister>().which == s) return nullptr;
    }
    return m;
}

bool Translator::note_slot(Locator at, int bits) {
    if (at == no_operand || (at & 1)) return true;
    return slots_.try_emplace(at >> 1, bits).first->second == bits;
}

bool Translator::note_slots(const Op& op, const Meaning& m) {
    bool fits = note_slot(op.guard, 1);
    const auto note = [&](int n, int bits) { fits = note_slot(op.operand[n], bits) && fits; };
    switch (m.kind) {
        case Kind::lanes:
        case Kind::special:
        case Kind::add_constant:
            note(0, m.result.bits);
            for (size_t n = 0; n < m.operands.size(); ++n) note(int(n) + 1, m.operands[n].bits);
            break;
        case Kind::compare:
            for (const int n : {0, 1, 4}) note(n, 1);
            for (const int n : {2, 3}) note(n, m.operands[0].bits);
            break;
        case Kind::load_parameter:
        case Kind::load:
        case Kind::store: {
            const Elements& x = *meanings_.elements(op.mover);
            for (int n = 0; n < x.count; ++n) note(n, x.register_bits);
            if (m.kind != Kind::load_parameter) note(5, m.shared ? 32 : 64);
            break;
        }
    }
    return fits;
}

Effects Translator::effects(uint32_t at) const {
    const Op& op = program_.ops[at];
    const Meaning* const m = meaning_of_[at];
    Effects f;
    const auto add = [&](Slots& to, Locator l) {
        if (l != no_operand && !(l & 1) && slots_.contains(l >> 1)) to.insert(l >> 1);
    };
    f.partial = !m || op.guard != no_operand;
    add(f.reads, op.guard);
    int results = 1;
    if (m && m->kind == Kind::compare) results = 2;
    if (m && (m->kind == Kind::load || m->kind == Kind::load_parameter)) results = 4;
    if (m && m->kind == Kind::store) results = 0;
    for (int n = 0; n < 6; ++n) {
        if (!m || n < results) add(f.writes, op.operand[n]);
        if (!m || n >= results) add(f.reads, op.operand[n]);
    }
    return f;
}

void Translator::find_blocks() {
    const std::vector<Op>& ops = program_.ops;
    Slots starts{program_.functions[0].entry};
    const auto start = [&](uint32_t at) {
        if (at < end_) starts.insert(at);
    };
    for (uint32_t i = 0; i < end_; ++i) {
        const Op& op = ops[i];
        if (op.control == Control::none) continue;
        start(i + 1);
        if (op.is<Branch>()) start(op.get<Branch>().target);
        if (op.is<BranchTable>())
            for (const uint32_t t : program_.tables[op.get<BranchTable>().table]) start(t);
        start(program_.reconvergence[i]);
    }
    for (const uint32_t s : starts) {
        if (!blocks_.empty()) blocks_.back().last = s;
        block_of_[s] = uint32_t(blocks_.size());
        blocks_.push_back({s, end_});
    }
    for (BasicBlock& b : blocks_) {
        const Op& op = ops[b.last - 1];
        const auto to = [&](uint32_t at) {
            if (at < end_) b.next.push_back(block_of_.at(at));
        };
        if (op.control == Control::exit || op.control == Control::ret) continue;
        if (op.control == Control::branch) {
            to(op.get<Branch>().target);
            if (op.guard == no_operand) continue;
        }
        if (op.control == Control::branch_table)
            for (const uint32_t t : program_.tables[op.get<BranchTable>().table]) to(t);
        to(b.last);
    }
}

void Translator::find_live() {
    live_.resize(end_);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t n = blocks_.size(); n-- > 0;) {
            BasicBlock& b = blocks_[n];
            Slots live;
            for (const uint32_t s : b.next) live.insert(blocks_[s].in.begin(), blocks_[s].in.end());
            for (uint32_t i = b.last; i-- > b.first;) {
                const Effects f = effects(i);
                if (!f.partial)
                    for (const uint32_t s : f.writes) live.erase(s);
                live.insert(f.reads.begin(), f.reads.end());
                if (f.partial) live.insert(f.writes.begin(), f.writes.end());
                live_[i] = live;
            }
            if (live != b.in) b.in = live, changed = true;
        }
    }
}

// Finds where the interpreter may hand over a whole warp.
void Translator::find_entries() {
    blocks_[0].whole_entry = true;
    for (BasicBlock& b : blocks_) {
        const Op& op = program_.ops[b.last - 1];
        if (op.control == Control::branch) {
            const uint32_t at = program_.reconvergence[b.last - 1];
            if (at < end_ && !skipped_block(b.last - 1)) block_at(at).whole_entry = true;
            const uint32_t target = op.get<Branch>().target;
            if (target <= b.first) block_at(target).whole_entry = true;
        } else if (op.control != Control::none && op.control != Control::join &&
                   op.control != Control::exit && b.last < end_) {
            block_at(b.last).whole_entry = true;
            if (op.control == Control::barrier && op.operand[0] == no_operand)
                block_at(b.last).after_barrier = true;
        }
    }
}

const Slots& Translator::region(uint32_t branch) {
    const auto [it, fresh] = regions_.try_emplace(branch);
    if (!fresh) return it->second;
    Slots seen;
    std::vector<uint32_t> todo{block_of_.at(branch + 1),
                               block_of_.at(program_.ops[branch].get<Branch>().target)};
    while (!todo.empty()) {
        const uint32_t n = todo.back();
        todo.pop_back();
        if (blocks_[n].first == program_.reconvergence[branch] || !seen.insert(n).second) continue;
        for (uint32_t i = blocks_[n].first; i < blocks_[n].last; ++i)
            it->second.merge(effects(i).writes);
        todo.insert(todo.end(), blocks_[n].next.begin(), blocks_[n].next.end());
    }
    return it->second;
}

const BasicBlock* Translator::skipped_block(uint32_t branch) const {
    constexpr uint32_t most_ops = 48;
    const uint32_t target = program_.ops[branch].get<Branch>().target;
    if (program_.reconvergence[branch] != target || target <= branch + 1) return nullptr;
    const BasicBlock& b = block_at(branch + 1);
    if (b.last != target || b.last - b.first > most_ops) return nullptr;
    return program_.ops[b.last - 1].control == Control::join ? &b : nullptr;
}

Translation Translator::translate() {
    constexpr uint32_t most_ops = 4096;
    const char* const too_long = "it is too long";
    Translation t;
    const std::vector<Op>& ops = program_.ops;
    end_ = uint32_t(ops.size());
    for (size_t f = 1; f < program_.functions.size(); ++f)
        end_ = std::min(end_, program_.functions[f].entry);
    if (program_.machine || program_.allocates || program_.functions[0].entry != 0) return t;
    if (end_ > most_ops) {
        t.why_not = too_long;
        return t;
    }
    meaning_of_.resize(end_);
    for (uint32_t i = 0; i < end_; ++i) meaning_of_[i] = find_meaning(ops[i]);
    for (uint32_t i = 0; i < end_; ++i) {
        const Op& op = ops[i];
        if (op.control == Control::branch) note_slot(op.guard, 1);
        // These ops have registers that are not among their operands.
        if (op.is<MatrixOperand>() || op.is<TextureOperand>() || op.is<TensorCopyOperand>() ||
            op.is<WarpgroupOperand>())
            return t;
        if (op.code == OpCode::shfl && op.control == Control::synchronize) {
            note_slot(op.operand[0], 32), note_slot(op.operand[1], 1);
            for (int n = 2; n < 6; ++n) note_slot(op.operand[n], 32);
        }
        if (op.control != Control::none) continue;
        // Registers with different sizes at one place are not translated.
        if (meaning_of_[i] && !note_slots(op, *meaning_of_[i])) meaning_of_[i] = nullptr;
        ++(meaning_of_[i] ? t.translated : t.called);
    }
    uint32_t end = 0;
    for (const auto& [offset, bits] : slots_) {
        if (offset < end) return {};  // registers that overlap
        end = offset + (bits == 1 ? 4 : 4 * uint32_t(bits));
    }
    for (uint32_t i = 0; i < end_; ++i) written_.merge(effects(i).writes);
    real_ = written_;
    for (uint32_t i = 0; i < end_; ++i) {
        const Meaning* const m = meaning_of_[i];
        if (m && m->kind == Kind::lanes && m->result == f32) continue;
        for (const uint32_t slot : effects(i).writes) real_.erase(slot);
    }
    find_blocks();
    find_live();
    find_entries();
    t.whole_entries.resize(ops.size());
    t.part_entries.resize(ops.size());
    for (const BasicBlock& b : blocks_) {
        t.whole_entries[b.first] = b.whole_entry;
        t.part_entries[b.first] = 1;
    }
    emit_function(true, t.whole);
    if (t.whole.empty())
        t.why_not = too_long;
    else
        emit_function(false, t.part);
    return t;
}

}  // namespace jit

ThreadShape shape_of_block(const Dim3& block) {
    ThreadShape s;
    s.rising_x = block.x % warp_size == 0 || (block.y == 1 && block.z == 1);
    s.same_y = block.x % warp_size == 0 || block.y == 1;
    s.same_z = block.x * block.y % warp_size == 0 || block.z == 1;
    return s;
}

Translation translate(const Program& program, const Engine& engine, ThreadShape shape) {
    return jit::Translator(program, jit::Meanings(engine), shape).translate();
}

}  // namespace coalesce::sim
