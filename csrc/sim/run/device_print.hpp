// The output of kernels: printf and assert.
//
// When a kernel calls vprintf or __assertfail (CallSite::Builtin), the scheduler calls these
// functions. They read the arguments from the simulated memory.
#pragma once

#include <cstdint>
#include <string>

#include "sim/warp/warp.hpp"

namespace coalesce::sim {

// `max_printed` limits the text of one launch, in bytes. `max_printed_by_a_call` limits one call of
// printf. Without the second limit, one call with a format such as "%999999999d" could fill the
// memory.
inline constexpr uint64_t max_printed = 16 << 20;
inline constexpr uint64_t max_printed_by_a_call = 1 << 20;

// Collects the text that a launch prints, up to `max_printed` bytes.
class Printed {
  public:
    void add(const std::string& text);
    // Returns the text printed since the last call of take(). If the limit was exceeded, a note at
    // the end says so, once.
    std::string take();

  private:
    std::string text_;
    uint64_t kept_ = 0;
    bool cut_ = false;            // text was left out
    bool note_returned_ = false;  // take() has returned the note
};

// Executes printf for one lane: formats like the C library and passes the text to launch.print.
// Returns what printf returns in device code: the number of arguments, or -1 if the format is
// invalid.
int32_t device_printf(const Warp& warp, int lane, uint64_t format, uint64_t arguments);

// Throws the LaunchError of a failed assert. Its message has the expression, the function, the
// line, and the first thread in which the assert failed. `expression` and `function` are addresses
// of strings in simulated memory.
[[noreturn]] void throw_assertion(const Warp& warp, const Op& op, uint64_t expression,
                                  uint64_t function);

}  // namespace coalesce::sim
