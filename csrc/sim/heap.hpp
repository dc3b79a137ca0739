// The arrays that live in simulated device memory from one launch to the next.
//
// METHOD
// What a launch is given from the host is placed at addresses of that launch only. A device array
// is allocated once, as by cudaMalloc: its address stays while it lives, so that a pointer a kernel
// stores means the same to the next kernel, and is never given out again, so that a pointer kept
// for longer than the array is found out. Freed arrays leave their address and a description for
// the message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/address_space.hpp"

namespace coalesce::sim {

inline constexpr uint64_t heap_base = 0x7000'0000'0000;

// An allocation, freed at the end of its life.
class HeapArray {
  public:
    // An array of `shape`, whose items of `item_bytes` messages call `type`. It holds 0xFF bytes,
    // NaN to a kernel that reads before it writes. Throws LaunchError where this machine has not
    // that much memory.
    // It is at `address`, or at the next free address if that is 0.
    HeapArray(std::vector<int64_t> shape, uint32_t item_bytes, std::string type,
              uint64_t address = 0);
    ~HeapArray();
    HeapArray(const HeapArray&) = delete;
    HeapArray& operator=(const HeapArray&) = delete;

    // As a launch maps it.
    [[nodiscard]] const Buffer& buffer() const { return buffer_; }

  private:
    Buffer buffer_;
};

// A new array that live_arrays() knows.
[[nodiscard]] std::shared_ptr<HeapArray> allocate_array(std::vector<int64_t> shape,
                                                        uint32_t item_bytes, std::string type,
                                                        uint64_t address = 0);

// Every array that lives now, by address; they live on at least as long as the result.
[[nodiscard]] std::vector<std::shared_ptr<HeapArray>> live_arrays();

// The freed array that an address was in, its memory gone; the latest ten thousand are remembered.
[[nodiscard]] std::optional<Buffer> freed_at(uint64_t address);

}  // namespace coalesce::sim
