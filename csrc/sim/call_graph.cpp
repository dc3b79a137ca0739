#include "sim/call_graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/symbols.hpp"

namespace coalesce::sim {

using Kind = ptx::Operand::Kind;

size_t callee_operand(const ptx::Instruction& call) {
    return !call.operands.empty() && call.operands[0].kind == Kind::list ? 1 : 0;
}

std::string_view callee_name(const ptx::Instruction& in) {
    const size_t n = callee_operand(in);
    if (in.opcode != "call" || n >= in.operands.size()) return {};
    return in.operands[n].kind == Kind::symbol ? in.operands[n].name : std::string_view{};
}

CallGraph call_graph(const ptx::Module& module, const ptx::Function& entry) {
    CallGraph graph;
    std::unordered_map<const ptx::Function*, uint32_t> number;
    const auto number_of = [&](const ptx::Function* f) {
        const auto [at, fresh] = number.emplace(f, uint32_t(graph.functions.size()));
        if (fresh) graph.functions.push_back(f);
        return at->second;
    };
    number_of(&entry);
    for (uint32_t i = 0; i < graph.functions.size(); ++i) {
        std::vector<uint32_t> callees;
        for (const ptx::Instruction& in : graph.functions[i]->body) {
            const size_t n = callee_operand(in);
            if (in.opcode != "call" || n >= in.operands.size()) continue;
            const ptx::Operand& callee = in.operands[n];
            if (callee.kind == Kind::reg) {
                graph.through_pointers = true;
                for (const auto& [_, f] : function_addresses(module)) {
                    if (!f->external) callees.push_back(number_of(f));
                }
            } else if (const ptx::Function* f = module.find_function(callee.name)) {
                if (!f->external) callees.push_back(number_of(f));
            }
        }
        graph.callees.push_back(std::move(callees));
    }
    return graph;
}

uint32_t CallGraph::number_of(std::string_view name) const {
    for (uint32_t i = 0; i < functions.size(); ++i) {
        if (functions[i]->name == name) return i;
    }
    return no_function;
}

uint32_t CallGraph::deepest(const std::vector<uint32_t>& costs, uint64_t most,
                            bool& recursive) const {
    enum State : uint8_t { unseen, open, done };
    std::vector<uint8_t> state(functions.size(), unseen);
    std::vector<uint32_t> sums(functions.size(), 0);
    // A depth-first search with an explicit stack of (function, next callee).
    std::vector<std::pair<uint32_t, size_t>> stack{{0, 0}};
    state[0] = open;
    while (!stack.empty()) {
        auto& [f, next] = stack.back();
        if (next < callees[f].size()) {
            const uint32_t g = callees[f][next++];
            if (state[g] == open) recursive = true;
            if (state[g] == unseen) {
                state[g] = open;
                stack.emplace_back(g, 0);
            }
            continue;
        }
        uint32_t below = 0;
        for (const uint32_t g : callees[f]) below = std::max(below, sums[g]);
        sums[f] = uint32_t(std::min<uint64_t>(uint64_t{costs[f]} + below, most));
        state[f] = done;
        stack.pop_back();
    }
    return sums[0];
}

bool CallGraph::recursive() const {
    bool found = through_pointers;
    static_cast<void>(deepest(std::vector<uint32_t>(functions.size()), 0, found));
    return found;
}

}  // namespace coalesce::sim
