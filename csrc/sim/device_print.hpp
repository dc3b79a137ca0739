// What kernels say: printf and assert.
#pragma once

#include <cstdint>

#include "sim/warp.hpp"

namespace coalesce::sim {

// printf of one lane: formats like the C library and hands the text to launch.print. Returns the
// number of arguments, as the device function does; -1 for a format that is not readable.
int32_t device_printf(const Warp& warp, int lane, uint64_t format, uint64_t arguments);

// A failed assert: LaunchError with the expression, the line and the first thread.
[[noreturn]] void throw_assertion(const Warp& warp, const Op& op, const CallSite& site);

}  // namespace coalesce::sim
