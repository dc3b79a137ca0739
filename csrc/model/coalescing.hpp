// Models how many sectors and lines an access of one warp to global memory needs.
//
// L1 has 128-byte lines of four 32-byte sectors. A warp instruction is one request. If several
// active lanes touch the same sector, the request transfers this sector only once. If they touch
// the same line, the request looks up this line only once.
//
// Atomics and reductions may send a sector several times. If several lanes access the same element,
// the sector is sent once for each of these lanes. If a sector has several such elements, only the
// element that the most lanes access is counted.
//
// Both rules reproduce the hardware counters
// l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st,red,atom} and memory_l1_tag_requests_global of
// compute capability 9.0 for accesses of 1 to 16 bytes (tests/data/patterns_h200.json). For
// scattered atomics of 8 bytes, the hardware's own counts differ from run to run by one or two
// sectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "model/lane_run.hpp"
#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

struct Footprint {
    uint32_t elements = 0;  // distinct addresses
    uint32_t sectors = 0;   // distinct sectors
    uint32_t lines = 0;     // distinct lines
    // Only of an atomic: the number of sectors that it sends. Each sector is sent once for each
    // lane that accesses the most frequent element of this sector.
    uint32_t repeated = 0;
};

// Returns the addresses of the distinct sectors that the accesses touch, in ascending order. Each
// access has `bytes` bytes. `size` is normally the size of a sector. With another `size`, the
// function returns pieces of that size, such as lines of 128 bytes.
inline std::vector<uint64_t> sectors_of(const std::vector<uint64_t>& addresses, uint32_t bytes,
                                        uint32_t size = sector_bytes) {
    std::vector<uint64_t> sectors;
    for (const uint64_t address : addresses)
        for (uint64_t s = address / size; s <= (address + bytes - 1) / size; ++s)
            sectors.push_back(s * size);
    std::ranges::sort(sectors);
    sectors.erase(std::ranges::unique(sectors).begin(), sectors.end());
    return sectors;
}

// Returns the footprint of `n` accesses. `addresses` must be in ascending order.
inline Footprint footprint_of(const uint64_t* addresses, int n) {
    Footprint f;
    uint64_t element = ~uint64_t(0), sector = element, line = element;
    uint32_t wanted = 0, most = 0;
    for (int i = 0; i < n; ++i) {
        const uint64_t a = addresses[i];
        if (a == element) {
            ++wanted;
        } else {
            element = a;
            wanted = 1;
            ++f.elements;
            if (a / sector_bytes != sector) {
                sector = a / sector_bytes;
                ++f.sectors;
                most = 0;
            }
            if (a / line_bytes != line) {
                line = a / line_bytes;
                ++f.lines;
            }
        }
        if (wanted > most) {
            most = wanted;
            ++f.repeated;
        }
    }
    return f;
}

// Returns true if the hardware may send a sector of an atomic in several parts. This can happen if
// several lanes access the sector. It happens in some runs and not in others. It was recorded for
// atomics of 8 bytes, and for reductions of 4 bytes that touch at least 7 lines.
inline bool may_be_divided(const Footprint& f, int lanes) {
    constexpr uint32_t surely_together = 6;  // up to this number of lines, no sector is split
    return f.lines > surely_together && uint32_t(lanes) > f.sectors;
}

// Returns the footprint of an access whose shape is scattered.
Footprint scattered_footprint(const sim::MemoryEvent& e);

// Returns the footprint of neighbouring lanes whose addresses have a constant stride. If the stride
// is larger than a unit, such as a sector, each lane needs a unit of its own. Otherwise all units
// between the first and the last lane are needed.
inline Footprint footprint(const LaneRun& run) {
    if (run.stride == 0) return {1, 1, 1, run.lanes};
    const uint64_t one = run.first, other = one + uint64_t(run.stride * int64_t{run.lanes - 1});
    const uint64_t low = std::min(one, other), high = std::max(one, other);
    const auto units = [&](uint64_t bytes) {
        return uint32_t(std::min<uint64_t>(high / bytes - low / bytes + 1, run.lanes));
    };
    return {run.lanes, units(sector_bytes), units(line_bytes), units(sector_bytes)};
}

// Returns the footprint of an access. Accesses are aligned and have at most 16 bytes per lane, so
// each lane touches one sector.
inline Footprint footprint(const sim::MemoryEvent& e) {
    switch (e.shape) {
        case sim::Shape::uniform:
            return {1, 1, 1, sim::warp_size};
        case sim::Shape::consecutive: {
            const uint64_t last = e.first + uint64_t(e.bytes) * sim::warp_size - 1;
            const uint32_t sectors = uint32_t(last / sector_bytes - e.first / sector_bytes + 1);
            return {sim::warp_size, sectors, uint32_t(last / line_bytes - e.first / line_bytes + 1),
                    sectors};
        }
        case sim::Shape::strided:
        case sim::Shape::scattered:
            break;
    }
    if (const LaneRun run = run_of(e)) return footprint(run);
    return scattered_footprint(e);
}

// Returns the smallest number of sectors that can hold a different element for each of the lanes.
inline uint32_t packed_sectors(uint32_t lanes, uint32_t bytes) {
    return (lanes * bytes + sector_bytes - 1) / sector_bytes;
}
inline uint32_t packed_sectors(const sim::MemoryEvent& e) {
    return packed_sectors(uint32_t(std::popcount(e.mask)), e.bytes);
}

}  // namespace coalesce::model
