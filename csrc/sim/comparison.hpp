// Reads the names of PTX's comparisons.
#pragma once

#include <cstdint>

#include "sim/modifiers.hpp"

namespace coalesce::sim {

// Takes the modifier that names a comparison, such as eq or ltu, from the list. Returns the
// relations for which the comparison is true (payload.hpp). Returns 0 if there is no such modifier.
[[nodiscard]] uint8_t take_comparison(Modifiers& modifiers);

}  // namespace coalesce::sim
