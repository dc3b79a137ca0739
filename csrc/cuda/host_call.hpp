// Executes an operation on host arrays: copies the arrays to the GPU, launches kernels, and copies
// the result back. A HostCall is prepared once and executed often.
//
// All device memory of a call is one piece, called the workspace. It is taken from the pool during
// the call. The place of an array (or of scratch memory) is its offset in the workspace, in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/launch.hpp"
#include "cuda/tensor_map.hpp"

namespace coalesce::cuda {

class HostCall {
  public:
    // The value of a kernel's parameter: bytes, the address of a place in the workspace, or a
    // tensor map of a matrix at such a place.
    struct Argument {
        std::string bytes;
        std::optional<size_t> place;
        std::optional<TiledMatrix> map;  // its address is replaced by that of `place`
        std::string element;             // the memory of the map's `element`
    };

    // `what` names the memory in messages. If `overlap` is true, copies overlap with launches.
    HostCall(Device& device, size_t workspace, std::string what, bool overlap)
        : device_(device), workspace_(workspace), what_(std::move(what)), overlap_(overlap) {}

    // These functions append a step; see Step. A copy transfers `bytes` bytes between a host array
    // and the workspace. `array` is the number of the array. `at` is an offset in bytes in the
    // array, and `place` is an offset in the workspace.
    void to_device(size_t array, size_t at, size_t place, size_t bytes);
    void to_host(size_t array, size_t at, size_t place, size_t bytes);
    void launch(std::shared_ptr<Function> function, const Geometry& geometry,
                std::vector<Argument> arguments);

    // Returns the size that this array must have at least.
    [[nodiscard]] size_t bytes_of(size_t array) const;

    // Executes the steps, and waits for the results. Throws LaunchError.
    void run(std::span<char* const> arrays, const Waiting& waiting);

  private:
    struct Planned {
        Step::Kind kind;
        size_t array = 0, at = 0, place = 0, bytes = 0;
        std::shared_ptr<Function> function;
        Geometry geometry;
        std::vector<Argument> arguments;
    };

    Device& device_;
    size_t workspace_;
    std::string what_;
    bool overlap_;
    std::vector<Planned> steps_;
};

}  // namespace coalesce::cuda
