// How a GPU serves the addresses of one warp's shared access: wavefronts over 32 banks.
//
// Shared memory has 32 banks of 4-byte words. One wavefront serves each bank one word, to as many
// lanes as want it; an access of 4 bytes or less a lane takes as many wavefronts as the most
// distinct words any bank must serve. Accesses of 8 and 16 bytes are served half a warp and a
// quarter of a warp at a time (CUDA C++ Programming Guide, "Shared Memory"). The first rule
// reproduces memory_l1_wavefronts_shared of compute capability 9.0; for the wide ones it is the
// published one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/memory.hpp"

namespace coalesce::model {

inline constexpr int banks = 32;
inline constexpr uint32_t word_bytes = 4;

// Wavefronts of the lanes of `mask`, all served together.
inline uint32_t wavefronts_of(const sim::MemoryEvent& e, sim::LaneMask mask) {
    uint64_t words[sim::warp_size * 4];
    int n = 0;
    const int words_a_lane = std::max(1, e.bytes / int(word_bytes));
    sim::for_each_lane(mask, [&](int lane) {
        const uint64_t first = e.address(lane) / word_bytes;
        for (int k = 0; k < words_a_lane; ++k) words[n++] = first + uint64_t(k);
    });
    if (n == 0) return 0;
    if (!std::is_sorted(words, words + n)) std::sort(words, words + n);
    n = int(std::unique(words, words + n) - words);
    uint8_t load[banks] = {};
    uint8_t most = 0;
    for (int i = 0; i < n; ++i) most = std::max(most, ++load[words[i] % banks]);
    return most;
}

// The fewest wavefronts an access of this width can take with all its lanes at different words.
inline uint32_t least_wavefronts(const sim::MemoryEvent& e) {
    return std::max<uint32_t>(1, e.bytes / word_bytes);
}

inline uint32_t wavefronts(const sim::MemoryEvent& e) {
    if (e.shape == sim::Shape::uniform) return 1;
    if (e.shape == sim::Shape::consecutive) return least_wavefronts(e);
    const int groups = std::max(1, e.bytes / int(word_bytes));  // 1, 2 or 4
    const int lanes = sim::warp_size / groups;
    uint32_t total = 0;
    for (int g = 0; g < groups; ++g) {
        const sim::LaneMask group = (lanes == 32 ? sim::all_lanes : (1u << lanes) - 1)
                                    << (g * lanes);
        total += wavefronts_of(e, e.mask & group);
    }
    return total;
}

}  // namespace coalesce::model
