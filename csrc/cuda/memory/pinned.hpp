// Pinned host memory, which GPUs can read and write directly.
//
// The process allocates the memory and registers it with the driver, which keeps its pages in
// place. So the memory stays valid if a kernel fault ends the GPU's context; copies only become
// slower.
#pragma once

#include <cstddef>

#include "cuda/device.hpp"

namespace coalesce::cuda {

class PinnedMemory {
  public:
    // Allocates `bytes` of uninitialized memory, at least 1, and pins it for all GPUs of the
    // process. Throws LaunchError if the system or the driver cannot provide so much.
    PinnedMemory(Device& device, size_t bytes);
    ~PinnedMemory();
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] size_t size() const { return bytes_; }

  private:
    Device& device_;
    size_t bytes_;
    std::byte* data_ = nullptr;
};

}  // namespace coalesce::cuda
