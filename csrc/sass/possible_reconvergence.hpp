// Finds instructions that diverged lanes may execute together by chance.
//
// METHOD
// Diverged lanes reconverge at the barrier that was set before the branch (BSSY, BSYNC). But some
// branches have no barrier. With others, both sides of the branch execute the same instructions
// before they reach the barrier. In both cases, the sides execute such instructions together if
// they happen to arrive at the same time, and separately otherwise. How often such an instruction
// is executed therefore differs from run to run.
//
// To find these instructions, we start at both sides of a branch and follow the code. The search
// stops at barriers that were set before the branch. It does not stop at barriers that are set
// after the branch. The instructions that are found from both sides are the result.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "sass/listing.hpp"

namespace coalesce::sass {

// Returns the instructions that diverged lanes may execute together. The key is the number of the
// instruction at which the lanes diverge. For a conditional branch, the entry lists the
// instructions that both sides reach. For a call through a pointer, the entry lists the
// instructions that the code reaches from the call on. Only instructions for which `counts` is true
// are listed.
[[nodiscard]] std::map<uint32_t, std::vector<uint32_t>> possible_reconvergence(
    const Code& code, const std::function<bool(uint32_t)>& counts);

}  // namespace coalesce::sass
