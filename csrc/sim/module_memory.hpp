// Module memory at a place of the caller's choice: where several modules share one memory.
#pragma once

#include <memory>

#include "sim/program.hpp"

namespace coalesce::sim {

// Module memory of a parsed module whose first variable is at `base`.
[[nodiscard]] std::shared_ptr<ModuleMemory> lay_out_memory_at(const ptx::Module& module,
                                                              uint64_t base);

}  // namespace coalesce::sim
