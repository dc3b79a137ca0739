#include "sim/decode/registers.hpp"

#include <string_view>

namespace coalesce::sim {

namespace {

using ptx::Operand;
using ptx::Type;

// Counts how often instructions use a register's bits as each kind of value.
struct Uses {
    uint32_t of_float = 0, of_signed = 0, of_unsigned = 0, of_half = 0;
};

bool is_half(Type t) { return t == Type::f16; }
bool is_unsigned(Type t) {
    return t == Type::u8 || t == Type::u16 || t == Type::u32 || t == Type::u64;
}

void note(Uses& uses, Type declared, Type used) {
    if (ptx::is_float(used) && ptx::size_of(used) == ptx::size_of(declared)) ++uses.of_float;
    if (is_half(used) && ptx::size_of(declared) == 2) ++uses.of_half;
    if (ptx::is_signed(used)) ++uses.of_signed;
    if (is_unsigned(used)) ++uses.of_unsigned;
}

// Returns the type of operand `n` of an instruction.
Type type_of_operand(const ptx::Instruction& in, OpCode code, size_t n) {
    std::vector<Type> types;
    for (const std::string_view m : in.modifiers) {
        if (const Type t = ptx::type_named(m); t != Type::none) types.push_back(t);
    }
    if (types.empty()) return Type::none;
    const bool two = code == OpCode::cvt || code == OpCode::set || code == OpCode::slct;
    return two && n == 0 ? types.front() : types.back();
}

// Returns the type of the values in a register. This is the declared type, unless the declared type
// is only a width (.b32). In that case, it is the type that the instructions with this register
// use.
Type value_type(Type declared, const Uses& uses) {
    const bool by_width = declared == Type::b8 || declared == Type::b16 || declared == Type::b32 ||
                          declared == Type::b64;
    if (!by_width) return declared;
    const uint32_t bytes = ptx::size_of(declared);
    if (uses.of_half) return Type::f16;
    if (uses.of_float) return bytes == 4 ? Type::f32 : Type::f64;
    if (!uses.of_signed && !uses.of_unsigned) return declared;
    return uses.of_signed ? ptx::signed_type(bytes) : ptx::unsigned_type(bytes);
}

// If the instruction copies values, its destination and its sources hold values of the same kind.
// Returns how many operands these are: 2 for mov, 3 for selp. They are the first operands. Returns
// 0 if the instruction copies nothing.
size_t copied_operands(OpCode code) {
    if (code == OpCode::mov || code == OpCode::shfl) return 2;
    return code == OpCode::selp ? 3 : 0;
}

}  // namespace

FunctionRegisters describe_registers(const ptx::Function& function, std::span<const Traits> traits,
                                     const ControlFlow& flow, const std::vector<Locator>& slots,
                                     uint32_t first_instruction) {
    const auto& registers = function.registers;
    std::vector<Uses> uses(registers.size());
    // Registers that are copied to each other have the same meaning and form a group.
    std::vector<uint32_t> group(registers.size());
    for (uint32_t r = 0; r < group.size(); ++r) group[r] = r;
    const auto leader = [&](uint32_t r) {
        while (group[r] != r) r = group[r] = group[group[r]];
        return r;
    };
    FunctionRegisters result;
    for (size_t i = 0; i < traits.size(); ++i) {
        const ptx::Instruction& in = function.body[i];
        const size_t same = copied_operands(traits[i].code);
        int32_t copied = -1;
        for (size_t n = 0; n < in.operands.size(); ++n) {
            const Operand& operand = in.operands[n];
            const Type type = type_of_operand(in, traits[i].code, n);
            const auto use = [&](const Operand& o) {
                if (o.kind == Operand::Kind::reg && o.reg >= 0)
                    note(uses[size_t(o.reg)], registers[size_t(o.reg)].type, type);
            };
            use(operand);
            if (operand.kind == Operand::Kind::vector || operand.kind == Operand::Kind::pair)
                for (const Operand& e : operand.elements) use(e);
            if (same == 0) continue;
            const Operand& o = operand.kind == Operand::Kind::pair && !operand.elements.empty()
                                   ? operand.elements.front()
                                   : operand;
            if (o.kind == Operand::Kind::f32 || o.kind == Operand::Kind::f64) {
                if (copied >= 0) ++uses[size_t(copied)].of_float;
            }
            if (o.kind != Operand::Kind::reg || o.reg < 0 || n >= same) continue;
            if (registers[size_t(o.reg)].type == Type::pred) continue;
            if (copied < 0) copied = o.reg;
            if (registers[size_t(copied)].type == registers[size_t(o.reg)].type)
                group[leader(uint32_t(o.reg))] = leader(uint32_t(copied));
        }
    }
    for (uint32_t r = 0; r < group.size(); ++r) {
        if (leader(r) == r) continue;
        Uses& all = uses[leader(r)];
        all.of_float += uses[r].of_float;
        all.of_half += uses[r].of_half;
        all.of_signed += uses[r].of_signed;
        all.of_unsigned += uses[r].of_unsigned;
    }
    const std::vector<LiveRange> ranges = live_ranges(function, traits, flow);
    for (uint32_t r = 0; r < registers.size(); ++r) {
        RegisterPlace place;
        place.name = registers[r].name;
        place.type = value_type(registers[r].type, uses[leader(r)]);
        if (ranges[r].first <= ranges[r].last) {
            place.slot = slots[r];
            place.first = first_instruction + ranges[r].first;
            place.last = first_instruction + ranges[r].last;
        }
        result.push_back(std::move(place));
    }
    return result;
}

}  // namespace coalesce::sim
