#include "sim/ptx_analysis/symbols.hpp"

#include <algorithm>
#include <set>

#include "round_up.hpp"
#include "sim/ptx_analysis/call_graph.hpp"

namespace coalesce::sim {

namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Module;
using ptx::Operand;

constexpr uint32_t smallest_dynamic_alignment = 16;
constexpr uint64_t largest_variable = uint64_t{1} << 32;  // larger variables are refused later

const Function* body_named(const Module& module, std::string_view name) {
    const Function* f = module.find_function(name);
    return f && !f->external && !f->entry ? f : nullptr;
}

// Returns the functions whose address the module uses. First come functions in the initial values
// of variables, in the order of the PTX text. Then come functions whose address is used in the code
// of each kernel and of the functions that it calls.
std::vector<const Function*> functions_taken(const Module& module) {
    std::vector<const Function*> order;
    const auto add = [&](const Function& f) {
        if (std::ranges::find(order, &f) == order.end()) order.push_back(&f);
    };
    for (const ptx::Variable& v : module.variables) {
        for (const ptx::Initializer& value : v.initial) {
            if (value.symbol.empty()) continue;
            if (const Function* f = body_named(module, value.symbol)) add(*f);
        }
    }
    std::set<const Function*> seen;
    const auto visit = [&](const Function& root) {
        std::vector<const Function*> left{&root};
        while (!left.empty()) {
            const Function* const f = left.back();
            left.pop_back();
            if (!seen.insert(f).second) continue;
            const References to = references(module, *f);
            left.insert(left.end(), to.called.begin(), to.called.end());
            for (const Function* taken : to.taken) add(*taken);
        }
    };
    for (const Function& f : module.functions) {
        if (f.entry) visit(f);
    }
    for (const Function& f : module.functions) visit(f);
    return order;
}

}  // namespace

std::vector<std::pair<uint64_t, const Function*>> function_addresses(const Module& module) {
    constexpr uint64_t unit = 8;
    std::vector<std::pair<uint64_t, const Function*>> addresses;
    uint64_t free = 0;  // functions without a known address get addresses after all others
    for (const auto& [_, address] : module.function_addresses) free = std::max(free, address);
    for (const Function* f : functions_taken(module)) {
        const auto known = module.function_addresses.find(f->name);
        const bool is_known = known != module.function_addresses.end();
        addresses.emplace_back(is_known ? known->second : free += unit, f);
    }
    return addresses;
}

uint64_t function_address(const Module& module, std::string_view name) {
    const Function* const f = module.find_function(name);
    for (const auto& [address, g] : function_addresses(module)) {
        if (g == f) return address;
    }
    return 0;
}

// Returns the size of the part of shared memory that the system uses. From sm_90 on, shared memory
// starts with 1 KiB for the system (CUDA C++ Programming Guide, "Shared Memory"). On older GPUs,
// the addresses of shared memory do not include the system's part, and the size is 0.
uint32_t reserved_shared(const Module& module) {
    uint32_t number = 0;
    for (const char c : module.target) {
        if (c >= '0' && c <= '9') number = number * 10 + uint32_t(c - '0');
    }
    return number >= 90 ? 1024 : 0;
}

SharedLayout lay_out_shared(const Module& module, const CallGraph& graph) {
    SharedLayout layout;
    const std::set<const Function*> executed(graph.referred.begin(), graph.referred.end());
    std::set<std::string_view> named;
    for (const Function* f : executed) {
        for (const Instruction& in : f->body) {
            for (const Operand& o : in.operands)
                for_each_name(o, [&](std::string_view name) { named.insert(name); });
        }
    }
    uint32_t alignment = smallest_dynamic_alignment;
    const auto place = [&](const ptx::Variable& v) {
        if (v.space != ptx::Space::shared) return;
        if (v.count == 0) {
            alignment = std::max(alignment, v.alignment);
            if (layout.dynamic.empty() || named.contains(v.name)) layout.dynamic = v.name;
            return;
        }
        if (!named.contains(v.name)) return;
        layout.bytes = round_up(layout.bytes, uint64_t{std::max(1u, v.alignment)});
        layout.variables.emplace_back(&v, layout.bytes);
        layout.bytes += std::min(v.bytes(), largest_variable);
    };
    for (const ptx::Variable& v : graph.functions[0]->variables) place(v);
    for (const ptx::Variable& v : module.variables) place(v);
    for (const Function& f : module.functions) {
        if (!f.entry && executed.contains(&f))
            for (const ptx::Variable& v : f.variables) place(v);
    }
    layout.bytes = round_up(layout.bytes, alignment);
    return layout;
}

}  // namespace coalesce::sim
