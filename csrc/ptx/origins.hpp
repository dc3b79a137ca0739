// Finds the parameter or variable from which the address of a memory instruction is computed.
//
// METHOD
// Forward dataflow that ignores the order of instructions. A register gets an origin when a
// parameter is loaded or a variable's address is taken. Moves, sums and other operations on
// pointers pass the origin on. Products do not, so an index that is scaled by a parameter has no
// origin. If an address has one origin, messages name the address after it. If several parameters
// are possible, the address gets a name only if exactly one of them is known to be a pointer. Such
// a parameter is marked .ptr, or is converted from the global space (cvta).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::ptx {

struct Origin {
    int32_t parameter = -1;  // an index into Function::parameters
    std::string variable;    // the name in PTX of a variable in global, shared or constant memory
    bool operator==(const Origin&) const = default;
};

// Returns one entry for each instruction of the body. It is empty if the instruction accesses no
// memory, or if the origin is not known.
[[nodiscard]] std::vector<Origin> address_origins(const Module& module, const Function& function);

}  // namespace coalesce::ptx
