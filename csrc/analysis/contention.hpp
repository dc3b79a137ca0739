// Who notes which warps of a block compare and swap at one address of shared memory.
//
// METHOD
// The assembler makes a loop of compare-and-swap of some atomics (ATOMS.CAST.SPIN). How often it
// turns depends on the other warps of the block that swap at the same address, and so differs from
// run to run; so does what it makes of memory that nobody wrote. Counts of such a kernel are not
// called exact (Python's _exactness).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analysis/counts.hpp"
#include "sim/observer.hpp"

namespace coalesce::analysis {

class ContentionObserver {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::access | sim::Hook::finish;

    explicit ContentionObserver(const sim::Program& program, GroupedCounts* groups = nullptr);

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (spins_[e.pc]) [[unlikely]]
            contend(w, e);
    }

    void finish(const sim::Block& block);

    // As of CountObserver.
    void add_to(Counts& counts) const;
    void clear();

  private:
    void contend(const sim::Warp& w, const sim::MemoryEvent& e);

    GroupedCounts* groups_;
    std::vector<uint8_t> spins_;                                                   // by instruction
    std::vector<uint64_t> contended_;                                              // by instruction
    std::map<std::pair<const sim::Block*, uint64_t>, const sim::Warp*> swapping_;  // by address
};
static_assert(sim::Observer<ContentionObserver>);

}  // namespace coalesce::analysis
