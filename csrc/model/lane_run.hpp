// Recognizes requests of neighbouring lanes whose addresses have a constant stride.
//
// Most accesses of a full warp have a constant stride. The last warp of a row is often not full,
// but the addresses of its lanes have the same stride: a part of a warp is as regular as a warp.
#pragma once

#include <bit>
#include <cstdint>

#include "sim/warp/memory.hpp"

namespace coalesce::model {

struct LaneRun {
    uint64_t first = 0;       // the address of the first active lane
    int64_t stride = 0;       // the distance from each lane's address to the next; 0 for one lane
    uint32_t lanes = 0;       // the number of active lanes; 0 if they are no run
    uint32_t first_lane = 0;  // the number of the first active lane

    explicit operator bool() const { return lanes != 0; }
    // The address that lane 0 has, or would have if it were active.
    [[nodiscard]] uint64_t address_of_lane_0() const {
        return first - uint64_t(stride * int64_t{first_lane});
    }
};

// Returns the run of an access. Returns an empty run if the active lanes are not neighbours, or if
// their addresses have no constant stride.
inline LaneRun run_of(const sim::MemoryEvent& e) {
    if (e.shape != sim::Shape::scattered)
        return {e.first, sim::lane_stride(e), uint32_t(sim::warp_size), 0};
    const auto start = uint32_t(std::countr_zero(e.mask));
    const uint32_t lanes = uint32_t(sim::warp_size) - uint32_t(std::countl_zero(e.mask)) - start;
    const sim::LaneMask from_start = e.mask >> start;
    if ((from_start & (from_start + 1)) != 0) return {};
    LaneRun run{e.addresses[start], 0, lanes, start};
    if (lanes > 1) run.stride = int64_t(e.addresses[start + 1] - run.first);
    const uint64_t lane_0 = run.address_of_lane_0();
    uint64_t other = 0;
    for (int lane = 0; lane < sim::warp_size; ++lane) {
        const uint64_t expected = lane_0 + uint64_t(lane) * uint64_t(run.stride);
        other |= sim::has_lane(e.mask, lane) ? e.addresses[lane] ^ expected : 0;
    }
    return other ? LaneRun{} : run;
}

}  // namespace coalesce::model
