#include "sim/decode/emitter.hpp"

#include <cstring>

#include "round_up.hpp"

namespace coalesce::sim {

void Emitter::begin_instruction(uint32_t pc) {
    pc_ = pc;
    opcode_ = program_.instructions[pc].traits.code;
    first_op_ = first_guarded_op_ = true;
    for (auto& [_, pool] : frame_.scratch) pool.used = 0;
}

Op& Emitter::append(Op op) {
    op.pc = pc_;
    op.code = opcode_;
    op.starts = first_op_;
    first_op_ = false;
    op.starts_guarded = first_guarded_op_ && op.guard != no_operand;
    if (op.starts_guarded) first_guarded_op_ = false;
    program_.ops.push_back(op);
    program_.reconvergence.push_back(no_op);
    return program_.ops.back();
}

Op& Emitter::emit(Op op, Guard guard) {
    if (guard.predicate != no_operand && op.guard == no_operand) {
        op.guard = guard.predicate;
        op.guard_negated = guard.negated;
        if (op.run && !op.inner) {
            op.inner = op.run;
            op.run = engine_.ops->guarded;
        }
    }
    return append(op);
}

Op& Emitter::append_between(Control control) {
    Op op;
    op.control = control;
    op.starts = false;
    op.pc = pc_;
    program_.ops.push_back(op);
    program_.reconvergence.push_back(no_op);
    return program_.ops.back();
}

Locator Emitter::constant(uint64_t bits, uint32_t width, uint32_t count) {
    const bool whole = width == 0 || count * width >= sizeof bits;
    if (!whole) bits &= (uint64_t{1} << (8 * count * width)) - 1;
    const auto [it, fresh] = constants_.try_emplace({bits, width, count}, 0);
    if (!fresh) return it->second;
    if (width == 0) {
        it->second = new_constant(sizeof(LaneMask));
        const LaneMask mask = bits ? all_lanes : 0;
        std::memcpy(&program_.constants[it->second >> 1], &mask, sizeof mask);
        return it->second;
    }
    it->second = new_constant(count * width * warp_size);
    std::byte* to = &program_.constants[it->second >> 1];
    for (uint32_t n = 0; n < count; ++n) {
        const uint64_t lane = n * width < sizeof bits ? bits >> (8 * n * width) : 0;
        for (int i = 0; i < warp_size; ++i, to += width) std::memcpy(to, &lane, width);
    }
    return it->second;
}

Locator Emitter::new_constant(uint32_t bytes) {
    const auto at = round_up(uint32_t(program_.constants.size()), slot_alignment);
    program_.constants.resize(at + round_up(bytes, slot_alignment));
    if (red_zone_) {
        const auto end = uint32_t(program_.constants.size());
        program_.constants.resize(end + red_zone_);
        constant_zones_.emplace_back(end, end + red_zone_);
    }
    return at << 1 | 1;
}

Locator Emitter::scratch(uint32_t bytes) {
    Frame::Pool& pool = frame_.scratch[bytes];
    if (pool.used == pool.registers.size()) {
        const uint32_t at = round_up(frame_.bytes, slot_alignment);
        frame_.bytes = place(at, bytes);
        pool.registers.push_back(at << 1);
    }
    return pool.registers[pool.used++];
}

void Emitter::append_not(Locator result, Locator predicate) {
    Op op;
    op.run = engine_.ops->predicate_not;
    op.operand[0] = result;
    op.operand[1] = predicate;
    append(op);
}

uint32_t Emitter::place(uint32_t at, uint32_t size) {
    if (!red_zone_) return at + size;
    const uint32_t next = round_up(at + size + red_zone_, slot_alignment);
    frame_.red_zones.emplace_back(at + size, next);
    return next;
}

void Emitter::find_family_changes(const AddressFamilies& families, uint32_t first_op,
                                  uint32_t first_instruction) {
    std::vector<Op>& ops = program_.ops;
    const auto changes_of = [&](const Op& op) {
        const size_t instruction = op.pc - first_instruction;
        // If the body is empty, the only op is the return at its end, which belongs to no
        // instruction.
        if (instruction >= families.changed.size()) return Program::FamilyChanges{};
        return Program::FamilyChanges{families.changed[instruction], families.renewed[instruction]};
    };
    // Returns the family whose stride an op sets, as a set.
    const auto set_by = [](const Op& op) {
        const bool sets = op.is<WideSum>() && op.get<WideSum>().to != AddressFamilies::none;
        return sets ? uint64_t{1} << op.get<WideSum>().to : 0;
    };
    uint64_t renewed = 0;
    for (uint32_t i = first_op; i < ops.size(); ++i) {
        Op& op = ops[i];
        if (op.has_memory() && op.memory().family != AddressFamilies::none) {
            const uint64_t family = uint64_t{1} << op.memory().family;
            op.memory().family_renewed = renewed & family;
            // When this op runs, it determines the stride of its family, and later ops use this
            // stride. This is right only if the op runs for the whole warp. So the op must have no
            // guard, and its lanes must not access different state spaces.
            const bool of_whole_warp =
                op.guard == no_operand && program_.instructions[op.pc].space != ptx::Space::generic;
            if (of_whole_warp) renewed &= ~family;
        } else if (set_by(op)) {
            auto& sum = op.get<WideSum>();
            const uint64_t from = uint64_t{1} << sum.from;
            sum.from_renewed = renewed & from;
            renewed &= ~from;
        }
        renewed |= changes_of(op).renewed;
        renewed = op.control == Control::none ? renewed & ~set_by(op) : 0;
    }
    program_.family_changes.resize(ops.size());
    Program::FamilyChanges following;
    uint64_t set_later = 0;
    for (uint32_t i = uint32_t(ops.size()); i-- > first_op;) {
        if (ops[i].control != Control::none) {
            following = {};
            set_later = 0;
        }
        set_later |= set_by(ops[i]);
        const Program::FamilyChanges own = changes_of(ops[i]);
        following.changed |= own.changed;
        following.renewed |= own.renewed & ~set_later;
        program_.family_changes[i] = following;
    }
}

}  // namespace coalesce::sim
