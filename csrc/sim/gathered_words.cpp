#include "sim/gathered_words.hpp"

#include <cstdlib>
#include <vector>

#include "sim/program.hpp"

namespace coalesce::sim {

namespace {

bool is_load(const Op& op, const InstructionInfo& info) {
    return op.has_memory() && info.access == Access::load && !info.traits.strong;
}

// Returns true if the op can be between a load and a later load that uses its copies. The list of
// opcodes is not complete: other ops only end the use of the copies.
bool is_harmless(const Op& op, const InstructionInfo& info) {
    using enum OpCode;
    switch (info.traits.code) {
        case IMAD:
        case MOV:
        case UMOV:
        case UIADD3:
        case UIMAD:
        case ULEA:
        case HFMA2:
            return true;
        case LDG:
        case LDS:
        case LDC:
        case ULDC:
            return is_load(op, info);
        default:
            return info.traits.pipe != Pipe::other && info.traits.pipe != Pipe::tensor;
    }
}

}  // namespace

void find_gathered_words(Program& program) {
    std::vector<Op*> loads;  // loads whose copies could still be used
    for (size_t i = 0; i < program.ops.size(); ++i) {
        Op& op = program.ops[i];
        if (op.pc >= program.instructions.size()) {  // an op that ends a program without a listing
            loads.clear();
            continue;
        }
        const InstructionInfo& info = program.instructions[op.pc];
        if (op.control != Control::none || !is_harmless(op, info)) {
            loads.clear();
        } else if (info.traits.code == OpCode::LDG && is_load(op, info) && info.bytes == 4 &&
                   op.guard == no_operand) {
            // A guarded load may not be executed, so it could not forget old copies.
            for (Op* const earlier : loads) {
                const int64_t distance = op.memory().offset - earlier->memory().offset;
                if (earlier->operand[5] != op.operand[5] ||
                    std::abs(distance) >= GatheredWords::bytes)
                    continue;
                earlier->memory().gathers = true;
                op.memory().gathers = op.memory().gathered_before = true;
            }
            loads.push_back(&op);
        }
        if (program.segment_end[i] == i + 1) loads.clear();
    }
}

}  // namespace coalesce::sim
