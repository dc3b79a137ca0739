#include "sim/program/launch.hpp"

#include "errors.hpp"

namespace coalesce::sim {

namespace {

void check_range(const std::string& kernel, const char* name, uint64_t value, uint64_t most) {
    if (value >= 1 && value <= most) return;
    throw LaunchError(kernel + ": " + name + " is " + std::to_string(value) +
                      "; it must be from 1 to " + std::to_string(most));
}

}  // namespace

void check(const GridRun& launch, const Limits& limits, uint64_t static_shared_bytes,
           const std::string& kernel) {
    check_range(kernel, "grid.x", launch.grid.x, limits.grid_x);
    check_range(kernel, "grid.y", launch.grid.y, limits.grid_yz);
    check_range(kernel, "grid.z", launch.grid.z, limits.grid_yz);
    check_range(kernel, "block.x", launch.block.x, limits.block_xy);
    check_range(kernel, "block.y", launch.block.y, limits.block_xy);
    check_range(kernel, "block.z", launch.block.z, limits.block_z);
    check_range(kernel, "the number of threads in a block", launch.block.count(),
                limits.block_threads);
    if (launch.blocks) {
        const uint64_t last = launch.grid.count() - 1;
        for (const uint64_t number : *launch.blocks) {
            if (number > last)
                throw LaunchError(kernel + ": there is no block " + std::to_string(number) +
                                  (last == 0 ? "; the grid's only block has the number "
                                             : "; the grid's blocks have the numbers 0 to ") +
                                  std::to_string(last));
        }
    }
    const uint64_t shared = static_shared_bytes + launch.shared_bytes;
    if (shared > limits.shared_bytes) {
        throw LaunchError(kernel + ": a block needs " + std::to_string(shared) +
                          " bytes of shared memory (" + std::to_string(static_shared_bytes) +
                          " static, " + std::to_string(launch.shared_bytes) +
                          " dynamic); the GPU has " + std::to_string(limits.shared_bytes) +
                          " bytes for a block");
    }
}

}  // namespace coalesce::sim
