// Launches a kernel once, or times it.
//
// Call admit() first, once for each kernel and launch. It finds out whether the launch is
// possible, and its message says what is too large. launch() itself reports only the driver's
// error.
#pragma once

#include <functional>

#include "cuda/launch/statistics.hpp"
#include "cuda/module.hpp"
#include "kernel_launch.hpp"

namespace coalesce::cuda {

// Checks a launch: throws LaunchError if the kernel cannot run with this grid and block on its GPU.
// There are three possible reasons. A block has more threads than the kernel's registers allow. A
// block needs too much shared memory. Or a cooperative launch has more blocks than the GPU holds at
// once. Enables large dynamic shared memory if necessary.
void admit(Function& function, const Launch& how);

// Enqueues one launch. `arguments` has the address of each parameter's value. The function does not
// wait for the kernel, so only a later call reports a fault. Throws LaunchError.
void launch(Function& function, const Launch& how, void** arguments, Stream stream);

// Times the kernel with CUDA events: one untimed launch, then `runs` timed ones. If `runs` is 0,
// enough_runs() decides when to stop. The function calls `between` regularly (to check for Ctrl-C).
// `between` may throw.
[[nodiscard]] Timing time(Function& function, const Launch& how, void** arguments, Stream stream,
                          int runs, const std::function<void()>& between);

}  // namespace coalesce::cuda
