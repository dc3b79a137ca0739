// Reads the modifiers of PTX that select a comparison, such as .eq (equal) or .ltu (less than, or
// unordered).
#pragma once

#include <cstdint>

#include "sim/ptx_analysis/modifiers.hpp"

namespace coalesce::sim {

// Finds the modifier that selects a comparison, such as eq or ltu, and removes it from the list.
// Returns the set of relations for which the comparison is true, as bits of `relation`
// (payload.hpp): for ltu, less | unordered. Returns 0 if there is no such modifier.
[[nodiscard]] uint8_t take_comparison(Modifiers& modifiers);

}  // namespace coalesce::sim
