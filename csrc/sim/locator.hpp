// The Locator: a number that says where an operand of an operation is stored.
#pragma once

#include <cstdint>

namespace coalesce::sim {

// The place of an operand. It is 2 * offset for the register at this byte offset in the frame, and
// 2 * offset + 1 for the constant at this byte offset in the table of constants
// (Program::constants).
using Locator = uint32_t;
inline constexpr Locator no_operand = UINT32_MAX;

}  // namespace coalesce::sim
