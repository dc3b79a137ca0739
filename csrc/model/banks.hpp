// How a GPU serves the addresses of one warp's shared access: wavefronts over 32 banks.
//
// Shared memory has 32 banks of 4-byte words. One wavefront serves each bank one word, to as many
// lanes as want it; an access of 4 bytes or less a lane takes as many wavefronts as the most
// distinct words any bank must serve. Accesses of 8 and 16 bytes are served half a warp and a
// quarter of a warp at a time. Loads have an exception: where lanes that are neighbours, or lanes
// that are two apart, read the same address throughout the warp, two such groups are served
// together. An atomic serves each bank one *lane* at a time, a compare-and-swap at twice the price.
//
// The rules reproduce l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st,atom} of compute
// capability 9.0 for every one of some 1700 patterns recorded (tests/data/patterns_h200.json).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "sim/memory.hpp"

namespace coalesce::model {

inline constexpr int banks = 32;
inline constexpr uint32_t word_bytes = 4;
inline constexpr uint32_t wavefront_bytes = banks * word_bytes;

// What an access of shared memory costs.
struct Wavefronts {
    uint32_t taken = 0;  // on the hardware
    // By the formula of Nsight Compute's source page (memory_l1_wavefronts_shared), which merges
    // groups of lanes only where that leaves no conflict, but also in one half of the warp alone.
    uint32_t theoretical = 0;
    uint32_t ideal = 0;  // with the lanes' elements packed, or `theoretical` where that is less
};

// Lanes that are served together: a half or a quarter of a warp for 8 or 16 bytes.
inline int groups_of(uint8_t bytes) { return std::max(1, bytes / int(word_bytes)); }

inline sim::LaneMask group_mask(int group, int lanes) {
    return (lanes == sim::warp_size ? sim::all_lanes : (1u << lanes) - 1) << (group * lanes);
}

// The most distinct words any bank must serve the lanes of `mask`.
inline uint32_t most_words(const sim::MemoryEvent& e, sim::LaneMask mask) {
    const int words_a_lane = groups_of(e.bytes);
    uint32_t served[sim::warp_size * 4][banks];  // the distinct words of each bank, `load` of them
    uint8_t load[banks] = {};
    uint8_t most = 0;
    sim::for_each_lane(mask, [&](int lane) {
        const uint32_t first = uint32_t(e.address(lane) / word_bytes);
        for (uint32_t word = first; word < first + uint32_t(words_a_lane); ++word) {
            const uint32_t bank = word % banks;
            int n = 0;
            while (n < load[bank] && served[n][bank] != word) ++n;
            if (n < load[bank]) continue;
            served[n][bank] = word;
            most = std::max(most, ++load[bank]);
        }
    });
    return most;
}

// The most lanes of `mask` that any bank must serve.
inline uint32_t most_lanes(const sim::MemoryEvent& e, sim::LaneMask mask) {
    uint8_t load[banks] = {};
    uint8_t most = 0;
    sim::for_each_lane(mask, [&](int lane) {
        const uint64_t first = e.address(lane) / word_bytes;
        for (int k = 0; k < groups_of(e.bytes); ++k)
            most = std::max(most, ++load[(first + uint64_t(k)) % banks]);
    });
    return most;
}

// `cost` of each group of the lanes, added up.
template <class Cost>
uint32_t by_groups(const sim::MemoryEvent& e, int groups, Cost&& cost) {
    uint32_t total = 0;
    for (int g = 0; g < groups; ++g)
        total += cost(e, e.mask & group_mask(g, sim::warp_size / groups));
    return total;
}

// Whether active lanes of `mask` that are `apart` lanes apart (1 or 2) always have the same
// address.
inline bool alike(const sim::MemoryEvent& e, int apart, sim::LaneMask mask) {
    const sim::LaneMask firsts = apart == 1 ? 0x55555555 : 0x33333333;
    bool same = true;
    sim::for_each_lane(mask & (mask >> apart) & firsts, [&](int lane) {
        same = same && e.addresses[lane] == e.addresses[lane + apart];
    });
    return same;
}
inline bool alike(const sim::MemoryEvent& e, sim::LaneMask mask) {
    return alike(e, 1, mask) || alike(e, 2, mask);
}

// In how many groups of neighbouring lanes an access is served, one group after the other.
inline int turns_of(const sim::MemoryEvent& e) {
    const int groups = groups_of(e.bytes);
    const bool merged =
        e.access == sim::Access::load && groups > 1 &&
        (e.shape == sim::Shape::uniform || (e.shape == sim::Shape::scattered && alike(e, e.mask)));
    return merged ? groups / 2 : groups;
}

// The fewest wavefronts that bring this many lanes their elements, all of them different.
inline uint32_t packed_wavefronts(const sim::MemoryEvent& e) {
    return (uint32_t(std::popcount(e.mask)) * e.bytes + wavefront_bytes - 1) / wavefront_bytes;
}

// Of a load of 8 or 16 bytes by scattered addresses; `apart` is what its groups take one by one.
inline void merge_groups(const sim::MemoryEvent& e, int groups, uint32_t apart, Wavefronts& w) {
    w.taken = w.theoretical = apart;
    const int lanes = 2 * sim::warp_size / groups;
    for (int pair = 0; pair < groups / 2; ++pair) {
        const sim::LaneMask both = e.mask & group_mask(pair, lanes);
        if (alike(e, both) && most_words(e, both) == 1) {
            w.theoretical -= most_words(e, both & group_mask(2 * pair, lanes / 2)) +
                             most_words(e, both & group_mask(2 * pair + 1, lanes / 2)) - 1;
        }
    }
    if (const int turns = turns_of(e); turns < groups) w.taken = by_groups(e, turns, most_words);
}

inline Wavefronts wavefronts(const sim::MemoryEvent& e) {
    const int groups = groups_of(e.bytes);
    const bool load = e.access == sim::Access::load;
    Wavefronts w;
    if (e.shape == sim::Shape::uniform) {
        w.taken = uint32_t(load ? std::max(1, groups / 2) : groups);
    } else if (e.shape == sim::Shape::consecutive) {
        w.taken = uint32_t(groups);
    } else if (const int64_t stride = sim::stride_of(e); stride != 0 && e.bytes >= word_bytes) {
        // Elements a stride of m elements apart lie m groups of banks apart.
        w.taken = uint32_t(groups * std::gcd(stride / e.bytes, int64_t(sim::warp_size / groups)));
    } else {
        w.taken = by_groups(e, groups, most_words);
        if (load && groups > 1) {
            merge_groups(e, groups, w.taken, w);
            w.ideal = std::min(w.theoretical, packed_wavefronts(e));
            return w;
        }
    }
    w.theoretical = w.taken;
    w.ideal = std::min(w.theoretical, packed_wavefronts(e));
    return w;
}

// ldmatrix and stmatrix serve one matrix after the other: 8 rows of 16 bytes, whose addresses come
// from 8 lanes. No matrices are merged, whatever their rows share. As recorded for 401 patterns on
// compute capability 9.0 (tests/data/matrices_h200.json).
inline Wavefronts matrix_wavefronts(const sim::MemoryEvent& e) {
    Wavefronts w;
    w.taken = w.theoretical = by_groups(e, groups_of(e.bytes), most_words);
    w.ideal = packed_wavefronts(e);
    return w;
}

// An atomic takes a lane at a time in each bank; those that count take lanes that want the same
// word together. Compare-and-swap takes two passes, and a spinning one lets a lane of each bank
// have its turn.
inline Wavefronts atomic_wavefronts(const sim::MemoryEvent& e, sim::AtomicForm form) {
    using enum sim::AtomicForm;
    Wavefronts w;
    const bool swaps = form == compare_and_swap || form == spinning;
    const int passes = swaps ? 2 : 1;
    const auto one_turn = [](const sim::MemoryEvent&, sim::LaneMask mask) {
        return uint32_t(mask != 0);
    };
    const int groups = groups_of(e.bytes);
    w.taken = uint32_t(passes) *
              (form == spinning ? by_groups(e, groups, one_turn)
                                : by_groups(e, groups, form == counting ? most_words : most_lanes));
    w.theoretical = w.taken;
    w.ideal = uint32_t(passes) * packed_wavefronts(e);
    return w;
}

// An asynchronous copy reads its source through the banks of L1, which are those
// of shared memory, and passes a lane at a time in each bank on either side.
inline Wavefronts copy_wavefronts(const sim::MemoryEvent& source, const sim::MemoryEvent& target) {
    Wavefronts w;
    const int groups = groups_of(target.bytes);
    for (int g = 0; g < groups; ++g) {
        const sim::LaneMask group = group_mask(g, sim::warp_size / groups);
        w.taken += std::max(most_lanes(source, source.mask & group),
                            most_lanes(target, target.mask & group));
    }
    w.theoretical = w.taken;
    w.ideal = std::min(w.theoretical, packed_wavefronts(target));
    return w;
}

}  // namespace coalesce::model
