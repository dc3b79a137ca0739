// The Locator: a number that says where an operand of an operation is stored.
#pragma once

#include <cstdint>

namespace coalesce::sim {

// The place of an operand, as a number. A register at the byte offset n in the frame has the number
// 2 * n. A constant at the byte offset n in the table of constants (Program::constants) has the
// number 2 * n + 1.
using Locator = uint32_t;
inline constexpr Locator no_operand = UINT32_MAX;

}  // namespace coalesce::sim
