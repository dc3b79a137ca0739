// Where an operand of an operation lies.
#pragma once

#include <cstdint>

namespace coalesce::sim {

// A register slot: byte offset << 1, lowest bit set for a constant.
using Locator = uint32_t;
inline constexpr Locator no_operand = UINT32_MAX;

}  // namespace coalesce::sim
