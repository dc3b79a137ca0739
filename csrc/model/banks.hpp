// Models how many wavefronts a GPU needs for an access of one warp to shared memory.
//
// Shared memory has 32 banks of 4-byte words. A wavefront is one pass of such an access. In one
// wavefront, each bank delivers one word, to any number of lanes. If no lane accesses more than 4
// bytes, the number of wavefronts is the largest number of distinct words in any bank.
//
// Accesses of 8 bytes are served for half a warp at a time, and accesses of 16 bytes for a quarter
// of a warp at a time. There is an exception for loads in which pairs of lanes read the same
// address. Two halves or two quarters are then served together. This must hold for all pairs of
// active lanes in the whole warp. Either the pairs are lanes 0 and 1, 2 and 3, ..., or they are
// lanes 0 and 2, 1 and 3, 4 and 6, ...
//
// For an atomic, a bank serves one *lane* at a time, not one word. A compare-and-swap takes twice
// as many wavefronts as other atomics.
//
// These rules reproduce l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st,atom} of compute
// capability 9.0 for each of about 1700 recorded patterns (tests/data/patterns_h200.json).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

inline constexpr int banks = 32;
inline constexpr uint32_t wavefront_bytes = banks * word_bytes;

// The cost of an access to shared memory.
struct Wavefronts {
    uint32_t taken = 0;  // the number of wavefronts on the hardware
    // The number that the formula of Nsight Compute's source page gives
    // (memory_l1_wavefronts_shared). Like the hardware, the formula merges groups of lanes that are
    // served together. But it does so only if the merged group has no bank conflict, and only
    // within one half of the warp.
    uint32_t theoretical = 0;
    // The number that would be needed if the elements were contiguous. It is at most `theoretical`.
    uint32_t ideal = 0;
};

// Returns the number of groups of lanes that are served one after another. It is 2 (the halves of a
// warp) for accesses of 8 bytes per lane, 4 (the quarters) for 16 bytes, and otherwise 1.
inline int groups_of(uint8_t bytes) { return std::max(1, bytes / int(word_bytes)); }

inline sim::LaneMask group_mask(int group, int lanes) {
    return (lanes == sim::warp_size ? sim::all_lanes : (1u << lanes) - 1) << (group * lanes);
}

// Returns the largest number of distinct words that any bank delivers to the lanes of `mask`.
uint32_t most_words(const sim::MemoryEvent& e, sim::LaneMask mask);
// Returns the largest number of lanes of `mask` that access the same bank.
uint32_t most_lanes(const sim::MemoryEvent& e, sim::LaneMask mask);

// Returns the sum of `cost` over the groups of lanes. cost(event, mask) returns the cost of the
// lanes of `mask`.
template <class Cost>
uint32_t sum_over_groups(const sim::MemoryEvent& e, int groups, Cost&& cost) {
    uint32_t total = 0;
    for (int g = 0; g < groups; ++g)
        total += cost(e, e.mask & group_mask(g, sim::warp_size / groups));
    return total;
}

// Returns true if both lanes of each pair of active lanes access the same address. For `apart` = 1,
// the pairs are lanes 0 and 1, 2 and 3, and so on. For `apart` = 2, they are lanes 0 and 2, 1 and
// 3, 4 and 6, 5 and 7, and so on.
inline bool pairs_share_address(const sim::MemoryEvent& e, int apart, sim::LaneMask mask) {
    const sim::LaneMask firsts = apart == 1 ? 0x55555555 : 0x33333333;
    bool same = true;
    sim::for_each_lane(mask & (mask >> apart) & firsts, [&](int lane) {
        same = same && e.address(lane) == e.address(lane + apart);
    });
    return same;
}
inline bool pairs_share_address(const sim::MemoryEvent& e, sim::LaneMask mask) {
    return pairs_share_address(e, 1, mask) || pairs_share_address(e, 2, mask);
}

