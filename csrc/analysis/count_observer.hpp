// Who counts: what each instruction of a kernel executed and what its accesses cost.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/access_costs.hpp"
#include "analysis/counts.hpp"
#include "sim/observer.hpp"

namespace coalesce::analysis {

class CountObserver {
  public:
    static constexpr sim::Hooks hooks =
        sim::Hook::segment | sim::Hook::diverged | sim::Hook::access | sim::Hook::finish;

    // What `groups`, if there are any, has a place for is added up there.
    explicit CountObserver(const sim::Program& program, GroupedCounts* groups = nullptr)
        : program_(program),
          groups_(groups),
          runs_(program.ops.size()),
          parted_(program.instructions.size()),
          costs_(program) {}

    void finish(const sim::Block& block) {
        if (groups_) groups_->take(block, *this);
    }

    void segment(const sim::Warp&, uint32_t op, sim::LaneMask mask) {
        ++runs_[op].executed;
        runs_[op].threads += count_lanes(mask);
    }

    // Lanes that leave (@P0 EXIT: a branch around it) meet nobody any more.
    void diverged(const sim::Warp&, const sim::Op& op) { parted_[op.pc] += !op.skips_guarded(); }

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (e.of) return;  // what the hardware counts there is not known
        if (e.access == sim::Access::async_copy) costs_.leave_out(w.current.mask & ~e.mask);
        wavefronts_ = costs_.add(e);
    }

    // Of shared memory, that the last access took: for observers that come behind this one.
    [[nodiscard]] uint32_t wavefronts() const { return wavefronts_; }

    // Adds what this thread saw since the last clear() to the counts.
    void add_to(Counts& counts) const;
    void clear();

  private:
    struct Runs {
        uint64_t executed = 0, threads = 0;
    };

    const sim::Program& program_;
    GroupedCounts* groups_;
    std::vector<Runs> runs_;        // by op at which a segment starts
    std::vector<uint64_t> parted_;  // by instruction, as InstructionCounts has it
    AccessCosts costs_;
    uint32_t wavefronts_ = 0;
};
static_assert(sim::Observer<CountObserver>);

}  // namespace coalesce::analysis
