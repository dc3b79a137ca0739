// From a kernel's machine code to a program of the simulator.
//
// The simulator runs what the compiler's PTX says, or what the assembler made of it. The second has
// the merged loads, predicates and unrolled loops of the hardware, and so its counts; the first has
// names and source lines. Each machine instruction names a line of the PTX, which brings them here.
#pragma once

#include <memory>

#include "ptx/module.hpp"
#include "sass/listing.hpp"
#include "sim/program.hpp"

namespace coalesce::sass {

// The program of a kernel's machine code. `module` is the PTX it was assembled from, `memory` holds
// its variables. Throws UnsupportedInstruction where something in the code cannot be executed.
[[nodiscard]] sim::Program lift(const Listing& listing, const ptx::Module& module,
                                const ptx::Function& entry,
                                std::shared_ptr<sim::ModuleMemory> memory,
                                const sim::Engine& engine);

}  // namespace coalesce::sass
