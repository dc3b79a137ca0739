#include "ptx/data_flow.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace coalesce::ptx {
namespace {

void collect(const Operand& operand, std::vector<uint32_t>& registers) {
    if (operand.reg >= 0) registers.push_back(static_cast<uint32_t>(operand.reg));
    for (const Operand& element : operand.elements) collect(element, registers);
}

enum class Destination : uint8_t { written, only_read, accumulated };

// Returns what an instruction does with its operand 0: it writes the operand, reads it (a store
// reads its address there), or does both.
Destination destination_of(const Instruction& i) {
    constexpr std::string_view read_only[] = {
        "st",        "red",        "brx",          "ret",     "exit",          "trap",
        "prefetch",  "cp",         "prefetchu",    "membar",  "fence",         "discard",
        "nanosleep", "setmaxnreg", "brkpt",        "pmevent", "applypriority", "sust",
        "sured",     "stmatrix",   "stackrestore", "bra",     "griddepcontrol"};
    if (std::find(std::begin(read_only), std::end(read_only), i.opcode) != std::end(read_only)) {
        return Destination::only_read;
    }
    if (i.opcode == "bar" || i.opcode == "barrier") {
        return i.has("red") ? Destination::written : Destination::only_read;
    }
    if (i.opcode == "mbarrier") {
        const bool has_result = i.has("arrive") || i.has("arrive_drop") || i.has("test_wait") ||
                                i.has("try_wait") || i.has("pending_count");
        return has_result ? Destination::written : Destination::only_read;
    }
    if (i.opcode == "wmma") {
        return i.has("store") ? Destination::only_read : Destination::written;
    }
    if (i.opcode == "wgmma") {
        return i.has("mma_async") ? Destination::accumulated : Destination::only_read;
    }
    if (i.opcode == "tcgen05") {
        return i.has("ld") ? Destination::written : Destination::only_read;
    }
    return Destination::written;
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

Effects effects(const Instruction& instruction) {
    Effects result;
    const Destination destination = destination_of(instruction);
    if (instruction.opcode == "call") {
        call_effects(instruction, result);
    } else {
        for (const Operand& operand : instruction.operands) {
            const bool first = &operand == instruction.operands.data();
            if (!first || operand.kind == Operand::Kind::address ||
                destination == Destination::only_read) {
                collect(operand, result.reads);
                continue;
            }
            collect(operand, result.writes);
            if (destination == Destination::accumulated) collect(operand, result.reads);
        }
    }
    if (instruction.guard >= 0) {
        result.reads.insert(result.reads.end(), result.writes.begin(), result.writes.end());
        result.reads.push_back(static_cast<uint32_t>(instruction.guard));
    }
    return result;
}

DataFlow data_flow(const Instruction& instruction) {
    DataFlow flow;
    static_cast<Effects&>(flow) = effects(instruction);
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
    if (operands.size() == 2 && (instruction.opcode == "mov" || instruction.opcode == "cvta")) {
        flow.copied = operands[1].reg;
    } else if (operands.size() == 3 && instruction.opcode == "add" &&
               operands[2].kind == Operand::Kind::integer) {
        flow.copied = operands[1].reg;
        flow.added = int64_t(operands[2].bits);
    }
    return flow;
}

}  // namespace coalesce::ptx
