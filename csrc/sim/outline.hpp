// A program without operations: the properties of a kernel as a whole, from its PTX.
//
// Programs from PTX and from machine code begin with it. It has the kernel's name and parameters,
// its limits, its variables in shared memory and in the module, and its requirements for a launch.
#pragma once

#include <memory>
#include <string>

#include "sim/call_graph.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

// `graph` must be that of the entry. Throws LaunchError if static shared memory is too large for a
// block.
[[nodiscard]] Program outline(const ptx::Module& module, const ptx::Function& entry,
                              const CallGraph& graph, std::shared_ptr<ModuleMemory> memory);

// A mangled name as in C++, without its parameters. Other names are returned unchanged.
[[nodiscard]] std::string readable(const std::string& name);

}  // namespace coalesce::sim
