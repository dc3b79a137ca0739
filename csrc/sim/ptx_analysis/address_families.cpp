#include "sim/ptx_analysis/address_families.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

namespace coalesce::sim {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;
using ptx::Type;

// Returns true for special registers that have the same value in all threads of a block.
bool is_of_block(std::string_view special) {
    const std::string_view name = special.substr(0, special.find('.'));
    return name == "%ctaid" || name == "%nctaid" || name == "%ntid";
}

// Returns true if the instruction computes with integers of 32 or 64 bits. If all lanes add the
// same integer, the differences between the lanes stay the same. (Floating-point sums are rounded,
// so there the differences may change.)
bool adds_integers(const Instruction& in, OpCode code) {
    if (code == OpCode::cvta) return true;
    const bool low = code == OpCode::mad && in.modifiers.size() == 2 && in.modifiers[0] == "lo";
    if (!low && in.modifiers.size() != 1) return false;
    const Type type = ptx::type_named(in.modifiers.back());
    return type != Type::f32 && type != Type::f64 && ptx::size_of(type) >= 4;
}

class FamilyFinder {
  public:
    FamilyFinder(const Function& function, std::span<const Traits> traits,
                 const std::vector<LiveRange>& ranges)
        : function_(function),
          traits_(traits),
          ranges_(ranges),
          writes_(function.registers.size()),
          eligible_(function.registers.size()),
          constant_(function.registers.size()),
          parent_(function.registers.size()) {
        std::iota(parent_.begin(), parent_.end(), 0u);
        effects_.reserve(function.body.size());
        for (size_t i = 0; i < function.body.size(); ++i)
            effects_.push_back(effects_of(function.body[i], traits[i]));
    }

    AddressFamilies find() {
        find_eligible();
        while (find_constants()) {
        }
        moved_.assign(function_.body.size(), false);
        for (uint32_t i = 0; i < function_.body.size(); ++i) {
            const int64_t from = moved_from(function_.body[i], traits_[i].code);
            if (from < 0) continue;
            moved_[i] = true;
            parent_[root(uint32_t(from))] = root(uint32_t(function_.body[i].operands[0].reg));
        }
        return number();
    }

  private:
    // Finds the 32-bit and 64-bit integer registers that each lane writes before it reads them. A
    // guarded write is not enough: lanes whose guard is false do not write.
    void find_eligible() {
        for (size_t r = 0; r < eligible_.size(); ++r) {
            const Type type = function_.registers[r].type;
            const LiveRange range = ranges_[r];
            eligible_[r] = ptx::size_of(type) >= 4 && type != Type::f32 && type != Type::f64 &&
                           range.first <= range.last && (range.first > 0 || begins_with(r));
        }
        for (const Effects& of_one : effects_) {
            for (const uint32_t r : of_one.writes) ++writes_[r];
        }
    }

    // Returns true if the first instruction of the function writes the register without reading it.
    [[nodiscard]] bool begins_with(size_t reg) const {
        const auto names = [&](const std::vector<uint32_t>& registers) {
            return std::find(registers.begin(), registers.end(), reg) != registers.end();
        };
        return names(effects_[0].writes) && !names(effects_[0].reads);
    }

    [[nodiscard]] bool is_constant(const Operand& o) const {
        switch (o.kind) {
            case Operand::Kind::integer:
            case Operand::Kind::symbol:
                return true;
            case Operand::Kind::special:
                return is_of_block(o.name);
            case Operand::Kind::reg:
                return o.reg >= 0 && constant_[size_t(o.reg)];
            default:
                return false;
        }
    }

    // Marks uniform registers. Returns true if it found new ones.
    bool find_constants() {
        bool changed = false;
        for (size_t i = 0; i < function_.body.size(); ++i) {
            const Instruction& in = function_.body[i];
            if (in.operands.size() < 2 || in.operands[0].kind != Operand::Kind::reg) continue;
            const auto r = size_t(in.operands[0].reg);
            if (!eligible_[r] || constant_[r] || writes_[r] != 1) continue;
            const Operand& address = in.operands[1];
            // Parameters of the kernel are uniform, and they are loaded with ld.param. But the
            // result of a call is also loaded with ld.param, and it may differ between lanes.
            const OpCode code = traits_[i].code;
            const bool parameter = code == OpCode::ld && in.has("param") &&
                                   address.kind == Operand::Kind::address && address.reg < 0 &&
                                   address.variable < 0;
            const bool computed = operation(code).has(trait::pure) && !in.has("cc") &&
                                  std::all_of(in.operands.begin() + 1, in.operands.end(),
                                              [&](const Operand& o) { return is_constant(o); });
            constant_[r] = parameter || computed;
            changed |= constant_[r];
        }
        return changed;
    }

