// Runs one warp of a block: executes its operations, and lets the scheduler choose the path that
// runs next.
//
// METHOD
// A segment is a sequence of operations up to the next branch, call, barrier or similar operation.
// Its operations are executed one after the other without any test. Only the last one needs the
// scheduler. A warp runs until all its paths wait or its slice ends. A slice is a limited number of
// operations.
//
// This loop is compiled once for all observers. It announces events through a table of functions,
// as memory instructions do. Most events are rare. Only the start of a segment is frequent.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/grid_state.hpp"
#include "sim/launch.hpp"
#include "sim/observer.hpp"
#include "sim/scheduler.hpp"

namespace coalesce::sim {

inline constexpr int64_t slice_ops = 1 << 16;
// A slice is stalled if no path of the warp ended or began to wait during this slice. After this
// many consecutive stalled slices of a block, lanes that wait for reconvergence continue without
// the lanes for which they wait (free_waiting_lanes).
inline constexpr int most_stalled_slices = 32;

// The functions by which a worker announces events to an observer. A function is null if the
// observer does not listen to the event. (Memory instructions use Announcements instead.)
struct ControlEvents {
    void (*start)(void*, Block&);
    void (*finish)(void*, const Block&);
    void (*segment)(void*, const Warp&, uint32_t op, LaneMask);
    void (*diverged)(void*, const Warp&, const Op&);
    void (*call)(void*, const Warp&);
    void (*synchronized)(void*, const Warp&, const Op&);
    void (*arrive)(void*, const Warp&, const Op&, uint32_t barrier);
    void (*complete)(void*, const Block&, uint32_t barrier);
};

template <Observer O>
inline constexpr ControlEvents control_events_of = [] {
    ControlEvents e{};
    if constexpr (O::hooks.has(Hook::start))
        e.start = [](void* o, Block& b) { static_cast<O*>(o)->start(b); };
    if constexpr (O::hooks.has(Hook::finish))
        e.finish = [](void* o, const Block& b) { static_cast<O*>(o)->finish(b); };
    if constexpr (O::hooks.has(Hook::segment))
        e.segment = [](void* o, const Warp& w, uint32_t op, LaneMask mask) {
            static_cast<O*>(o)->segment(w, op, mask);
        };
    if constexpr (O::hooks.has(Hook::diverged))
        e.diverged = [](void* o, const Warp& w, const Op& op) {
            static_cast<O*>(o)->diverged(w, op);
        };
    if constexpr (O::hooks.has(Hook::call))
        e.call = [](void* o, const Warp& w) { static_cast<O*>(o)->call(w); };
    if constexpr (O::hooks.has(Hook::synchronized))
        e.synchronized = [](void* o, const Warp& w, const Op& op) {
            static_cast<O*>(o)->synchronized(w, op);
        };
    if constexpr (O::hooks.has(Hook::arrive))
        e.arrive = [](void* o, const Warp& w, const Op& op, uint32_t barrier) {
            static_cast<O*>(o)->arrive(w, op, barrier);
        };
    if constexpr (O::hooks.has(Hook::complete))
        e.complete = [](void* o, const Block& b, uint32_t barrier) {
            static_cast<O*>(o)->complete(b, barrier);
        };
    return e;
}();

// Refers to an observer of any type. The observer must live as long as the worker.
struct AnyObserver {
    template <Observer O>
    explicit AnyObserver(O& observer)
        : object(&observer), memory(&announcements_to<O>), control(&control_events_of<O>) {}
    void* object;
    const Announcements* memory;
    const ControlEvents* control;
};

class WarpRunner {
  public:
    WarpRunner(const Program& program, const Launch& launch, const AnyObserver& observer,
               GridState& grid);

    // Runs paths of the warp until none can run, or the slice ends.
    void run(Warp& w);
    // Call this after most_stalled_slices. Lanes that wait for reconvergence continue, in all warps
    // of the block: any of them may have the lock for which the others wait. Returns true if there
    // were such lanes.
    bool free_lanes(Block& block);
    // Executes the next operation of the running path of the warp.
    void execute_one(Warp& w);

    // The worker reads and resets the following members.
    bool spun = false;  // the last warp that ran ended its slice in a loop that only reads memory
    bool short_slices = false;  // lanes or blocks of this kernel have waited for each other
    int stalled_slices = 0;     // consecutive stalled slices of the running block
    // The number of warps of the block that only read memory during their last slice.
    uint32_t watching_warps = 0;
    // A waiting loop only reads memory until another thread changes it. If the waiting loop that
    // was executed last reads the barrier of the grid, this is the branch of the loop. Otherwise
    // null.
    const Op* grid_barrier = nullptr;

  private:
    void run_current(Warp& w);
    // Executes the operation at the end of a segment. The loop over segments contains this code.
    [[gnu::always_inline]] inline void step(Warp& w, const Op& op, uint32_t at);
    void synchronize(Warp& w, const Op& op, uint32_t at);
    void barrier(Warp& w, const Op& op, uint32_t at);
    void branch(Warp& w, const Op& op, uint32_t at);
    void go_back_or_on(Warp& w, const Op& op, const Branch& to);

    void entered(const Warp& w) const {
        if (events_.call) events_.call(observer_, w);
    }
    void opened(const Block& block, uint32_t barrier) const {
        if (events_.complete) events_.complete(observer_, block, barrier);
    }
    void cluster_opened(const Warp& w) const;
    void diverged(const Warp& w, const Op& op) const {
        if (events_.diverged) events_.diverged(observer_, w, op);
    }

    // Ends the current slice.
    void end_turn() { left_ = 0; }
    // Returns the number of operations in a slice. If the launch has an instruction limit, a slice
    // must not execute many instructions more than the limit allows. Each instruction has at least
    // one operation. So the slice then has at most one operation more than the number of
    // instructions that the limit still allows.
    [[nodiscard]] int64_t slice() const;
    void end_slice(const Block& block);

    const Program& program_;
    const Launch& launch_;
    GridState& grid_;
    void* observer_;
    const ControlEvents& events_;
    int64_t left_ = 0;  // how many operations of the current slice remain
    // If the launch has an instruction limit: the instructions that were executed in this slice.
    int64_t instructions_ = 0;
    // The instructions from each operation to the end of its segment. Empty if there is no limit.
    std::vector<uint32_t> instructions_to_end_;
    bool spins_ = false;  // lanes of this kernel have waited for other lanes of their warp
};

}  // namespace coalesce::sim
