// The functions that a kernel may call, directly or not.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

struct CallGraph {
    std::vector<const ptx::Function*> functions;  // the kernel first
    std::vector<std::vector<uint32_t>> callees;   // by function
    bool through_pointers = false;                // some call does not name its function

    // The number of a function of the graph, or no_function.
    static constexpr uint32_t no_function = UINT32_MAX;
    [[nodiscard]] uint32_t number_of(std::string_view name) const;

    // The sum of the functions' costs along the deepest chain of calls, at most `most`. Sets
    // `recursive` if no chain is the deepest.
    [[nodiscard]] uint32_t deepest(const std::vector<uint32_t>& costs, uint64_t most,
                                   bool& recursive) const;
    // Functions may call themselves, or nothing tells which functions are called.
    [[nodiscard]] bool recursive() const;
};

// A call through a pointer may lead to every function whose address the module takes. A call of a
// function that has no body in the module is left out.
[[nodiscard]] CallGraph call_graph(const ptx::Module& module, const ptx::Function& entry);

// The operand of a call that names the function, of which results may stand before it.
[[nodiscard]] size_t callee_operand(const ptx::Instruction& call);

// The function that an instruction calls by name; empty if it calls none.
[[nodiscard]] std::string_view callee_name(const ptx::Instruction& in);

}  // namespace coalesce::sim
