// Finds the loads whose address is computed from the address of one of the kernel's parameters.
//
// METHOD
// Each register gets a value of a small lattice: not known yet, an index (an integer that is no
// address), the address of a parameter plus an index, or anything else. The instructions are
// interpreted with these values until nothing changes (abstract interpretation). Unlike the origins
// in origins.hpp, a result is certain: a value that is loaded from memory or returned by a function
// may be any address, so it is "anything else".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ptx/module.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

// Returns one number for each instruction of the body of a kernel. For a load with such an address
// in a register, it is an index into Function::parameters. For all other instructions, it is -1.
[[nodiscard]] std::vector<int32_t> parameter_addresses(const ptx::Function& kernel,
                                                       std::span<const Traits> traits);

}  // namespace coalesce::sim
