// The call graph of a kernel: the functions that it may call, directly or indirectly, and the
// functions whose address it uses.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

struct CallGraph {
    std::vector<const ptx::Function*> functions;  // the kernel is the first one
    // callees[f] lists the functions that function f calls.
    std::vector<std::vector<uint32_t>> callees;
    // True if some calls use a function pointer, so the called function is not known.
    bool through_pointers = false;
    // All functions that the assembler keeps in the machine code of the kernel. They are the
    // functions in `functions`, the functions that these call or whose address they use, and so on.
    std::vector<const ptx::Function*> referred;

    // number_of() returns the number of a function in the graph, or no_function if it is not there.
    static constexpr uint32_t no_function = UINT32_MAX;
    [[nodiscard]] uint32_t number_of(std::string_view name) const;

    // Returns the cost of the most expensive chain of calls that starts at the kernel. costs[f] is
    // the cost of function f, such as its bytes of local memory. The cost of a chain is the sum
    // over its functions, but at most `most`. If a function calls itself, directly or indirectly, a
    // chain can be arbitrarily long. Then `recursive` is set to true.
    [[nodiscard]] uint32_t deepest(const std::vector<uint32_t>& costs, uint64_t most,
                                   bool& recursive) const;
    // Returns true if a function may call itself, directly or indirectly, or if some calls use a
    // function pointer, so that the called function is not known.
    [[nodiscard]] bool recursive() const;
};

// Makes the call graph of a kernel. A call through a pointer may lead to each function whose
// address the module takes. Functions without a body in the module are left out.
[[nodiscard]] CallGraph call_graph(const ptx::Module& module, const ptx::Function& entry);

// Calls `visit` for each name that the operand contains.
template <class Visit>
void for_each_name(const ptx::Operand& o, const Visit& visit) {
    if (!o.name.empty()) visit(o.name);
    for (const ptx::Operand& element : o.elements) for_each_name(element, visit);
}

// The functions that a function refers to, in the order of the PTX text. Functions without a body
// in the module are left out.
struct References {
    std::vector<const ptx::Function*> called;  // the functions that are called by name
    // Functions whose address is taken, but which are not called by name.
    std::vector<const ptx::Function*> taken;
    bool calls_pointers = false;
};
[[nodiscard]] References references(const ptx::Module& module, const ptx::Function& f);

// Returns the index of the operand that is the name of the called function. It is not always 0: the
// operand for the results of the call may come first.
[[nodiscard]] size_t callee_operand(const ptx::Instruction& call);

// Returns the name of the function that an instruction calls, or an empty string.
[[nodiscard]] std::string_view callee_name(const ptx::Instruction& in);

}  // namespace coalesce::sim
