#include "analysis/check/registers.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace coalesce::analysis {

using sim::DataFlow;
using sim::LaneMask;

namespace {

constexpr uint32_t no_function = UINT32_MAX, no_use = UINT32_MAX;

using Register = std::pair<uint32_t, uint32_t>;  // the function, and its register

bool contains(const std::vector<uint32_t>& list, uint32_t r) {
    return std::ranges::find(list, r) != list.end();
}

// Returns true if the result may not depend on all operands.
bool may_ignore(const sim::Traits& traits) {
    using enum sim::OpCode;
    if (traits.warpgroup) return true;  // wgmma ignores its accumulators if its scale-d is false
    switch (traits.code) {
        case and_:
        case or_:
        case lop3:
        case selp:
        case slct:
        case prmt:
        case bfi:
        case shfl:
        case vote:
        case match:
            return true;
        default:
            return false;
    }
}

// Returns the registers that some path from the start of their function reads before it writes
// them. The search goes back from the instructions that read a register. It ends at those that
// write it.
std::set<Register> read_before_written(const sim::Program& program) {
    std::vector<std::vector<uint32_t>> before(program.instructions.size());
    std::map<Register, std::vector<uint32_t>> readers;
    for (uint32_t i = 0; i < program.instructions.size(); ++i) {
        for (const uint32_t next : program.data_flow[i].successors) before[next].push_back(i);
        for (const uint32_t r : program.data_flow[i].reads)
            readers[{program.instructions[i].function, r}].push_back(i);
    }
    std::set<Register> found;
    std::vector<uint32_t> seen(program.instructions.size(), UINT32_MAX);
    uint32_t number = 0;
    for (auto& [key, left] : readers) {
        for (const uint32_t i : left) seen[i] = number;
        while (!left.empty()) {
            const uint32_t at = left.back();
            left.pop_back();
            if (at == 0 || program.instructions[at - 1].function != key.first) found.insert(key);
            for (const uint32_t i : before[at]) {
                if (seen[i] == number || contains(program.data_flow[i].writes, key.second))
                    continue;
                seen[i] = number;
                left.push_back(i);
            }
        }
        ++number;
    }
    return found;
}

}  // namespace

UnwrittenRegisters::UnwrittenRegisters(const sim::Program& program) {
    std::map<Register, uint32_t> number;
    const auto track = [&](Register r, uint32_t unwritten_in) {
        if (number.emplace(r, uint32_t(number.size())).second)
            unwritten_in_.push_back(unwritten_in);
    };
    for (const Register& r : read_before_written(program)) {
        // A function that calls itself would need one set of states for each call.
        if (r.first == 0 || !program.recursive) track(r, r.first);
    }
    const auto is_tracked = [&](uint32_t pc) {
        return [&number, function = program.instructions[pc].function](uint32_t r) {
            return number.contains({function, r});
        };
    };
    for (size_t before = 0; before != number.size();) {
        before = number.size();
        for (uint32_t pc = 0; pc < program.instructions.size(); ++pc) {
            const DataFlow& flow = program.data_flow[pc];
            if (flow.guarded || may_ignore(program.instructions[pc].traits) ||
                std::ranges::none_of(flow.reads, is_tracked(pc)))
                continue;
            for (const uint32_t r : flow.writes)
                track({program.instructions[pc].function, r}, no_function);
        }
    }
    for (uint32_t n = 0; n < program.ops.size() && !number.empty(); ++n) {
        const sim::Op& op = program.ops[n];
        const sim::InstructionInfo& in = program.instructions[op.pc];
        const DataFlow& flow = program.data_flow[op.pc];
        if (!op.starts) continue;
        Step step{.op = n, .pc = op.pc, .reads = {}, .writes = {}};
        const auto add = [&](std::vector<uint32_t>& to, const std::vector<uint32_t>& registers) {
            for (const uint32_t r : registers) {
                if (const auto known = number.find({in.function, r}); known != number.end())
                    to.push_back(known->second);
            }
        };
        const bool branches =
            op.control == sim::Control::branch || op.control == sim::Control::branch_table;
        const bool memory = in.space != ptx::Space::reg && in.space != ptx::Space::local &&
                            in.space != ptx::Space::param;
        add(step.writes, flow.writes);
        if (!flow.guarded || branches) add(step.reads, flow.reads);
        const bool stores = in.traits.code == sim::OpCode::st;
        step.moves = stores || (flow.copied >= 0 && flow.added == 0);
        step.may_copy = stores && in.space != ptx::Space::global;
        step.defines = flow.guarded || in.space != ptx::Space::reg || may_ignore(in.traits);
        std::vector<uint32_t> addresses;
        add(addresses, flow.address);
        step.uses_any = branches || (memory && !addresses.empty());
        // A store of several elements may store the padding of a structure, too.
        step.uses_all = memory && step.reads.size() == flow.reads.size() - flow.address.size();
        if (!step.reads.empty() || !step.writes.empty()) steps_.push_back(std::move(step));
    }
}

void UnwrittenRegisters::enter(State* states, uint32_t function, LaneMask lanes) const {
    for (size_t r = 0; r < size(); ++r) {
        if (unwritten_in_[r] != function) continue;
        states[r].undefined |= lanes;
        states[r].first_use = no_use;
    }
}

std::vector<UnwrittenRegisters::Use> UnwrittenRegisters::execute(State* states, uint32_t first,
                                                                 uint32_t end,
                                                                 LaneMask lanes) const {
    std::vector<Use> uses;
    auto step = std::ranges::lower_bound(steps_, first, {}, &Step::op);
    for (; step != steps_.end() && step->op < end; ++step) {
        LaneMask any = 0, all = step->reads.empty() ? 0 : lanes;
        uint32_t first_use = step->moves ? no_use : step->pc;
        for (const uint32_t r : step->reads) {
            const LaneMask undefined = states[r].undefined & lanes;
            any |= undefined;
            all &= undefined;
            if (undefined && states[r].first_use != no_use) first_use = states[r].first_use;
        }
        const LaneMask wrong = step->uses_any ? any : step->uses_all ? all : 0;
        if (wrong && !(step->may_copy && first_use == no_use))
            uses.push_back({first_use == no_use ? step->pc : first_use, wrong});
        const LaneMask undefined = step->defines ? 0 : any;
        for (const uint32_t r : step->writes) {
            states[r].undefined = (states[r].undefined & ~lanes) | undefined;
            if (undefined) states[r].first_use = first_use;
        }
    }
    return uses;
}

}  // namespace coalesce::analysis
