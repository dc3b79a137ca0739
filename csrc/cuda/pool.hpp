// A caching allocator of device memory.
//
// cuMemAlloc and cuMemFree cost tens of microseconds and cuMemFree waits for the GPU, so memory
// that is given back is kept and handed out again. Requests are rounded up to size classes, eight
// to each doubling (at most an eighth is wasted), and a block is reused only for its own class.
//
// Memory is handed out again while kernels that used it may still run. That is safe as long as all
// work is ordered with the legacy default stream; see Memory in device.hpp for work that is not.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/driver.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

class Pool {
  public:
    // Where memory comes from: the driver, or a test's own.
    struct Source {
        std::function<Result(Address*, size_t)> allocate;
        std::function<void(Address)> release;
    };

    struct Block {
        Address address = 0;
        size_t bytes = 0;  // its size class, at least what was asked for
    };

    struct Usage {
        size_t in_use = 0;  // bytes handed out
        size_t cached = 0;  // bytes kept for reuse
    };

    explicit Pool(Source source) : source_(std::move(source)) {}

    // Fills `block` with at least `bytes` (also for 0). Out of memory: releases everything cached,
    // tries once more, and then returns the driver's result.
    [[nodiscard]] Result take(size_t bytes, Block& block);
    void give_back(const Block& block);

    // Releases everything cached; returns how many bytes that were.
    size_t trim();

    // Drops every record without a call to the driver: the context that owned the memory is gone.
    void forget();

    [[nodiscard]] Usage usage() const;
    [[nodiscard]] static size_t size_class(size_t bytes);

  private:
    size_t trim_locked();

    Source source_;
    mutable ForkSafe<std::mutex> mutex_;
    std::map<size_t, std::vector<Address>> free_;  // by size class
    Usage usage_;
};

}  // namespace coalesce::cuda
