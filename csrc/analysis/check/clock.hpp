// Vector clocks. A clock belongs to a thread or a group of threads, its owner. It records which
// events of other threads are known to happen before the owner's next event.
//
// METHOD
// Each block counts its own time. The time advances at each event that can order accesses: a
// barrier, a synchronization of a warp, a fence. A clock has entries. For example, an entry may be
// "lane 3 of warp 2 of block 5, time 9". It means: all that this thread did up to time 9 happens
// before what the owner of the clock does next. A clock with one entry per thread could have a
// million entries. So here an entry stands for a whole block, or for some lanes of a warp. Most
// kernels never need a clock, because order.hpp stores the effect of a barrier in one number.
// Clocks are immutable, so that threads can share them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/memory/lanes.hpp"

namespace coalesce::analysis {

inline constexpr uint32_t every_warp = UINT32_MAX;

// An entry of a clock: some lanes of a warp, or a whole block, and a time in this block. All that
// they did up to this time is known.
struct Knowledge {
    uint32_t block = 0;
    uint32_t warp = every_warp;
    sim::LaneMask lanes = sim::all_lanes;
    uint32_t time = 0;
};

class Clock;
using ClockPtr = std::shared_ptr<const Clock>;  // null means that nothing is known

// A set of entries.
class Clock {
  public:
    explicit Clock(std::vector<Knowledge> entries);

    // Returns true if the clock includes everything that this thread did up to `time`.
    [[nodiscard]] bool covers(uint32_t block, uint32_t warp, uint32_t lane, uint32_t time) const;
    // Returns true if the clock includes what at least one lane of the warp did up to `time`.
    [[nodiscard]] bool covers_warp(uint32_t block, uint32_t warp, uint32_t time) const;

    [[nodiscard]] const std::vector<Knowledge>& entries() const { return entries_; }

  private:
    template <class F>
    bool any_of_block(uint32_t block, F&& holds) const;

    // sorted by block and warp; no entry repeats what another one says
    std::vector<Knowledge> entries_;
};

// Returns a clock that includes everything that is in at least one of the two clocks.
[[nodiscard]] ClockPtr join(const ClockPtr& a, const ClockPtr& b);
[[nodiscard]] ClockPtr join(const ClockPtr& a, std::vector<Knowledge> more);

}  // namespace coalesce::analysis
