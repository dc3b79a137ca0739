// Reads the properties of a kernel from its PTX, except the properties of single instructions.
//
// The result is a Program without operations: its name, parameters, limits, variables in shared
// memory and in the module, and requirements for a launch. The decoder (for PTX) and the lifter
// (for machine code) then add the operations to it.
#pragma once

#include <memory>
#include <string>

#include "sim/program/program.hpp"
#include "sim/ptx_analysis/call_graph.hpp"

namespace coalesce::sim {

// Returns the outline of the kernel `entry`. `graph` must be its call graph. Throws LaunchError if
// static shared memory is too large for a block.
[[nodiscard]] Program outline(const ptx::Module& module, const ptx::Function& entry,
                              const CallGraph& graph, std::shared_ptr<ModuleMemory> memory);

// Converts a mangled C++ name to the name in the source, without the parameters: "_Z5naivePf"
// becomes "naive". Other names are returned unchanged.
[[nodiscard]] std::string readable(const std::string& name);

}  // namespace coalesce::sim
