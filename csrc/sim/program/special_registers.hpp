// The simulated special registers of PTX, such as %tid.x. To add one, add a row to
// special_registers.inc.
#pragma once

#include <cstdint>
#include <string_view>

namespace coalesce::sim {

enum class Special : uint8_t {
    unknown,  // a register that is not simulated
#define COALESCE_SPECIAL(name, spelling, value) name,
#include "sim/program/special_registers.inc"
#undef COALESCE_SPECIAL
};

struct Warp;

// Returns the value of a special register that is the same in all lanes of a warp. Registers that
// differ between the lanes, such as tid_x and laneid, are read in handlers/move.cpp.
[[nodiscard]] uint64_t uniform_value(const Warp& warp, Special which);

// Returns the register of that name, or `unknown` if the register is not simulated.
[[nodiscard]] Special special_named(std::string_view name);

}  // namespace coalesce::sim
