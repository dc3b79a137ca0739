// Finds the parameter or variable from which the address of a memory instruction is computed. This
// is the origin of the address. Messages use its name.
//
// METHOD
// A register gets an origin when an instruction loads a parameter or takes the address of a
// variable. Moves, sums and other operations on pointers pass the origin on to their result.
// Products do not, so an index that is multiplied by a parameter has no origin. The order of the
// instructions is ignored.
//
// An address may have several possible origins. Then parameters that are not known to be pointers
// are left out. A parameter is known to be a pointer if it is marked .ptr, or if a cvta.to
// instruction, such as cvta.to.global, converts it. If more than one origin remains, or none, the
// address has no name in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ptx/module.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

// The parameter or variable from which an address is computed. If it is not known, `parameter` is
// -1 and `variable` is empty.
struct Origin {
    int32_t parameter = -1;  // an index into Function::parameters
    std::string variable;    // the name in PTX of a variable in global, shared or constant memory
    bool operator==(const Origin&) const = default;
};

// Returns one entry for each instruction of the body. An entry is empty if its instruction accesses
// no memory, or if the origin is not known. `traits` are those of the instructions.
[[nodiscard]] std::vector<Origin> address_origins(const ptx::Module& module,
                                                  const ptx::Function& function,
                                                  std::span<const Traits> traits);

}  // namespace coalesce::sim
