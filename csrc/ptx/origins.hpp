// Where the address of a memory instruction comes from: a parameter, or a variable.
//
// METHOD
// Forward dataflow without regard to the order of instructions. Origins enter registers where a
// parameter is loaded or a variable's address taken, and spread through moves, sums and what else
// computes an address from a pointer; a product carries none, so that an index scaled by a
// parameter does not count. An address of one origin is named by it. One that could be of several
// parameters is named only if exactly one of them is known to be a pointer, because it is marked as
// one (.ptr) or is made one of the global space (cvta).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::ptx {

struct Origin {
    int32_t parameter = -1;  // index in Function::parameters
    std::string variable;    // its name in PTX, of a variable in global, shared or constant memory
    bool operator==(const Origin&) const = default;
};

// Of each instruction of the body; empty where it accesses no memory or it cannot be told.
[[nodiscard]] std::vector<Origin> address_origins(const Module& module, const Function& function);

}  // namespace coalesce::ptx
