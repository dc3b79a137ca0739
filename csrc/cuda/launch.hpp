// Launching a kernel once, and timing it.
#pragma once

#include <array>
#include <functional>

#include "cuda/module.hpp"
#include "cuda/statistics.hpp"

namespace coalesce::cuda {

struct Geometry {
    std::array<unsigned, 3> grid{1, 1, 1};   // blocks
    std::array<unsigned, 3> block{1, 1, 1};  // threads
    unsigned dynamic_shared = 0;             // bytes
    bool cooperative = false;                // all blocks at once; they may wait for each other
};

// Throws LaunchError where this kernel cannot run with this geometry on its GPU: more threads than
// its registers allow, more shared memory than there is, and of a cooperative launch more blocks
// than the GPU holds. Opts in to large dynamic shared memory.
void admit(Function& function, const Geometry& geometry);

// Enqueues one launch; `arguments` are addresses of the values, one a parameter. Does not wait, so
// a fault shows in a later call. Throws LaunchError.
void launch(Function& function, const Geometry& geometry, void** arguments, Stream stream);

// Times the kernel with CUDA events: one untimed launch, then `runs` timed ones, or where `runs` is
// 0 as many as enough_runs() wants. `between` is called now and then (for Ctrl-C) and may throw.
[[nodiscard]] Timing time(Function& function, const Geometry& geometry, void** arguments,
                          Stream stream, int runs, const std::function<void()>& between);

}  // namespace coalesce::cuda
