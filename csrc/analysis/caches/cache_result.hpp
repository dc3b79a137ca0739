// The result of the replay of the caches (cache_replay.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/caches/cache_counts.hpp"

namespace coalesce::analysis {

// Counts how often the loads of an instruction missed L1.
struct Misses {
    uint64_t requests = 0;
    uint64_t missed = 0;  // requests that missed at least one line in L1
    uint64_t lines = 0;   // lines that were not in L1
    uint64_t read = 0;    // missed lines whose read reached the L2 model
    uint64_t slow = 0;    // missed lines that DRAM answered or was already fetching
    uint64_t cycles = 0;  // L1 cycles of all requests of the instruction
    void add(const Misses& other);
    [[nodiscard]] double cycles_per_request() const { return double(cycles) / double(requests); }
};

// The result of the replay, extrapolated to the whole grid.
struct CacheResult {
    model::CacheCounts counts;
    std::vector<Misses> misses;  // misses in the replayed blocks, by instruction
    // How many operations a warp of the replayed blocks executes. `operations` is the average over
    // all warps, and `most` is the maximum. `most_in_block` is the maximum in one block, averaged
    // over the blocks.
    double operations = 0, most_in_block = 0, most = 0;
    double atomics = 0;  // cycles that L2 needs for atomics

    // Returns null if no request of the instruction was replayed.
    [[nodiscard]] const Misses* misses_of(size_t instruction) const {
        const bool known = instruction < misses.size() && misses[instruction].requests;
        return known ? &misses[instruction] : nullptr;
    }
    uint64_t blocks_replayed = 0, blocks = 0;
};

}  // namespace coalesce::analysis
