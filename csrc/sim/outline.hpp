// A program without operations: what the PTX says of a kernel as a whole.
//
// Programs of PTX and of machine code begin with it: the kernel's name and parameters, its limits,
// its variables in shared memory and in the module's, and what it needs of a launch.
#pragma once

#include <memory>
#include <string>

#include "sim/call_graph.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

// `graph` is that of the entry. Throws LaunchError where static shared memory is too large for a
// block.
[[nodiscard]] Program outline(const ptx::Module& module, const ptx::Function& entry,
                              const CallGraph& graph, std::shared_ptr<ModuleMemory> memory);

// A mangled name as C++ writes it, without its parameters; any other name as it is.
[[nodiscard]] std::string readable(const std::string& name);

}  // namespace coalesce::sim
