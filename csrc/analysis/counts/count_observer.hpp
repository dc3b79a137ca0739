// Counts how often each instruction of a kernel is executed, and what its memory accesses cost.
//
// Each host thread of a launch has a CountObserver. At the end of the launch, add_to() adds the
// counts of all of them to the Counts of the launch (counts.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/counts/access_costs.hpp"
#include "analysis/counts/counts.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::analysis {

class CountObserver {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::start | sim::Hook::segment |
                                        sim::Hook::diverged | sim::Hook::access | sim::Hook::copied;

    explicit CountObserver(const sim::Program& program)
        : program_(program),
          runs_(program.ops.size()),
          diverged_(program.instructions.size()),
          guarded_(program.instructions.size()),
          costs_(program) {}

    // Observers that come after this one may set the pointers to null, if they need all events.
    void start(sim::Block& block) {
        for (sim::Warp& w : block.warps) {
            w.global_repetitions = w.shared_repetitions = costs_.repetitions();
            w.guarded_lanes = guarded_.data();
        }
    }

    void segment(const sim::Warp&, uint32_t op, sim::LaneMask mask) {
        ++runs_[op].executed;
        runs_[op].threads += count_lanes(mask);
    }

    // A branch around an EXIT does not count as divergence, because lanes that exit never
    // reconverge.
    void diverged(const sim::Warp&, const sim::Op& op) { diverged_[op.pc] += !op.skips_guarded(); }

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (e.of) [[unlikely]] {
            costs_.add_distant(e);
            return;
        }
        if (e.access == sim::Access::async_copy) [[unlikely]]
            costs_.leave_out(w.current.mask & ~e.mask);
        wavefronts_ = costs_.add(e);
    }

    void copied(const sim::Warp& w, const sim::CopyEvent& e) { costs_.add_bulk(w, e); }

    // Returns the number of wavefronts of the last access to shared memory. Observers that come
    // after this one in the list of observers may call this function.
    [[nodiscard]] uint32_t wavefronts() const { return wavefronts_; }

    // Returns run_of() the last access, if it was to global memory.
    [[nodiscard]] model::LaneRun run(const sim::MemoryEvent& e) const { return costs_.run(e); }
    // Returns the lines of the last access, or null if its cost was known without them.
    [[nodiscard]] const model::RequestLines* lines() const { return costs_.lines(); }

    // Adds everything counted to `counts`.
    void add_to(Counts& counts) const;

  private:
    struct Runs {
        uint64_t executed = 0, threads = 0;
    };

    const sim::Program& program_;
    std::vector<Runs> runs_;  // the index is the op at which a segment starts
    // For each instruction: how often lanes diverged at it (InstructionCounts::diverged).
    std::vector<uint64_t> diverged_;
    std::vector<uint64_t> guarded_;  // Warp::guarded_lanes
    AccessCosts costs_;
    uint32_t wavefronts_ = 0;
};
static_assert(sim::Observer<CountObserver>);

}  // namespace coalesce::analysis
