// Which parameter or variable the address of a memory instruction is computed from.
//
// METHOD
// Forward dataflow that ignores the order of instructions. A register gets an origin when a
// parameter is loaded or a variable's address is taken. Moves, sums and other operations on
// pointers pass it on. Products do not, so an index that is scaled by a parameter has no origin. An
// address with one origin gets it as its name. If several parameters are possible, the address gets
// a name only if exactly one of them is known to be a pointer: it is marked .ptr, or converted from
// the global space (cvta).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::ptx {

struct Origin {
    int32_t parameter = -1;  // index in Function::parameters
    std::string variable;    // the PTX name of a variable in global, shared or constant memory
    bool operator==(const Origin&) const = default;
};

// One entry for each instruction of the body. It is empty if the instruction accesses no memory, or
// if the origin is not known.
[[nodiscard]] std::vector<Origin> address_origins(const Module& module, const Function& function);

}  // namespace coalesce::ptx
