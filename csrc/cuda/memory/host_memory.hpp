// Ordinary host memory for large results. Its pages stay allocated for the next result.
//
// The system allocates the pages of new memory one by one when they are first written, which takes
// longer than a copy from the GPU. Therefore freed memory is kept, up to a limit. New memory
// consists of huge pages if the system has them.
#pragma once

#include <cstddef>

namespace coalesce::cuda {

class HostMemory {
  public:
    // The largest number of bytes that are kept, for all sizes together.
    static constexpr size_t max_kept = size_t{1} << 30;

    // Allocates uninitialized memory. Throws LaunchError if the system does not have that much.
    explicit HostMemory(size_t bytes);
    ~HostMemory();
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] size_t size() const { return bytes_; }

    // Frees the kept memory. Returns its size in bytes.
    static size_t trim();

  private:
    size_t bytes_;
    std::byte* data_;
};

}  // namespace coalesce::cuda