// Returns the number of groups of lanes that are served one after another. Groups that are served
// together count as one.
inline int count_served_groups(const sim::MemoryEvent& e) {
    const int groups = groups_of(e.bytes);
    const bool merged = e.access == sim::Access::load && groups > 1 &&
                        (e.shape == sim::Shape::uniform ||
                         (e.shape == sim::Shape::scattered && pairs_share_address(e, e.mask)));
    return merged ? groups / 2 : groups;
}

// Returns the smallest number of wavefronts that can deliver a different element to each of the
// lanes.
inline uint32_t packed_wavefronts(uint32_t lanes, uint32_t bytes) {
    return (lanes * bytes + wavefront_bytes - 1) / wavefront_bytes;
}
inline uint32_t packed_wavefronts(const sim::MemoryEvent& e) {
    return packed_wavefronts(uint32_t(std::popcount(e.mask)), e.bytes);
}

// Sets the cost of a load of 8 or 16 bytes from scattered addresses. `apart` is the cost if no
// groups of lanes are served together.
inline void merge_groups(const sim::MemoryEvent& e, int groups, uint32_t apart, Wavefronts& w) {
    w.taken = w.theoretical = apart;
    const int lanes = 2 * sim::warp_size / groups;
    for (int pair = 0; pair < groups / 2; ++pair) {
        const sim::LaneMask both = e.mask & group_mask(pair, lanes);
        if (pairs_share_address(e, both) && most_words(e, both) == 1) {
            w.theoretical -= most_words(e, both & group_mask(2 * pair, lanes / 2)) +
                             most_words(e, both & group_mask(2 * pair + 1, lanes / 2)) - 1;
        }
    }
    if (const int turns = count_served_groups(e); turns < groups)
        w.taken = sum_over_groups(e, turns, most_words);
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
        // Lane i accesses element m * i. Then the number of lanes that share a bank is the greatest
        // common divisor of m and the number of lanes in a group.
        w.taken = uint32_t(groups * std::gcd(stride / e.bytes, int64_t(sim::warp_size / groups)));
    } else {
        w.taken = sum_over_groups(e, groups, most_words);
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

// Returns the wavefronts of ldmatrix and stmatrix, which serve one matrix after another. A matrix
// has 8 rows of 16 bytes; 8 lanes supply the addresses of the rows. Matrices are never merged, even
// if they share rows. This rule agrees with 401 patterns recorded on compute capability 9.0
// (tests/data/matrices_h200.json).
inline Wavefronts matrix_wavefronts(const sim::MemoryEvent& e) {
    Wavefronts w;
    w.taken = w.theoretical = sum_over_groups(e, groups_of(e.bytes), most_words);
    w.ideal = packed_wavefronts(e);
    return w;
}

// For atomics, a bank serves one lane at a time. There are three special cases:
//
// - Atomics that count lanes (ATOMS.POPC.INC): lanes with the same word are served together.
// - A compare-and-swap takes two passes.
// - In a loop around a compare-and-swap (ATOMS.CAST.SPIN), each bank serves only one lane. The
//   other lanes repeat the instruction.
inline uint32_t atomic_passes(sim::AtomicForm form) {
    return form == sim::AtomicForm::compare_and_swap || form == sim::AtomicForm::spinning ? 2 : 1;
}

// Returns how often the busiest bank must serve the lanes of `mask` for an atomic.
inline uint32_t atomic_services(const sim::MemoryEvent& e, sim::LaneMask mask,
                                sim::AtomicForm form) {
    if (form == sim::AtomicForm::spinning) return uint32_t(mask != 0);
    return form == sim::AtomicForm::counting ? most_words(e, mask) : most_lanes(e, mask);
}

inline Wavefronts atomic_wavefronts(const sim::MemoryEvent& e, sim::AtomicForm form) {
    Wavefronts w;
    w.taken = atomic_passes(form) *
              sum_over_groups(e, groups_of(e.bytes),
                              [form](const sim::MemoryEvent& event, sim::LaneMask mask) {
                                  return atomic_services(event, mask, form);
                              });
    w.theoretical = w.taken;
    w.ideal = atomic_passes(form) * packed_wavefronts(e);
    return w;
}

}  // namespace coalesce::model
