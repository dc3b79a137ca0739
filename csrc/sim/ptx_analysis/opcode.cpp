#include "sim/ptx_analysis/opcode.hpp"

#include <unordered_map>

#include "ptx/module.hpp"

namespace coalesce::sim {

namespace {

constexpr auto rows = [] {
    using namespace trait;
    using enum Pipe;
    return std::to_array<Operation>({
        {},
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) \
    {OpCode::code, spelling, pipe, traits, sentence},
#include "sim/ptx_analysis/ops.inc"
#undef COALESCE_OPERATION
    });
}();

}  // namespace

std::span<const Operation> operations() { return rows; }

OpCode opcode_named(std::string_view opcode) {
    static const auto& codes = *new auto([] {
        std::unordered_map<std::string_view, OpCode> map;
        for (const Operation& row : operations()) map.emplace(row.spelling, row.code);
        return map;
    }());
    while (!opcode.empty()) {
        if (const auto entry = codes.find(opcode); entry != codes.end()) return entry->second;
        const size_t dot = opcode.rfind('.');
        opcode = opcode.substr(0, dot == std::string_view::npos ? 0 : dot);
    }
    return OpCode::unknown;
}

std::string full_opcode(const ptx::Instruction& instruction) {
    std::string text(instruction.opcode);
    for (const std::string_view m : instruction.modifiers) (text += '.') += m;
    return text;
}

}  // namespace coalesce::sim
