// Executes an operation as a list of planned steps: the steps are planned once, and executed at
// each call.
//
// The arrays of a call are in host memory or in GPU memory. For host arrays, the steps are copies
// to the GPU, launches of kernels, and a copy of the result back. For GPU arrays, all steps are
// launches.
//
// A call also needs device memory for copies of the host arrays and for intermediate results. This
// memory is one allocation, called the workspace. It is taken from the pool at the start of the
// call and returned to the pool at the end. A call that needs none takes none.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/launch/launch.hpp"
#include "cuda/tensor_map.hpp"

namespace coalesce::cuda {

class PlannedCall {
  public:
    // A place in device memory: `offset` bytes behind the begin of a GPU array or of the workspace.
    struct Place {
        size_t array;  // the number of the array, or in_workspace
        size_t offset;
    };
    static constexpr size_t in_workspace = ~size_t{0};
    static constexpr size_t most_arguments = 24;  // of a launch

    // The value of a kernel's parameter: bytes, the address of a place, or a tensor map of a matrix
    // at a place.
    struct Argument {
        std::string bytes;
        std::optional<Place> place;
        std::optional<TiledMatrix> map;  // its address is replaced by that of `place`
        std::string element;             // the memory of the map's `element`
    };

    // What a call may do beyond executing its steps one after another:
    // - overlap: copies overlap with launches.
    // - pinned_result: if the arrays are small, launches write the result to pinned memory of the
    //   host, and not to the workspace. This saves the copy to the host. A call with this option
    //   must have exactly one such copy.
    struct Options {
        bool overlap = false, pinned_result = false;
    };

    // `what` names the memory in messages.
    PlannedCall(Device& device, size_t workspace, std::string what, Options options)
        : device_(device), workspace_(workspace), what_(std::move(what)), options_(options) {}

    // These functions append a step; see Step. A copy transfers `bytes` bytes between a host array
    // and the workspace. `array` is the number of the array. `at` is an offset in bytes in the
    // array, and `place` is an offset in the workspace. If `row` is not 0, the bytes in the host
    // array lie in rows of `row` bytes, at most Transfers::slot_bytes, that begin every `pitch`
    // bytes.
    void to_device(size_t array, size_t at, size_t place, size_t bytes, size_t row, size_t pitch);
    void to_host(size_t array, size_t at, size_t place, size_t bytes);
    void launch(std::shared_ptr<Function> function, const Launch& how,
                std::vector<Argument> arguments);

    // Returns the size that this host array must have at least.
    [[nodiscard]] size_t bytes_of(size_t array) const;

    // Executes the steps with host arrays, and waits for the results. Throws LaunchError.
    void run(std::span<char* const> arrays, const Waiting& waiting);

    // Enqueues the launches with GPU arrays on a stream, and does not wait. Throws LaunchError.
    void enqueue(std::span<const Address> arrays, Stream stream);

    [[nodiscard]] Device& device() const { return device_; }

  private:
    struct Planned {
        Step::Kind kind;
        size_t array = 0, at = 0, place = 0, bytes = 0, row = 0, pitch = 0;
        std::shared_ptr<Function> function;
        Launch how;
        std::vector<Argument> arguments;
    };

    Device& device_;
    size_t workspace_;
    std::string what_;
    Options options_;
    std::vector<Planned> steps_;
};

}  // namespace coalesce::cuda
