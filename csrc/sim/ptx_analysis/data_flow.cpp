#include "sim/ptx_analysis/data_flow.hpp"

namespace coalesce::sim {
namespace {

using ptx::Instruction;
using ptx::Operand;

void collect(const Operand& operand, std::vector<uint32_t>& registers) {
    if (operand.reg >= 0) registers.push_back(static_cast<uint32_t>(operand.reg));
    for (const Operand& element : operand.elements) collect(element, registers);
}

void call_effects(const Instruction& call, Effects& result) {
    const std::vector<Operand>& operands = call.operands;
    const bool has_results = !operands.empty() && operands[0].kind == Operand::Kind::list;
    for (size_t i = 0; i < operands.size(); ++i) {
        collect(operands[i], i == 0 && has_results ? result.writes : result.reads);
    }
}

// Returns true if the operands are a destination and a source, both in one register.
bool copies(const std::vector<Operand>& o) {
    return o.size() >= 2 && o[0].kind == Operand::Kind::reg && o[1].kind == Operand::Kind::reg;
}

}  // namespace

Effects effects_of(const Instruction& instruction, const Traits& traits) {
    Effects result;
    if (traits.code == OpCode::call) {
        call_effects(instruction, result);
    } else {
        const bool accumulates = operation(traits.code).has(trait::accumulates);
        for (const Operand& operand : instruction.operands) {
            const bool first = &operand == instruction.operands.data();
            const bool written =
                first && traits.has_result && operand.kind != Operand::Kind::address;
            if (written) collect(operand, result.writes);
            if (!written || accumulates) collect(operand, result.reads);
        }
    }
    if (instruction.guard >= 0) {
        result.reads.insert(result.reads.end(), result.writes.begin(), result.writes.end());
        result.reads.push_back(static_cast<uint32_t>(instruction.guard));
    }
    return result;
}

DataFlow data_flow(const Instruction& instruction, const Traits& traits) {
    DataFlow flow;
    static_cast<Effects&>(flow) = effects_of(instruction, traits);
    flow.guarded = instruction.guard >= 0;
    const std::vector<Operand>& operands = instruction.operands;
    bool first = true;
    for (const Operand& operand : operands) {
        if (operand.kind != Operand::Kind::address) continue;
        collect(operand, flow.address);
        if (first) {
            flow.symbol = operand.name;
            flow.offset = operand.offset;
        }
        first = false;
    }
    if (!copies(operands)) return flow;
    if (operands.size() == 2 && (traits.code == OpCode::mov || traits.code == OpCode::cvta)) {
        flow.copied = operands[1].reg;
    } else if (operands.size() == 3 && traits.code == OpCode::add &&
               operands[2].kind == Operand::Kind::integer) {
        flow.copied = operands[1].reg;
        flow.added = int64_t(operands[2].bits);
    }
    return flow;
}

}  // namespace coalesce::sim
