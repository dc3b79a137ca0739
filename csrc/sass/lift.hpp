// Translates a kernel's machine code into a program of the simulator.
//
// The simulator can execute the compiler's PTX or the assembler's machine code. The machine code
// has the merged loads, predicates and unrolled loops that the hardware executes. Therefore its
// counts are those of the hardware. The machine code has no names and no source lines, but the PTX
// has both. Each machine instruction has the number of the PTX line from which it was assembled. It
// gets its names and its source line from that PTX line.
#pragma once

#include <memory>

#include "ptx/module.hpp"
#include "sass/listing.hpp"
#include "sim/program/program.hpp"

namespace coalesce::sass {

// Translates a kernel's machine code. `module` is the PTX from which it was assembled. `memory`
// holds the variables of the module. Throws UnsupportedInstruction if an instruction cannot be
// executed.
[[nodiscard]] sim::Program lift(const Listing& listing, const ptx::Module& module,
                                const ptx::Function& entry,
                                std::shared_ptr<sim::ModuleMemory> memory,
                                const sim::Engine& engine);

}  // namespace coalesce::sass
