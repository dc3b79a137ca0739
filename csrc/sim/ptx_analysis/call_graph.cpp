#include "sim/ptx_analysis/call_graph.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "sim/ptx_analysis/symbols.hpp"

namespace coalesce::sim {

using Kind = ptx::Operand::Kind;

size_t callee_operand(const ptx::Instruction& call) {
    return !call.operands.empty() && call.operands[0].kind == Kind::list ? 1 : 0;
}

std::string_view callee_name(const ptx::Instruction& in) {
    const size_t n = callee_operand(in);
    if (!in.is_call() || n >= in.operands.size()) return {};
    return in.operands[n].kind == Kind::symbol ? in.operands[n].name : std::string_view{};
}

References references(const ptx::Module& module, const ptx::Function& f) {
    References result;
    for (const ptx::Instruction& in : f.body) {
        const size_t callee = in.is_call() ? callee_operand(in) : SIZE_MAX;
        for (size_t n = 0; n < in.operands.size(); ++n) {
            const ptx::Operand& o = in.operands[n];
            if (n == callee && o.kind == Kind::reg) result.calls_pointers = true;
            for_each_name(o, [&](std::string_view name) {
                const ptx::Function* const g = module.find_function(name);
                if (g && !g->external && !g->entry)
                    (n == callee ? result.called : result.taken).push_back(g);
            });
        }
    }
    return result;
}

CallGraph call_graph(const ptx::Module& module, const ptx::Function& entry) {
    CallGraph graph;
    std::unordered_map<const ptx::Function*, uint32_t> numbers;
    const auto number_of = [&](const ptx::Function* f) {
        const auto [at, fresh] = numbers.emplace(f, uint32_t(graph.functions.size()));
        if (fresh) graph.functions.push_back(f);
        return at->second;
    };
    number_of(&entry);
    for (uint32_t i = 0; i < graph.functions.size(); ++i) {
        const References to = references(module, *graph.functions[i]);
        std::vector<uint32_t> callees;
        for (const ptx::Function* f : to.called) callees.push_back(number_of(f));
        if (to.calls_pointers) {
            graph.through_pointers = true;
            for (const auto& [_, f] : function_addresses(module)) callees.push_back(number_of(f));
        }
        graph.callees.push_back(std::move(callees));
    }
    // `referred` starts with graph.functions. Then each function in `referred` adds the functions
    // that it calls or whose address it takes, until there are no new ones.
    std::set<const ptx::Function*> seen;
    const auto refer = [&](const ptx::Function* f) {
        if (seen.insert(f).second) graph.referred.push_back(f);
    };
    std::ranges::for_each(graph.functions, refer);
    for (size_t i = 0; i < graph.referred.size(); ++i) {
        const References to = references(module, *graph.referred[i]);
        std::ranges::for_each(to.called, refer);
        std::ranges::for_each(to.taken, refer);
        if (!to.calls_pointers) continue;
        for (const auto& [_, f] : function_addresses(module)) refer(f);
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
    bool is_recursive = through_pointers;
    static_cast<void>(deepest(std::vector<uint32_t>(functions.size()), 0, is_recursive));
    return is_recursive;
}

}  // namespace coalesce::sim
