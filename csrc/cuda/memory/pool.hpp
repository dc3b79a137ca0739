// A caching allocator for device memory.
//
// cuMemAlloc and cuMemFree take tens of microseconds, and cuMemFree waits for the GPU. Therefore
// freed memory is kept and reused. The requested sizes are rounded up to size classes. There are
// eight classes between a size and its double, so at most an eighth of the memory is wasted. Freed
// memory is reused only for requests of the same class.
//
// Memory may be reused while kernels that used it still run. This is safe if all work is ordered
// with the legacy default stream. For other work, see Memory in device.hpp.
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
    // The functions that provide the memory. They call the driver, or belong to a test.
    struct Source {
        std::function<Result(Address*, size_t)> allocate;
        std::function<void(Address)> release;
    };

    struct Block {
        Address address = 0;
        size_t bytes = 0;  // the size class, which is at least the requested size
    };

    struct Usage {
        size_t in_use = 0;  // bytes in use by callers
        size_t cached = 0;  // bytes kept for reuse
    };

    explicit Pool(Source source) : source_(std::move(source)) {}

    // Sets `block` to at least `bytes` bytes, also if `bytes` is 0. If memory is exhausted, the
    // function releases all cached blocks and tries once more. Returns the driver's result.
    [[nodiscard]] Result take(size_t bytes, Block& block);
    void give_back(const Block& block);

    // Releases all cached blocks. Returns their size in bytes.
    size_t trim();

    // Removes all blocks of memory from the pool without freeing them. Call this when the context
    // of the memory has ended, because the memory is gone then.
    void forget();

    [[nodiscard]] Usage usage() const;
    [[nodiscard]] static size_t size_class(size_t bytes);

  private:
    size_t trim_locked();

    Source source_;
    mutable ForkSafe<std::mutex> mutex_;
    std::map<size_t, std::vector<Address>> free_;  // free blocks of each size class
    Usage usage_;
};

}  // namespace coalesce::cuda
