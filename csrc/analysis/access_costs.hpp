// What each access of a warp adds to the counts of its instruction, by the rules of the model.
#pragma once

#include <bit>
#include <vector>

#include "analysis/instruction_counts.hpp"
#include "model/banks.hpp"
#include "model/coalescing.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

// How many lanes: mostly all, and counting bits is a call where the host's baseline cannot.
[[nodiscard]] inline uint32_t count_lanes(sim::LaneMask mask) {
    return mask == sim::all_lanes ? uint32_t(sim::warp_size) : uint32_t(std::popcount(mask));
}

class AccessCosts {
  public:
    explicit AccessCosts(const sim::Program& program);

    // Returns the wavefronts of shared memory that the access takes.
    uint32_t add(const sim::MemoryEvent& e) {
        // Most accesses, and all of the same cost: only their number is kept.
        const bool global = e.space == ptx::Space::global;
        const bool uniform = e.shape == sim::Shape::uniform;
        const bool regular =
            uniform || (e.shape == sim::Shape::consecutive &&
                        (!global || e.first % model::line_bytes == 0));  // a line starts with them
        if (regular && (global || e.space == ptx::Space::shared) && !is_copy(e)) {
            ++regular_[e.pc].times[global][uniform];
            return global ? 0 : uniform ? 1 : uint32_t(model::groups_of(e.bytes));
        }
        return add_irregular(e);
    }

    // Before a copy: the lanes that its guard leaves out. Nsight Compute's formula for copies past
    // L1 takes them for active ones that access what their registers hold.
    void leave_out(sim::LaneMask lanes) { left_out_ = lanes; }

    // What instruction `i` added up to; `executed` and `threads` are not counted here.
    [[nodiscard]] InstructionCounts of(size_t i) const;
    // Starts anew.
    void clear();

  private:
    // Accesses by all lanes, [of shared or global memory][consecutive or uniform].
    struct Regular {
        uint64_t times[2][2] = {};
    };

    uint32_t add_irregular(const sim::MemoryEvent& e);
    void add(InstructionCounts& c, const sim::MemoryEvent& e) const;

    static bool is_copy(const sim::MemoryEvent& e) { return e.access == sim::Access::async_copy; }
    void add_shared(InstructionCounts& c, const sim::MemoryEvent& e) const;
    // An asynchronous copy is announced twice: what is read and then what is written.
    void add_copy(InstructionCounts& c, const sim::MemoryEvent& e);

    [[nodiscard]] const sim::Traits& traits(const sim::MemoryEvent& e) const {
        return program_.instructions[e.pc].traits;
    }

    const sim::Program& program_;
    std::vector<Regular> regular_;          // by instruction
    std::vector<InstructionCounts> sites_;  // by instruction: all other accesses
    sim::LaneMask left_out_ = 0;            // of the copy that comes next
    sim::MemoryEvent source_;               // of the copy that is being announced
    uint64_t source_addresses_[sim::warp_size];
};

}  // namespace coalesce::analysis
