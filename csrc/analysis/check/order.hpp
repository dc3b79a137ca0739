// The happens-before order: decides whether an access of a thread certainly happens before an
// access of another thread. This order follows from the memory model of PTX, and not from the order
// in which the simulator executes the threads.
//
// METHOD
// Threads are ordered only by what the PTX memory model requires (PTX ISA, "Memory Consistency
// Model"). A strong access is, for example, an atomic or a volatile access.
// - bar.sync orders the threads that take part: the whole block, or the threads of a named barrier.
// - bar.warp.sync orders the lanes of its mask. shfl, vote and match order nothing.
// - barrier.cluster orders the threads of a cluster. Accesses of a thread before it arrives happen
//   before accesses of all these threads after the barrier.
// - A fence followed by a strong write or atomic starts a synchronization. If a strong read of
//   another thread sees the written value, accesses before the fence happen before accesses after
//   the read. .release and .acquire have the same effect.
//
// In one documented pattern, the block that ends last adds up the results of all blocks (CUDA C++
// Programming Guide, "Memory Fence Functions"). Two rules accept this pattern. A fence before a
// barrier also counts for the other threads after the barrier. No fence is required after the read,
// unless the read is a compare-and-swap, with which a thread takes a lock.
//
// Accesses of different blocks are otherwise unordered. Each block counts its own time (clock.hpp).
// One number, `floor`, is the time of the last barrier of the block. All accesses up to this time
// happen before the accesses that follow. This number is enough for nearly every query. Each warp
// also has its own `floor`, for the last synchronization of the whole warp. Kernels that
// synchronize only some lanes, or use fences or flags, also need times for pairs of lanes, and
// clocks.
//
// Lanes may execute an instruction together, but this does not order their accesses. Before compute
// capability 7.0, it did, because the lanes of a warp ran in lockstep. lockstep() returns true if
// two accesses would be ordered under this older rule.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/check/clock.hpp"
#include "sim/memory/lanes.hpp"
#include "sim/ptx_analysis/traits.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::analysis {

// An access in shadow memory: its thread, instruction and time. Time 0 means that there is no
// access. One stamp may stand for the accesses to several granules of a row (shadow.hpp), if only
// their lanes differ: then the lane of granule i is `lane` + (i >> `shift`).
struct Stamp {
    uint32_t block : 27 = 0;  // the number of the block, from 1 on
    // For a read, another lane that read the same granule. For a write, a set of flags.
    uint32_t extra : 5 = 0;
    uint32_t time : 29 = 0;
    uint32_t shift : 3 = 0;
    uint32_t pc : 20 = 0;
    uint32_t warp : 5 = 0;
    uint32_t lane : 5 = 0;
    // One bit per ThreadScope: set if the thread took a lock before the access and executed no
    // fence of this scope in between; see BlockOrder::unfenced().
    uint32_t unfenced : 2 = 0;

    // The value of `shift` if one lane accessed all the granules.
    static constexpr uint32_t one_lane = 5;
    [[nodiscard]] uint32_t lane_at(uint32_t granule) const {
        return (lane + (granule >> shift)) % 32;
    }
    [[nodiscard]] uint32_t extra_at(uint32_t granule) const {
        return (extra + (granule >> shift)) % 32;
    }
};
static_assert(sizeof(Stamp) == 12);
inline constexpr uint64_t max_blocks = (1u << 27) - 2;
inline constexpr uint64_t max_instructions = 1u << 20;
inline constexpr uint32_t max_time = (1u << 29) - 1;

using sim::ThreadScope;

// The accesses that the writers of a location made visible (published). A thread that reads the
// location with a strong read is ordered after these accesses.
struct Published {
    ClockPtr to_device;  // visible to every block
    ClockPtr to_block;   // additionally visible to the block `block`
    uint32_t block = 0;
};

// The order of the accesses of one block.
class BlockOrder {
  public:
    void start(uint32_t block, uint32_t threads);

    [[nodiscard]] uint32_t block() const { return block_; }
    [[nodiscard]] uint32_t now() const { return now_; }

