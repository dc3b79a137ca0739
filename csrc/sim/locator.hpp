// Says where an operand of an operation is.
#pragma once

#include <cstdint>

namespace coalesce::sim {

// A register slot: byte offset << 1. The lowest bit is set for a constant.
using Locator = uint32_t;
inline constexpr Locator no_operand = UINT32_MAX;

}  // namespace coalesce::sim
