// Lays out the memory of a module at a given address. Several modules can then share one memory.
#pragma once

#include <memory>

#include "sim/program.hpp"

namespace coalesce::sim {

// Lays out the memory of a parsed module. Its first variable is at `base`.
[[nodiscard]] std::shared_ptr<ModuleMemory> lay_out_memory_at(const ptx::Module& module,
                                                              uint64_t base);

}  // namespace coalesce::sim
