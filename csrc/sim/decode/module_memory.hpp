// Chooses addresses for the variables of a module, from a given address on. With different start
// addresses, several modules can be in the same memory without overlapping.
#pragma once

#include <memory>

#include "sim/program/program.hpp"

namespace coalesce::sim {

// Returns the variables of a parsed module with their addresses and initial values. The first
// variable is at the address `base`.
[[nodiscard]] std::shared_ptr<ModuleMemory> lay_out_memory_at(const ptx::Module& module,
                                                              uint64_t base);

}  // namespace coalesce::sim
