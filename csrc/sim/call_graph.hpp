// The functions that a kernel may call, directly or indirectly, and those that it refers to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

struct CallGraph {
    std::vector<const ptx::Function*> functions;  // the kernel first
    std::vector<std::vector<uint32_t>> callees;   // by function
    bool through_pointers = false;                // some calls do not name their function
    // These functions, those whose address they take, and what all these call and refer to in turn.
    // The assembler keeps them with the kernel.
    std::vector<const ptx::Function*> referred;

    // The number of a function in the graph, or no_function.
    static constexpr uint32_t no_function = UINT32_MAX;
    [[nodiscard]] uint32_t number_of(std::string_view name) const;

    // The sum of the functions' costs along the deepest chain of calls, at most `most`. If there is
    // no deepest chain, sets `recursive`.
    [[nodiscard]] uint32_t deepest(const std::vector<uint32_t>& costs, uint64_t most,
                                   bool& recursive) const;
    // Whether functions may call themselves, or it is not known which functions are called.
    [[nodiscard]] bool recursive() const;
};

// A call through a pointer may lead to each function whose address the module takes. Calls of
// functions without a body in the module are left out.
[[nodiscard]] CallGraph call_graph(const ptx::Module& module, const ptx::Function& entry);

// Calls `visit` with each name in an operand.
template <class Visit>
void each_name(const ptx::Operand& o, const Visit& visit) {
    if (!o.name.empty()) visit(o.name);
    for (const ptx::Operand& element : o.elements) each_name(element, visit);
}

// The functions that a function refers to, in the order of its text. Functions without a body in
// the module are left out.
struct References {
    std::vector<const ptx::Function*> called;  // by name
    std::vector<const ptx::Function*> taken;   // only the address is taken
    bool calls_pointers = false;
};
[[nodiscard]] References references(const ptx::Module& module, const ptx::Function& f);

// The index of the operand that names the called function. Results may precede it.
[[nodiscard]] size_t callee_operand(const ptx::Instruction& call);

// The function that an instruction calls by name; empty if there is none.
[[nodiscard]] std::string_view callee_name(const ptx::Instruction& in);

}  // namespace coalesce::sim
