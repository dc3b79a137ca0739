// Finds warps of a block that compete with compare-and-swap for the same address of shared memory.
//
// METHOD
// The assembler implements some atomics as a loop around a compare-and-swap (ATOMS.CAST.SPIN). The
// number of iterations depends on other warps of the block that use the same address. Therefore the
// number differs from run to run. If the memory is uninitialized, the result of the atomic differs,
// too. A report does not call the counts of such kernels exact
// (python/coalesce/profiling/hardware/exactness.py).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analysis/counts/counts.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::analysis {

class ContentionObserver {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::access | sim::Hook::finish;

    explicit ContentionObserver(const sim::Program& program);

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        // Only atomics can be in such a loop. For other accesses, the look-up is left out.
        if (e.access == sim::Access::atomic && spins_[e.pc]) [[unlikely]]
            contend(w, e);
    }

    void finish(const sim::Block& block);

    // Adds everything counted to `counts`.
    void add_to(Counts& counts) const;

  private:
    void contend(const sim::Warp& w, const sim::MemoryEvent& e);

    // For each instruction: true if it is a compare-and-swap in such a loop.
    std::vector<uint8_t> spins_;
    // For each instruction: how often another warp may cause further iterations.
    std::vector<uint64_t> contended_;
    // The first warp that used each address of a block.
    std::map<std::pair<const sim::Block*, uint64_t>, const sim::Warp*> swapping_;
};
static_assert(sim::Observer<ContentionObserver>);

}  // namespace coalesce::analysis
