// What each access of a warp adds to the counts of its instruction, by the rules of the model.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "analysis/instruction_counts.hpp"
#include "model/banks.hpp"
#include "model/coalescing.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

// Whether an asynchronous copy goes past the first-level cache.
[[nodiscard]] bool bypasses_first_level(const sim::InstructionInfo& info);

class AccessCosts {
  public:
    explicit AccessCosts(const sim::Program& program);

    void add(const sim::MemoryEvent& e) {
        // Most accesses of tiled kernels, and all of the same cost: only their number is kept.
        if (e.space == ptx::Space::shared && e.shape != sim::Shape::scattered && !is_copy(e)) {
            Regular& r = regular_[e.pc];
            ++(e.shape == sim::Shape::uniform ? r.uniform : r.consecutive);
            return;
        }
        add(sites_[e.pc], e);
    }

    // What instruction `i` added up to; `executed` and `threads` are not counted here.
    [[nodiscard]] InstructionCounts of(size_t i) const;
    // Starts anew.
    void clear();

  private:
    // Accesses of shared memory of a kind, by all lanes.
    struct Regular {
        uint64_t uniform = 0, consecutive = 0;
    };

    void add(InstructionCounts& c, const sim::MemoryEvent& e) {
        if (is_copy(e)) return add_copy(c, e);
        c.space = std::max(c.space, e.space);
        add_request(c, e);
        if (e.space == ptx::Space::shared) {
            add_shared(c, e);
        } else if (e.space == ptx::Space::local) {
            add_local(c, e);
        } else {
            add_global(c, e);
        }
    }

    static bool is_copy(const sim::MemoryEvent& e) { return e.access == sim::Access::async_copy; }
    static bool is_atomic(const sim::MemoryEvent& e) {
        return e.access == sim::Access::atomic || e.access == sim::Access::reduction;
    }

    static void add_request(InstructionCounts& c, const sim::MemoryEvent& e) {
        const uint32_t lanes = uint32_t(std::popcount(e.mask));
        c.access = e.access;
        ++c.requests;
        c.accesses += lanes;
        c.bytes += uint64_t(lanes) * e.bytes;
    }

    static void add_wavefronts(InstructionCounts& c, const model::Wavefronts& w) {
        c.wavefronts += w.taken;
        c.theoretical_wavefronts += w.theoretical;
        c.ideal_wavefronts += w.ideal;
    }

    void add_shared(InstructionCounts& c, const sim::MemoryEvent& e) const {
        const model::Wavefronts w =
            is_atomic(e) ? model::atomic_wavefronts(e, atomics_[e.pc]) : model::wavefronts(e);
        add_wavefronts(c, w);
        c.ideal += w.ideal;
        ++c.shared_requests;
        if (generic_[e.pc])  // whose bytes Nsight Compute counts as of global memory
            c.distinct_bytes += uint64_t(model::footprint(e).elements) * e.bytes;
    }

    static void add_global(InstructionCounts& c, const sim::MemoryEvent& e) {
        const model::Footprint f = model::footprint(e);
        c.sectors += is_atomic(e) ? f.repeated : f.sectors;
        c.theoretical_sectors += f.sectors;
        c.lines += f.lines;
        c.ideal += std::min(f.sectors, model::packed_sectors(e));
        c.distinct_bytes += uint64_t(f.elements) * e.bytes;
    }

    // A thread's local memory is interleaved with that of its warp by words, so equal offsets are
    // neighbours.
    static void add_local(InstructionCounts& c, const sim::MemoryEvent& e) {
        uint64_t addresses[sim::warp_size];
        sim::MemoryEvent interleaved = e;
        interleaved.shape = sim::Shape::scattered;
        interleaved.addresses = addresses;
        sim::for_each_lane(e.mask, [&](int i) {
            addresses[i] = e.address(i) / 4 * model::line_bytes + uint64_t(i) * 4;
        });
        const model::Footprint f = model::footprint(interleaved);
        const uint32_t words = std::max(1, e.bytes / 4);
        c.sectors += f.sectors * words;
        c.theoretical_sectors += f.sectors * words;
        c.lines += f.lines * words;
        c.ideal += std::min(f.sectors * words, model::packed_sectors(e));
        // Nsight Compute takes the same offset of two threads for one address.
        c.distinct_bytes += uint64_t(model::footprint(e).elements) * e.bytes;
    }

    // An asynchronous copy is announced twice: what is read and then what is written.
    void add_copy(InstructionCounts& c, const sim::MemoryEvent& e);

    const sim::Program& program_;
    std::vector<Regular> regular_;              // by instruction
    std::vector<InstructionCounts> sites_;      // by instruction: all others
    std::vector<model::SharedAtomic> atomics_;  // by instruction
    std::vector<bool> generic_;                 // by instruction: only the address tells the space
    std::vector<bool> bypasses_;                // by instruction: copies past the first-level cache
    sim::MemoryEvent source_;                   // of the copy that is being announced
    uint64_t source_addresses_[sim::warp_size];
};

}  // namespace coalesce::analysis
