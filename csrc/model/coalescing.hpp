// How a GPU serves the addresses of one warp's global access: sectors and lines.
//
// The first-level cache works on 128-byte lines of four 32-byte sectors. A warp instruction is one
// request; it moves the distinct sectors its active lanes touch, and looks up the distinct lines.
// Both rules are exact: they reproduce the hardware counters l1tex__t_sectors_... and
// memory_l1_tag_requests_global of compute capability 9.0 for accesses of 1 to 16 bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "sim/memory.hpp"

namespace coalesce::model {

inline constexpr uint32_t sector_bytes = 32;
inline constexpr uint32_t line_bytes = 128;

struct Footprint {
    uint32_t sectors = 0;
    uint32_t lines = 0;
};

// The number of different values; sorts them. Neighbouring lanes mostly follow each other upwards.
inline uint32_t count_distinct(uint64_t* values, int n) {
    if (!std::is_sorted(values, values + n)) std::sort(values, values + n);
    return uint32_t(std::unique(values, values + n) - values);
}

// Aligned accesses of at most 16 bytes touch one sector a lane.
inline Footprint footprint(const sim::MemoryEvent& e) {
    switch (e.shape) {
        case sim::Shape::uniform:
            return {1, 1};
        case sim::Shape::consecutive: {
            const uint64_t last = e.first + uint64_t(e.bytes) * sim::warp_size - 1;
            return {uint32_t(last / sector_bytes - e.first / sector_bytes + 1),
                    uint32_t(last / line_bytes - e.first / line_bytes + 1)};
        }
        case sim::Shape::scattered:
            break;
    }
    uint64_t sectors[sim::warp_size];
    int n = 0;
    sim::for_each_lane(e.mask, [&](int lane) { sectors[n++] = e.addresses[lane] / sector_bytes; });
    Footprint f;
    f.sectors = count_distinct(sectors, n);
    for (uint32_t i = 0; i < f.sectors; ++i) sectors[i] /= line_bytes / sector_bytes;
    f.lines = count_distinct(sectors, int(f.sectors));
    return f;
}

}  // namespace coalesce::model