    // Returns true if the earlier access `then`, by lane `lane_then`, happens before what `lane` of
    // `warp` does now.
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
        return has_flags() && knows_of(then, lane_then, warp, lane);
    }
    // Returns true if all threads of the block have passed a barrier after the access.
    [[nodiscard]] bool before_barrier(const Stamp& then) const {
        return then.block == block_ && then.time <= floor_;
    }
    // Returns true if all lanes of the warp have synchronized with each other after the access.
    [[nodiscard]] bool before_sync_of_warp(const Stamp& then, uint32_t warp) const {
        return then.block == block_ && then.warp == warp && then.time <= warps_[warp].floor;
    }
    // Returns the time of the last synchronization of the whole warp.
    [[nodiscard]] uint32_t floor_of(uint32_t warp) const { return warps_[warp].floor; }
    // Returns true if some lanes of the warp have synchronized without the others.
    [[nodiscard]] bool has_pairs(uint32_t warp) const { return warps_[warp].pairs != nullptr; }
    // Returns the time of the last barrier of the block.
    [[nodiscard]] uint32_t floor() const { return floor_; }
    // Returns true if the block has used fences or flags, which may order more than barriers do.
    [[nodiscard]] bool has_flags() const { return known_ || !threads_.empty(); }
    // Returns true if lanes that run in lockstep would order the access.
    [[nodiscard]] bool lockstep(const Stamp& then, uint32_t lane_then, uint32_t warp,
                                uint32_t lane) const;

    // Records that from now on these lanes of a warp execute together, without the others.
    void converge(uint32_t warp, sim::LaneMask lanes) {
        if (warps_[warp].together != lanes) regroup(warp, lanes);
    }

    void synchronize(uint32_t warp, sim::LaneMask lanes);
    // Call this when lanes arrive at a barrier. `everyone` is true if the barrier is for all
    // threads of the block. `waits` is false if these lanes only arrive at the barrier and do not
    // wait.
    void arrive(uint32_t warp, sim::LaneMask lanes, uint32_t barrier, bool everyone, bool waits);
    void complete(uint32_t barrier);

    // Returns the accesses that these lanes make visible when they arrive at their cluster's
    // barrier. If `relaxed` is true, these are only the accesses that fences have already made
    // visible.
    [[nodiscard]] ClockPtr release(uint32_t warp, sim::LaneMask lanes, bool relaxed);
    // Adds the events in `clock` to the events that all threads of the block know.
    void add_knowledge(const ClockPtr& clock) { known_ = join(known_, clock); }

    void fence(uint32_t warp, sim::LaneMask lanes, ThreadScope scope);
    // Call this for a strong write or atomic with this scope. `releases` is true if the instruction
    // has .release. Returns true if the thread has executed a fence of this scope, or releases.
    bool publish(Published& at, uint32_t warp, uint32_t lane, ThreadScope scope, bool releases);
    // Returns true if publish() has something to make visible for a write that does not release.
    [[nodiscard]] bool has_published() const { return fenced_[0] || !threads_.empty(); }
    // Call this for a strong read or atomic. If `needs_fence` is true, the thread is ordered after
    // the published accesses only when it has executed a fence.
    void acquire(const Published& at, uint32_t warp, uint32_t lane, ThreadScope scope,
                 bool needs_fence);
    // Returns true if unfenced() is not 0 for a lane of the warp.
    [[nodiscard]] bool took_lock(uint32_t warp) const { return warps_[warp].unfenced[1] != 0; }
    // Returns the scopes of which the thread has executed no fence after an acquire(..., true), as
    // Stamp::unfenced.
    [[nodiscard]] uint32_t unfenced(uint32_t warp, uint32_t lane) const {
        return (warps_[warp].unfenced[0] >> lane & 1) | (warps_[warp].unfenced[1] >> lane & 1) << 1;
    }
    // Returns true if the access would be ordered if each thread had executed a fence after it took
    // the lock that protects the access.
    [[nodiscard]] bool needs_fence(const Stamp& then, uint32_t lane_then, uint32_t warp,
                                   uint32_t lane) const;

  private:
    using Pairs = std::array<std::array<uint32_t, sim::warp_size>, sim::warp_size>;
    struct Together {
        sim::LaneMask lanes = 0;
        uint32_t until = 0;
    };
    static constexpr size_t max_together = 16;
    struct Lanes {  // the state of one warp
        uint32_t floor = 0;
        sim::LaneMask existing = 0;
        sim::LaneMask together = 0;
        sim::LaneMask unfenced[2] = {};  // see unfenced()
        // pairs[i][j] is a time: lane i knows everything that lane j did up to this time. Null if
        // `floor` suffices.
        std::unique_ptr<Pairs> pairs;
        std::array<Together, max_together> recent;
        uint32_t regrouped = 0;  // number of entries written to `recent`
    };
    // The accesses that a thread has made visible with fences. These are the thread's own accesses
    // up to `time`, and the accesses of other threads in `clock`.
    struct Fenced {
        uint32_t time = 0;
        ClockPtr clock;
    };
    struct Thread {
        ClockPtr known;
        ClockPtr awaiting[2];  // known after a fence of this scope; indexed by ThreadScope
        ClockPtr by_lock;      // the part of `known` that came through a lock
        Fenced fenced[2];      // indexed by ThreadScope
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

    void regroup(uint32_t warp, sim::LaneMask lanes);
    [[nodiscard]] bool knows_of(const Stamp& then, uint32_t lane_then, uint32_t warp,
                                uint32_t lane) const;
    [[nodiscard]] bool lacks_fence(const Stamp& then) const {
        const ThreadScope scope = then.block == block_ ? ThreadScope::block : ThreadScope::device;
        return then.unfenced >> int(scope) & 1;
    }
    Thread& thread(uint32_t warp, uint32_t lane);
    // Returns the events of other threads that at least one of these lanes knows. snapshot() also
    // adds the lanes' own accesses up to now.
    [[nodiscard]] ClockPtr knowledge(uint32_t warp, sim::LaneMask lanes) const;
    [[nodiscard]] ClockPtr snapshot(uint32_t warp, sim::LaneMask lanes) const {
        return join(knowledge(warp, lanes), {{block_, warp, lanes, now_}});
    }
    [[nodiscard]] ClockPtr fenced(uint32_t warp, sim::LaneMask lanes, int scope) const;

    uint32_t block_ = 0, now_ = 1, floor_ = 0, warp_count_ = 0;
    std::vector<Lanes> warps_;
    std::vector<Thread> threads_;  // empty before the first fence or flag
    // `known_` has the events that are known to all threads of the block. `fenced_` has the events
    // that all threads have made visible with fences.
    ClockPtr known_, fenced_[2];
    std::array<Arrivals, sim::barrier_count> arrivals_;
};

}  // namespace coalesce::analysis
