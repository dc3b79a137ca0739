// Reads the names of PTX's comparisons.
#pragma once

#include <cstdint>

#include "sim/modifiers.hpp"

namespace coalesce::sim {

// Consumes the modifier that names a comparison (eq, ltu). Returns the relations for which the
// comparison is true (payload.hpp), or 0 if there is no such modifier.
[[nodiscard]] uint8_t take_comparison(Modifiers& modifiers);

}  // namespace coalesce::sim
