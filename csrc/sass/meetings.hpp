// Where lanes that a branch has parted may meet by chance.
//
// METHOD
// Parted lanes meet at the barrier that was set around the branch (BSSY, BSYNC). What both sides
// execute before it, or where there is none, each side executes by itself, or both together if the
// hardware happens to find them at one place: how often such an instruction is executed differs
// from run to run. So from each side of a branch we follow the code to the barriers that were set
// before it; what is found on both sides is such an instruction. Barriers set on the way are
// passed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "sass/listing.hpp"

namespace coalesce::sass {

// By conditional branch, the instructions with `counts` that both its sides reach so.
[[nodiscard]] std::map<uint32_t, std::vector<uint32_t>> meetings(
    const Code& code, const std::function<bool(uint32_t)>& counts);

}  // namespace coalesce::sass
