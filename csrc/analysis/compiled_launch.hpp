// Runs a plain launch with machine code of the host.
#pragma once

#include "analysis/launch.hpp"
#include "sim/jit/compiled.hpp"

namespace coalesce::analysis {

// Like launch() for a request that asks for no results. The blocks use the code of the kernel as
// soon as it is compiled.
[[nodiscard]] Result launch_compiled(const sim::Program& program, const LaunchRequest& request,
                                     sim::AddressSpace& memory, const sim::CompiledKernel& kernel);

}  // namespace coalesce::analysis
