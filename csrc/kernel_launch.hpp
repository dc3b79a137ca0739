// A launch of a kernel, as CUDA describes it: the one description that the catalogue makes, and
// that the driver, the simulator and the CUDA runtime take.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coalesce {

// The extents of a grid, a block or a cluster; or the indices of a block or a thread.
struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
    [[nodiscard]] uint64_t count() const { return uint64_t{x} * y * z; }
    auto operator<=>(const Dim3&) const = default;
};

struct Launch {
    Dim3 grid{};                // in blocks
    Dim3 block{};               // in threads
    uint32_t shared_bytes = 0;  // dynamic shared memory of a block
    // All blocks are on the GPU at once and may wait for each other, so grid.sync() works.
    bool cooperative = false;
    // The extents of a cluster in blocks. The grid must be a multiple of it.
    Dim3 cluster{};
    // The arguments, in the layout of the kernel's .param space. Empty if they are passed in
    // another form, as to cuda::launch().
    std::vector<std::byte> parameters{};
};

}  // namespace coalesce
