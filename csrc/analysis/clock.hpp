// What one thread knows of the others: how far each had come when it last heard of them.
//
// METHOD
// A block counts its own time: it moves on at every event that can order something (a barrier, a
// warp's synchronisation, a fence). "Lane 3 of warp 2 of block 5 up to time 9" means that whatever
// that thread did at time 9 or before happens before what the knower does next. A vector clock with
// an entry a thread would have a million entries; here an entry speaks of a whole block, or of the
// lanes of a warp, and most kernels never make one (order.hpp keeps what barriers say in a number).
// A clock is immutable, so that threads share it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/lanes.hpp"

namespace coalesce::analysis {

inline constexpr uint32_t every_warp = UINT32_MAX;

struct Knowledge {
    uint32_t block = 0;
    uint32_t warp = every_warp;
    sim::LaneMask lanes = sim::all_lanes;
    uint32_t time = 0;
};

class Clock;
using ClockPtr = std::shared_ptr<const Clock>;  // null: nothing is known

class Clock {
  public:
    explicit Clock(std::vector<Knowledge> entries);

    // Whether what this thread did at `time` is known.
    [[nodiscard]] bool covers(uint32_t block, uint32_t warp, uint32_t lane, uint32_t time) const;
    // Whether that is known of some lane of its warp.
    [[nodiscard]] bool covers_warp(uint32_t block, uint32_t warp, uint32_t time) const;

    [[nodiscard]] const std::vector<Knowledge>& entries() const { return entries_; }

  private:
    template <class F>
    bool any_of_block(uint32_t block, F&& holds) const;

    std::vector<Knowledge> entries_;  // by block and warp, none implied by another
};

// What both know.
[[nodiscard]] ClockPtr join(const ClockPtr& a, const ClockPtr& b);
[[nodiscard]] ClockPtr join(const ClockPtr& a, std::vector<Knowledge> more);

}  // namespace coalesce::analysis
