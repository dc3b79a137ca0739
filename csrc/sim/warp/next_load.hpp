// Prefetches the host memory that a load will probably read next.
//
// METHOD
// A kernel often reads a matrix row by row. Then each execution of a load reads memory that is far
// from the previous one, and the host must wait for its own memory. The host can wait for several
// loads at the same time, but how well it does so differs between builds of this file. So each load
// prefetches the words of a later execution. It assumes that the distance between executions stays
// the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace coalesce::sim {

// The latest execution of one load instruction on one host thread.
struct LatestLoad {
    uintptr_t host = 0;  // the first byte that it read

    // Records that the load reads `bytes` bytes from `from` on, in a buffer that has `before` bytes
    // before them and `behind` bytes after them. Prefetches the bytes that the load will read two
    // executions later, if they are in the buffer. Inlined, because GCC (12) drops calls of a
    // function that only prefetches.
    template <int bytes>
    [[gnu::always_inline]] void prefetch_next(const std::byte* from, uint64_t before,
                                              uint64_t behind) {
        const auto here = reinterpret_cast<uintptr_t>(from);
        const uint64_t distance = here - std::exchange(host, here), ahead = 2 * distance;
        // The host itself prefetches words that are near.
        constexpr uint64_t near = 1024, line = 64;
        if (distance + near <= 2 * near || before + ahead > before + behind) return;
        const auto next = reinterpret_cast<const char*>(here + ahead);
#pragma GCC unroll 16
        for (uint64_t i = 0; i < bytes; i += line) __builtin_prefetch(next + i);
        // If the bytes do not begin at the start of a line, they are in one more line. This is
        // usual, because the C library puts 16 bytes before large arrays.
        __builtin_prefetch(next + bytes - 1);
    }
};

}  // namespace coalesce::sim
