// Finds instructions that diverged lanes may execute together by chance.
//
// METHOD
// Diverged lanes reconverge at the barrier that was set before the branch (BSSY, BSYNC). Both sides
// may execute the same instructions before this barrier, or there may be no barrier. Then each side
// executes these instructions separately, or both sides execute them together if they happen to
// arrive at the same time. How often such an instruction is executed therefore differs from run to
// run.
//
// To find these instructions, we follow the code from each side of a branch up to the barriers that
// were set before the branch. Barriers that are set on the way do not stop the search. Instructions
// that are found from both sides are returned.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "sass/listing.hpp"

namespace coalesce::sass {

// Returns one entry for each conditional branch. It lists the instructions that both sides reach
// and for which `counts` is true.
[[nodiscard]] std::map<uint32_t, std::vector<uint32_t>> meetings(
    const Code& code, const std::function<bool(uint32_t)>& counts);

}  // namespace coalesce::sass
