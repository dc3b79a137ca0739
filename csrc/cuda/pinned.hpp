// Host memory that GPUs read and write directly.
//
// The memory is the process's own, and the driver is told to keep its pages in place. So the memory
// stays valid when a kernel fault ends the GPU's context; copies are then merely slower.
#pragma once

#include <cstddef>

#include "cuda/device.hpp"

namespace coalesce::cuda {

class PinnedMemory {
  public:
    // `bytes` of uninitialised memory, at least 1, pinned for every GPU of the process. Throws
    // LaunchError where the system or the driver refuses so much.
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
