// Red zones: gaps between registers that must not be accessed. They exist only in builds with
// AddressSanitizer, which then reports such accesses.
//
// The registers of a warp are one block of memory. An operation that accesses more than the width
// of its operand would only reach the next register, and AddressSanitizer would not notice.
// Therefore each register and each constant is followed by a gap. While a function of the kernel
// runs, the gaps between its registers are poisoned: AddressSanitizer reports every access to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace coalesce::sim {

// The start and the end of each gap, in bytes from the start of a frame or of the constants.
using RedZones = std::vector<std::pair<uint32_t, uint32_t>>;

#if defined(__SANITIZE_ADDRESS__)

inline constexpr uint32_t red_zone_bytes = 64;

inline void unpoison(const void* at, size_t bytes) { __asan_unpoison_memory_region(at, bytes); }

inline void poison(const std::byte* at, const RedZones& zones) {
    for (const auto& [first, end] : zones) __asan_poison_memory_region(at + first, end - first);
}

#else

inline constexpr uint32_t red_zone_bytes = 0;

inline void unpoison(const void*, size_t) {}
inline void poison(const std::byte*, const RedZones&) {}

#endif

}  // namespace coalesce::sim
