// What kernels say: printf and assert.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sim/warp.hpp"

namespace coalesce::sim {

// What a kernel may print in one launch, bytes; and in one call of printf, so that a format such as
// "%999999999d" fills no memory.
inline constexpr uint64_t most_printed = 16 << 20;
inline constexpr uint64_t most_printed_by_a_call = 1 << 20;

// Text that a launch printed, up to `most_printed` bytes of it.
class Printed {
  public:
    void add(const std::string& text);
    // Returns what was added since the last call; once more was left out, says so at its end.
    std::string take();

  private:
    std::string text_;
    uint64_t kept_ = 0;
    bool cut_ = false;
    bool told_ = false;
};

// printf of one lane: formats like the C library and hands the text to launch.print. Returns the
// number of arguments, as the device function does; -1 for a format that is not readable.
int32_t device_printf(const Warp& warp, int lane, uint64_t format, uint64_t arguments);

// Throws the LaunchError of a failed assert. Its message has the expression, the function, the line
// and the first thread. `expression` and `function` are addresses of strings.
[[noreturn]] void throw_assertion(const Warp& warp, const Op& op, uint64_t expression,
                                  uint64_t function);

}  // namespace coalesce::sim
