// What happens before what in one block: the memory model, not the order the simulator ran in.
//
// METHOD
// Threads are ordered by what the PTX memory model orders them by, and by nothing else (PTX ISA,
// "Memory Consistency Model"):
//   bar.sync           orders all threads of the block that take part, named barriers those alone;
//   bar.warp.sync      orders the lanes of its mask. shfl, vote and match order nothing;
//   barrier.cluster    orders what a thread did before it arrived before what the threads of the
//                      cluster do once all have arrived;
//   a fence, then a strong write or atomic, that another thread's strong read sees: orders what
//   came
//                      before the fence before what comes after the read. So do .release and
//                      .acquire. A fence that a thread made before a barrier counts for those
//                      behind the barrier, and none is asked for after the read: so the documented
//                      last- block pattern (CUDA C++ Programming Guide, "Memory Fence Functions")
//                      is clean.
// Blocks are otherwise concurrent. What a full barrier says of the threads of a block is one
// number, `floor`: nearly every question ends there. For a warp there is another; only kernels with
// partial synchronisation, fences and flags need more (pairs of lanes, and clocks).
//
// Lanes that execute together are not ordered by that; `lockstep` tells what would be ordered if
// they were, as on GPUs before compute capability 7.0.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/clock.hpp"
#include "sim/lanes.hpp"
#include "sim/traits.hpp"

namespace coalesce::analysis {

// An access as shadow memory remembers it: who, by which instruction, when. Time 0: none.
struct Stamp {
    uint32_t block : 27 = 0;  // from 1
    uint32_t extra : 5 = 0;   // reads: another lane that read the same; writes: flags
    uint32_t time = 0;
    uint32_t pc : 20 = 0;
    uint32_t warp : 5 = 0;
    uint32_t lane : 5 = 0;
    uint32_t spare : 2 = 0;
};
inline constexpr uint64_t most_blocks = (1u << 27) - 2;
inline constexpr uint64_t most_instructions = 1u << 20;

using sim::Scope;

// What the writers of a location made visible to whoever reads it.
struct Published {
    ClockPtr to_device;  // to any block
    ClockPtr to_block;   // to block `block` besides
    uint32_t block = 0;
};

class BlockOrder {
  public:
    void start(uint32_t block, uint32_t threads);

    [[nodiscard]] uint32_t block() const { return block_; }
    [[nodiscard]] uint32_t now() const { return now_; }

    // Whether the access of `lane_then` happens before what `lane` of `warp` does now.
    [[nodiscard]] bool ordered(const Stamp& then, uint32_t lane_then, uint32_t warp,
                               uint32_t lane) const {
        if (then.block == block_) {
            if (then.time <= floor_) return true;
            if (then.warp == warp) {
                if (lane_then == lane || then.time <= warps_[warp].floor) return true;
                if (warps_[warp].pairs && then.time <= (*warps_[warp].pairs)[lane][lane_then])
                    return true;
            }
        }
        return has_flags() && heard_of(then, lane_then, warp, lane);
    }
    // Whether the last barrier of all threads came between.
    [[nodiscard]] bool before_barrier(const Stamp& then) const {
        return then.block == block_ && then.time <= floor_;
    }
    // Whether fences and flags may order what barriers do not.
    [[nodiscard]] bool has_flags() const { return known_ || !threads_.empty(); }
    // Whether it would, were the lanes of a warp to move together.
    [[nodiscard]] bool lockstep(const Stamp& then, uint32_t lane_then, uint32_t warp,
                                uint32_t lane) const;

    // These lanes of a warp now execute together, without the others.
    void converge(uint32_t warp, sim::LaneMask lanes) {
        if (warps_[warp].together != lanes) part(warp, lanes);
    }

    void synchronize(uint32_t warp, sim::LaneMask lanes);
    // `everyone`: the barrier is one of all threads, and these wait for it.
    void arrive(uint32_t warp, sim::LaneMask lanes, uint32_t barrier, bool everyone, bool waits);
    void complete(uint32_t barrier);

    // What these lanes make visible to their cluster by arriving at its barrier; `relaxed`: only
    // what fences have.
    [[nodiscard]] ClockPtr release(uint32_t warp, sim::LaneMask lanes, bool relaxed);
    // All threads of the block know this.
    void learn(const ClockPtr& clock) { known_ = join(known_, clock); }

    void fence(uint32_t warp, sim::LaneMask lanes, Scope scope);
    // A strong write or atomic of scope `scope`; `releases`: with .release.
    void publish(Published& at, uint32_t warp, uint32_t lane, Scope scope, bool releases);
    void acquire(const Published& at, uint32_t warp, uint32_t lane, Scope scope);

  private:
    using Pairs = std::array<std::array<uint32_t, sim::warp_size>, sim::warp_size>;
    struct Together {
        sim::LaneMask lanes = 0;
        uint32_t until = 0;
    };
    static constexpr size_t most_together = 16;
    struct Lanes {  // of a warp
        uint32_t floor = 0;
        sim::LaneMask existing = 0;
        sim::LaneMask together = 0;
        std::unique_ptr<Pairs> pairs;  // [i][j]: lane i knows what j did up to then
        std::array<Together, most_together> recent;
        uint32_t parted = 0;  // how often
    };
    // What a thread has made visible by fences: its own accesses up to `time`, and a clock.
    struct Fenced {
        uint32_t time = 0;
        ClockPtr clock;
    };
    struct Thread {
        ClockPtr known;
        Fenced fenced[2];  // by Scope
    };
    struct Arrivals {
        struct Group {
            uint32_t warp;
            sim::LaneMask lanes;
        };
        std::vector<Group> waiting;
        bool everyone = true;
        ClockPtr known, fenced[2];
    };

    void part(uint32_t warp, sim::LaneMask lanes);
    [[nodiscard]] bool heard_of(const Stamp& then, uint32_t lane_then, uint32_t warp,
                                uint32_t lane) const;
    Thread& thread(uint32_t warp, uint32_t lane);
    // What these lanes know together of the others; and their own accesses up to now.
    [[nodiscard]] ClockPtr heard(uint32_t warp, sim::LaneMask lanes) const;
    [[nodiscard]] ClockPtr snapshot(uint32_t warp, sim::LaneMask lanes) const {
        return join(heard(warp, lanes), {{block_, warp, lanes, now_}});
    }
    [[nodiscard]] ClockPtr fenced(uint32_t warp, sim::LaneMask lanes, int scope) const;

    uint32_t block_ = 0, now_ = 1, floor_ = 0, warp_count_ = 0;
    std::vector<Lanes> warps_;
    std::vector<Thread> threads_;  // empty until a fence or flag is met
    ClockPtr known_, fenced_[2];   // what all threads know, and have made visible
    std::array<Arrivals, 16> arrivals_;
};

}  // namespace coalesce::analysis
