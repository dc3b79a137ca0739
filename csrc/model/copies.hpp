// Counts what an asynchronous copy from global to shared memory costs (cp.async, LDGSTS).
//
// METHOD
// There are two kinds of copies:
//
// - A copy through L1 (cp.async.ca) reads its source through the banks of L1, which are also the
//   banks of shared memory. At the source and at the destination, a bank serves one lane at a time.
//   Two lanes conflict if they have the same bank at the source or at the destination.
// - A copy that bypasses L1 (cp.async.cg, 16 bytes per lane) gets its data from L2 in sectors of
//   two chunks. A chunk has 16 bytes. A transfer moves one or both chunks of a sector of the source
//   to a sector of the destination. It may exchange them.
//
// The numbers of wavefronts are those of Nsight Compute's metric
// smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum. Its formulas are not
// published. These rules were derived from recordings. They give the numbers of an H200 for all 720
// recorded patterns (tests/data/patterns_h200.json), with one exception: copies that bypass L1 and
// whose guard excludes lanes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "model/banks.hpp"
#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

// Returns the wavefronts that Nsight Compute counts for the lanes of `group`, if the copy passes
// through L1. Two lanes conflict if they use the same bank. The result is the largest number of
// lanes that conflict with one lane, including this lane.
inline uint32_t copy_conflicts(const sim::MemoryEvent& source, const sim::MemoryEvent& target,
                               sim::LaneMask group) {
    const auto bank_of = [](const sim::MemoryEvent& e, int lane) {
        return e.address(lane) / e.bytes % (line_bytes / e.bytes);
    };
    sim::LaneMask from[banks] = {}, to[banks] = {};
    const sim::LaneMask read = source.mask & group, written = target.mask & group;
    sim::for_each_lane(read, [&](int i) { from[bank_of(source, i)] |= sim::LaneMask{1} << i; });
    sim::for_each_lane(written, [&](int i) { to[bank_of(target, i)] |= sim::LaneMask{1} << i; });
    int most = 0;
    sim::for_each_lane(read | written, [&](int i) {
        sim::LaneMask conflicts = 0;
        if (read >> i & 1) conflicts |= from[bank_of(source, i)];
        if (written >> i & 1) conflicts |= to[bank_of(target, i)];
        most = std::max(most, std::popcount(conflicts));
    });
    return uint32_t(most);
}

inline Wavefronts copy_wavefronts(const sim::MemoryEvent& source, const sim::MemoryEvent& target) {
    Wavefronts w;
    const int groups = groups_of(target.bytes);
    for (int g = 0; g < groups; ++g)
        w.taken += copy_conflicts(source, target, group_mask(g, sim::warp_size / groups));
    w.theoretical = w.taken;
    w.ideal = std::min(w.theoretical, packed_wavefronts(target));
    return w;
}

// Returns the wavefronts that write the data of a copy that bypasses L1 to shared memory.
inline Wavefronts direct_wavefronts(const sim::MemoryEvent& target) {
    sim::MemoryEvent none = target;
    none.mask = 0;
    return copy_wavefronts(none, target);
}

// Returns true if several lanes of an access have the same address.
inline bool same_addresses(const sim::MemoryEvent& e) {
    uint64_t addresses[sim::warp_size];
    int n = 0;
    sim::for_each_lane(e.mask, [&](int lane) { addresses[n++] = e.address(lane); });
    if (!std::is_sorted(addresses, addresses + n)) std::sort(addresses, addresses + n);
    return std::adjacent_find(addresses, addresses + n) != addresses + n;
}

// The costs of a copy that bypasses L1.
struct BypassingCopy {
    uint32_t sectors = 0;      // the number that the hardware counts
    uint32_t theoretical = 0;  // the number that Nsight Compute's source page shows
    uint32_t wavefronts = 0;   // the number that Nsight Compute's source page shows
    uint32_t lanes = 0;        // the lanes that Nsight Compute counts
};

// Returns the costs of a copy that bypasses L1, for the lanes of `target`.
//
// - The hardware counts all data from the same line of the source to the same sector of the
//   destination as one sector. For overlapping destinations, its rule is not known.
// - Nsight Compute counts transfers as sectors. If several lanes have the same destination, it
//   counts only the first of them.
// - One wavefront can make several transfers. They go from one line of the source to one line of
//   the destination, and move the same halves of a sector by the same distance, modulo 64 bytes.
//   If lanes copy a chunk to the same half of several sectors of a line, each of them needs another
//   wavefront. Transfers of such a lane are only joined with those of lanes in the same turn.
inline BypassingCopy bypassing_copy(const sim::MemoryEvent& source,
                                    const sim::MemoryEvent& target) {
    constexpr uint64_t chunk_bytes = 16, sector_chunks = 2, line_chunks = 8;
    uint64_t from[sim::warp_size], to[sim::warp_size];
    int n = 0;
    BypassingCopy c;
    sim::for_each_lane(target.mask, [&](int lane) {
        to[n] = target.address(lane) / chunk_bytes;
        from[n] = source.address(lane) / chunk_bytes;
        if (std::find(to, to + n, to[n]) == to + n) ++n;
    });
    // Shared memory has fewer than 2^11 lines, and a line of global memory has a number below 2^42.
    const auto packed = [](uint64_t source_unit, uint64_t target_unit, uint64_t rest) {
        return source_unit << 22 | (target_unit & 0x1fff) << 9 | rest;
    };
    uint64_t lines[sim::warp_size], transfers[sim::warp_size], wavefronts[sim::warp_size];
    uint64_t turn[sim::warp_size];
    for (int i = 0; i < n; ++i) {
        turn[i] = 0;
        for (int j = i + 1; j < n; ++j)
            turn[i] += from[j] == from[i] && to[j] / line_chunks == to[i] / line_chunks &&
                       (to[j] ^ to[i]) % sector_chunks == 0;
    }
    for (int i = 0; i < n; ++i) {
        const uint64_t exchanged = (from[i] ^ to[i]) % sector_chunks;
        uint64_t halves = 0;
        for (int j = 0; j < n; ++j)
            if (from[j] / sector_chunks == from[i] / sector_chunks &&
                to[j] / sector_chunks == to[i] / sector_chunks &&
                (from[j] ^ to[j]) % sector_chunks == exchanged && turn[j] == turn[i])
                halves |= uint64_t{1} << to[j] % sector_chunks;
        lines[i] = packed(from[i] / line_chunks, to[i] / sector_chunks, 0);
        transfers[i] = packed(from[i] / sector_chunks, to[i] / sector_chunks, exchanged);
        wavefronts[i] = packed(from[i] / line_chunks, to[i] / line_chunks,
                               turn[i] << 4 | (from[i] ^ to[i]) % 4 << 2 | halves);
    }
    const auto distinct = [n](uint64_t* values) {
        std::sort(values, values + n);
        return uint32_t(std::unique(values, values + n) - values);
    };
    c.lanes = uint32_t(n);
    c.sectors = distinct(lines);
    c.theoretical = distinct(transfers);
    c.wavefronts = distinct(wavefronts);
    return c;
}

}  // namespace coalesce::model