    // If the instruction adds a uniform value to a register, returns this register, otherwise -1.
    // (A value is uniform if it is the same in all lanes.)
    [[nodiscard]] int64_t moved_from(const Instruction& in, OpCode code) const {
        if (in.guard >= 0 || in.operands.size() < 2 || !adds_integers(in, code)) return -1;
        const Operand& d = in.operands[0];
        if (d.kind != Operand::Kind::reg || !is_member(d)) return -1;
        const auto from = [&](size_t operand, auto... others) -> int64_t {
            const Operand& o = in.operands[operand];
            const bool moved = o.kind == Operand::Kind::reg && is_member(o) &&
                               width(o) == width(d) && (is_constant(in.operands[others]) && ...);
            return moved ? o.reg : -1;
        };
        const size_t count = in.operands.size();
        if ((code == OpCode::mov || code == OpCode::cvta) && count == 2) return from(1);
        if (code == OpCode::mad && count == 4) return from(3, 1, 2);
        if (code == OpCode::sub && count == 3) return from(1, 2);
        if (code == OpCode::add && count == 3) {
            const int64_t first = from(1, 2);
            return first >= 0 ? first : from(2, 1);
        }
        return -1;
    }

    [[nodiscard]] bool is_member(const Operand& o) const {
        return eligible_[size_t(o.reg)] && !constant_[size_t(o.reg)];
    }
    [[nodiscard]] uint32_t width(const Operand& o) const {
        return ptx::size_of(function_.registers[size_t(o.reg)].type);
    }

    uint32_t root(uint32_t r) {
        while (parent_[r] != r) r = parent_[r] = parent_[parent_[r]];
        return r;
    }

    AddressFamilies number() {
        AddressFamilies families;
        families.of_register.assign(function_.registers.size(), AddressFamilies::none);
        families.changed.assign(function_.body.size(), 0);
        families.renewed.assign(function_.body.size(), 0);
        std::map<uint32_t, uint8_t> number_of;  // the number of the family with this root
        for (const Instruction& in : function_.body) {
            for (const Operand& o : in.operands) {
                if (o.kind != Operand::Kind::address || o.reg < 0 || !is_member(o)) continue;
                if (number_of.size() < AddressFamilies::most)
                    number_of.emplace(root(uint32_t(o.reg)), uint8_t(number_of.size()));
            }
        }
        // The registers of the family with this root.
        std::map<uint32_t, std::vector<uint32_t>> members;
        for (uint32_t r = 0; r < parent_.size(); ++r) {
            if (eligible_[r] && !constant_[r] && number_of.contains(root(r)))
                members[root(r)].push_back(r);
        }
        for (uint32_t i = 0; i < effects_.size(); ++i) {
            for (const uint32_t r : effects_[i].writes) {
                const auto family = number_of.find(root(r));
                if (family == number_of.end() || !eligible_[r] || constant_[r]) continue;
                families.changed[i] |= uint64_t{1} << family->second;
                if (moved_[i]) continue;
                families.renewed[i] |= uint64_t{1} << family->second;
                if (is_another_needed(members[family->first], r, i)) members[family->first] = {};
            }
        }
        for (const auto& [root, registers] : members) {
            for (const uint32_t r : registers) families.of_register[r] = number_of.at(root);
        }
        return families;
    }

    // Returns true if `registers` contains a register, other than `renewed`, whose value is still
    // needed after the instruction.
    [[nodiscard]] bool is_another_needed(const std::vector<uint32_t>& registers, uint32_t renewed,
                                         uint32_t instruction) const {
        return std::any_of(registers.begin(), registers.end(), [&](uint32_t r) {
            return r != renewed && ranges_[r].first <= instruction && instruction < ranges_[r].last;
        });
    }

    const Function& function_;
    std::span<const Traits> traits_;  // one entry per instruction
    const std::vector<LiveRange>& ranges_;
    std::vector<Effects> effects_;  // one entry per instruction
    std::vector<uint32_t> writes_;  // for each register: the number of instructions that write it
    // For each register: true if it may be uniform or a member of a family.
    std::vector<bool> eligible_;
    std::vector<bool> constant_;  // for each register: true if it is uniform
    // For each instruction: true if its result differs from an operand by a uniform value.
    std::vector<bool> moved_;
    std::vector<uint32_t> parent_;  // for each register: its parent in a disjoint-set forest
};

}  // namespace

AddressFamilies address_families(const Function& function, std::span<const Traits> traits,
                                 const std::vector<LiveRange>& ranges) {
    if (function.entry) return FamilyFinder(function, traits, ranges).find();
    AddressFamilies none;
    none.of_register.assign(function.registers.size(), AddressFamilies::none);
    none.changed.assign(function.body.size(), 0);
    none.renewed.assign(function.body.size(), 0);
    return none;
}

}  // namespace coalesce::sim
