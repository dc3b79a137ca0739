#include "sass/possible_reconvergence.hpp"

#include <set>
#include <utility>

namespace coalesce::sass {

namespace {

using Kind = Operand::Kind;
using sim::OpCode;

bool is_conditional(const Instruction& in) {
    if (in.guard.kind == Kind::predicate && in.guard.number >= 0) return true;
    for (const Operand& o : in.operands) {
        if (o.kind == Kind::predicate && o.number >= 0) return true;
    }
    return false;
}

const Operand* label_of(const Instruction& in) {
    for (const Operand& o : in.operands) {
        if (o.kind == Kind::label) return &o;
    }
    return nullptr;
}

uint32_t barrier_of(const Instruction& in) {
    for (const Operand& o : in.operands) {
        if (o.kind == Kind::barrier && o.number >= 0 && o.number < 32)
            return uint32_t{1} << o.number;
    }
    return 0;
}

// Returns true if lanes can diverge at this instruction. BRA.DIV does not count: votes and shuffles
// contain it, but only to test whether lanes have diverged.
bool may_diverge(const Instruction& in) {
    return in.code == OpCode::BRA && !in.has("DIV") && !in.has("CONV") && !in.has("U") &&
           label_of(in) && is_conditional(in);
}

// Returns true for a call through a pointer. Lanes can also diverge there, because they may enter
// different functions.
bool calls_pointer(const Instruction& in) {
    return in.code == OpCode::CALL && !in.operands.empty() && in.operands[0].kind == Kind::reg;
}

// Returns the instructions that can be reached from `first`. The search stops at barriers that were
// set before `first`.
std::set<uint32_t> reached(const Code& code, uint32_t first) {
    std::set<uint32_t> instructions;
    // The number of an instruction, and the barriers that the code sets on the way to it.
    std::set<std::pair<uint32_t, uint32_t>> seen;
    std::vector<std::pair<uint32_t, uint32_t>> left{{first, 0}};
    while (!left.empty()) {
        const auto [at, set] = left.back();
        left.pop_back();
        if (at >= code.instructions.size() || !seen.insert({at, set}).second) continue;
        const Instruction& in = code.instructions[at];
        const Operand* const label = label_of(in);
        const uint32_t barrier = barrier_of(in);
        const bool always = !is_conditional(in);
        uint32_t now = set;
        if (in.code == OpCode::BSSY) now |= barrier;
        if (in.code == OpCode::BSYNC) {
            if (!(set & barrier)) continue;
            now &= ~barrier;
        }
        if (in.code == OpCode::WARPSYNC && always) continue;
        instructions.insert(at);
        const bool jumps =
            in.code == OpCode::RET || in.code == OpCode::BRX || in.code == OpCode::BRXU;
        if ((in.code == OpCode::EXIT || jumps) && always) continue;
        if (calls_pointer(in)) {
            for (const auto& [name, target] : code.functions) left.push_back({target, now});
        } else if ((in.code == OpCode::BRA || in.code == OpCode::CALL) && label) {
            left.push_back({label->target, now});
        }
        if (in.code != OpCode::BRA || !label || !always) left.push_back({at + 1, now});
    }
    return instructions;
}

}  // namespace

std::map<uint32_t, std::vector<uint32_t>> possible_reconvergence(
    const Code& code, const std::function<bool(uint32_t)>& counts) {
    std::map<uint32_t, std::vector<uint32_t>> result;
    for (uint32_t at = 0; at < code.instructions.size(); ++at) {
        const Instruction& in = code.instructions[at];
        if (calls_pointer(in)) {
            for (const uint32_t i : reached(code, at)) {
                if (counts(i)) result[at].push_back(i);
            }
        }
        if (!may_diverge(in)) continue;
        const std::set<uint32_t> taken = reached(code, label_of(in)->target);
        const std::set<uint32_t> other = reached(code, at + 1);
        for (const uint32_t i : taken) {
            if (counts(i) && other.contains(i)) result[at].push_back(i);
        }
    }
    return result;
}

}  // namespace coalesce::sass
