// Device arrays: arrays in simulated device memory that exist for longer than one launch.
//
// METHOD
// If a launch gets an array of the host (a NumPy array), the array has a device address during this
// launch only. A device array is allocated once, as with cudaMalloc, and keeps its address while it
// lives. So a pointer that a kernel stores is valid in the next kernel, too. The address and
// description of freed arrays are kept for messages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/memory/address_space.hpp"

namespace coalesce::sim {

inline constexpr uint64_t device_array_base = 0x7000'0000'0000;
inline constexpr uint64_t device_array_end = grid_workspace;

// A device array. The destructor frees its memory.
class DeviceArray {
  public:
    // Makes an array of `shape`. Messages describe its elements by the name `type` and the size
    // `item_bytes`. The array is filled with 0xFF bytes, so a kernel that reads before it writes
    // gets NaNs. Throws LaunchError if this machine does not have enough memory. If `address` is 0,
    // the array gets the next free address. If `host` is not null, the array uses this memory of
    // another owner, without changing it.
    DeviceArray(std::vector<int64_t> shape, uint32_t item_bytes, std::string type,
                uint64_t address = 0, std::byte* host = nullptr);
    ~DeviceArray();
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    // Launches map this buffer into their address space.
    [[nodiscard]] const Buffer& buffer() const { return buffer_; }

  private:
    Buffer buffer_;
    bool borrowed_;
};

// Allocates an array and adds it to live_arrays().
[[nodiscard]] std::shared_ptr<DeviceArray> allocate_array(std::vector<int64_t> shape,
                                                          uint32_t item_bytes, std::string type,
                                                          uint64_t address = 0,
                                                          std::byte* host = nullptr);

// Returns all live arrays, sorted by address. The result keeps them alive.
[[nodiscard]] std::vector<std::shared_ptr<DeviceArray>> live_arrays();

// Returns the description of the freed array that contained this address, or nothing. Only the ten
// thousand arrays that were freed last are known.
[[nodiscard]] std::optional<Buffer> freed_at(uint64_t address);

}  // namespace coalesce::sim
