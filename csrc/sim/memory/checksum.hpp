// The checksum that marks objects which the simulator wrote into the memory of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coalesce::sim {

// Returns the FNV-1a checksum of `bytes` bytes, word by word. `bytes` must be a multiple of 8.
inline uint64_t fnv1a(const std::byte* data, size_t bytes) {
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        std::memcpy(&word, data + at, sizeof word);
        sum = (sum ^ word) * 0x100000001b3;
    }
    return sum;
}

}  // namespace coalesce::sim
