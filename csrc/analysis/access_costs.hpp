// The cost of each memory access of a warp, added to the counts of its instruction.
#pragma once

#include <bit>
#include <vector>

#include "analysis/instruction_counts.hpp"
#include "model/banks.hpp"
#include "model/coalescing.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

// The number of active lanes. Tests the most frequent case first, because std::popcount is a
// function call if the host's baseline instruction set has no bit count.
[[nodiscard]] inline uint32_t count_lanes(sim::LaneMask mask) {
    return mask == sim::all_lanes ? uint32_t(sim::warp_size) : uint32_t(std::popcount(mask));
}

class AccessCosts {
  public:
    explicit AccessCosts(const sim::Program& program);

    // Adds an access. Returns its wavefronts of shared memory (0 for other memory).
    uint32_t add(const sim::MemoryEvent& e) {
        // Regular accesses all have the same cost, and are frequent. Only their number is kept.
        const bool global = e.space == ptx::Space::global;
        const bool uniform = e.shape == sim::Shape::uniform;
        const bool regular =
            uniform || (e.shape == sim::Shape::consecutive &&
                        (!global || e.first % model::line_bytes == 0));  // aligned to a line
        if (regular && (global || e.space == ptx::Space::shared) && !is_copy(e)) {
            ++regular_[e.pc].times[global][uniform];
            return global ? 0 : uniform ? 1 : uint32_t(model::groups_of(e.bytes));
        }
        return add_irregular(e);
    }

    // An access to the shared memory of another block of the cluster. It takes no wavefronts and no
    // sectors of this block's L1. As of every access by a generic address, Nsight Compute counts
    // its bytes.
    void add_distant(const sim::MemoryEvent& e) { add_generic_bytes(sites_[e.pc], e); }

    // Called before a copy, with the lanes that its guard excludes. For copies that bypass L1,
    // Nsight Compute's formula counts these lanes as active, with the addresses that their
    // registers hold.
    void leave_out(sim::LaneMask lanes) { left_out_ = lanes; }

    // The counts of instruction `i`, without `executed` and `threads`.
    [[nodiscard]] InstructionCounts of(size_t i) const;
    // Sets all counts to zero.
    void clear();

  private:
    // Numbers of accesses by all lanes, as [shared, global][consecutive, uniform].
    struct Regular {
        uint64_t times[2][2] = {};
    };

    uint32_t add_irregular(const sim::MemoryEvent& e);
    void add(InstructionCounts& c, const sim::MemoryEvent& e) const;

    static bool is_copy(const sim::MemoryEvent& e) { return e.access == sim::Access::async_copy; }
    void add_shared(InstructionCounts& c, const sim::MemoryEvent& e) const;
    void add_generic_bytes(InstructionCounts& c, const sim::MemoryEvent& e) const;
    // An asynchronous copy is announced as two events: first the read, then the write.
    void add_copy(InstructionCounts& c, const sim::MemoryEvent& e);

    [[nodiscard]] const sim::Traits& traits(const sim::MemoryEvent& e) const {
        return program_.instructions[e.pc].traits;
    }

    const sim::Program& program_;
    std::vector<Regular> regular_;          // by instruction
    std::vector<InstructionCounts> sites_;  // by instruction: all other accesses
    sim::LaneMask left_out_ = 0;            // for the next copy
    sim::MemoryEvent source_;               // the first event of the current copy
    uint64_t source_addresses_[sim::warp_size];
};

}  // namespace coalesce::analysis
