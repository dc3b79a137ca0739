// Adds the cost of each memory access of a warp to the counts of its instruction.
//
// The rules for sectors and wavefronts are in csrc/model (coalescing.hpp, banks.hpp). Most accesses
// of a kernel repeat an earlier access at other addresses, and cost the same. To save time, this
// class computes the cost of such an access once, and counts the repetitions.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "analysis/counts/instruction_counts.hpp"
#include "model/banks.hpp"
#include "model/coalescing.hpp"
#include "model/lane_run.hpp"
#include "model/request_lines.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/repetition.hpp"

namespace coalesce::analysis {

// Returns the number of active lanes. The most frequent case (all lanes are active) is tested
// first. On hosts whose baseline instruction set has no bit count, this saves a function call in
// std::popcount.
[[nodiscard]] inline uint32_t count_lanes(sim::LaneMask mask) {
    return mask == sim::all_lanes ? uint32_t(sim::warp_size) : uint32_t(std::popcount(mask));
}

class AccessCosts {
  public:
    explicit AccessCosts(const sim::Program& program);

    // Adds the cost of an access. Returns the number of its shared-memory wavefronts, which is 0
    // for other memory.
    uint32_t add(const sim::MemoryEvent& e) {
        has_lines_ = false;
        run_.lanes = 0;
        const bool global = e.space == ptx::Space::global;
        const Pattern pattern = pattern_of(e, global);
        if (pattern != irregular && (global || e.space == ptx::Space::shared) && !is_copy(e))
            [[likely]] {
            uint64_t& times = regular_[e.pc].times[global][pattern];
            ++times;
            const uint32_t wavefronts = global               ? 0
                                        : pattern == uniform ? 1
                                                             : uint32_t(model::groups_of(e.bytes));
            const bool placed = global && pattern == consecutive;
            repetitions_[e.pc] = {.stride = sim::lane_stride(e),
                                  .place_bits = placed ? model::line_bytes - 1 : 0,
                                  .wavefronts = wavefronts,
                                  .times = &times};
            return wavefronts;
        }
        // This is a short way for repeated accesses with a constant stride.
        if (e.shape != sim::Shape::scattered && repeated_[e.pc] && !is_copy(e)) {
            Repeated& known = repeated_[e.pc]->repeated[hash_of(e)];
            if (known.is_like(e)) {
                ++known.times;
                describe(e, known);
                return known.wavefronts;
            }
        }
        return add_irregular(e);
    }

    // Adds an access to the shared memory of another block of the cluster. Such an access uses
    // neither the shared memory nor the L1 of this block, so no wavefronts and no sectors are
    // counted. Only its bytes are counted, because Nsight Compute counts the bytes of all accesses
    // with generic addresses.
    void add_distant(const sim::MemoryEvent& e) { add_generic_bytes(sites_[e.pc], e); }

    // Adds a copy by the copy engine. Its data do not pass through L1. The data that a multicast
    // delivers count once for each block that gets them.
    void add_bulk(const sim::Warp& w, const sim::CopyEvent& e);

    // Call this before add() of an asynchronous copy, with the lanes that its guard (its predicate)
    // excludes. These lanes copy nothing. But if the copy bypasses L1, Nsight Compute counts them,
    // too, with the addresses that are in their registers.
    void leave_out(sim::LaneMask lanes) { left_out_ = lanes; }

    // Returns one entry for each instruction: the last access that was passed to add(), if this
    // access has a constant stride. If the next access repeats it, the caller can increase the
    // counter of the entry, and need not call add().
    [[nodiscard]] const sim::Repetition* repetitions() const { return repetitions_.data(); }

    // Returns the run of lanes of the access to global memory that was passed to add() last.
    [[nodiscard]] model::LaneRun run(const sim::MemoryEvent& e) const {
        return e.shape == sim::Shape::scattered && !is_copy(e) ? run_ : model::run_of(e);
    }
    // Returns the lines of the access that was passed to add() last. Returns null if its cost was
    // known without them, or if it is not an access to global memory.
    [[nodiscard]] const model::RequestLines* lines() const {
        return has_lines_ ? &lines_ : nullptr;
    }

    // Returns the counts of instruction `i`. The members `executed` and `threads` are not set.
    [[nodiscard]] InstructionCounts of(size_t i) const;

  private:
    // The patterns of regular accesses. All regular accesses of an instruction with the same
    // pattern cost the same, whatever their addresses are. Regular accesses are frequent, and only
    // their number is kept. All lanes are active.
    enum Pattern : uint8_t {
        uniform,      // all lanes use the same address
        consecutive,  // neighbouring lanes use neighbouring addresses; in global memory, the first
                      // address is the start of a line
        apart,        // in global memory: the stride is a multiple of the size of a line. So each
                      // lane uses a line, and a sector, of its own.
        irregular,
    };
    static Pattern pattern_of(const sim::MemoryEvent& e, bool global) {
        constexpr auto line_bytes = int64_t{model::line_bytes};
        switch (e.shape) {
            case sim::Shape::uniform:
                return uniform;
            case sim::Shape::consecutive:
                return !global || e.first % model::line_bytes == 0 ? consecutive : irregular;
            case sim::Shape::strided:
                return global && e.stride % line_bytes == 0 ? apart : irregular;
            case sim::Shape::scattered:
                break;
        }
        return irregular;
    }
    // The number of regular accesses of an instruction. The first index selects shared or global
    // memory. The second index is the pattern.
    struct Regular {
        uint64_t times[2][irregular] = {};
    };

    // An irregular access of an instruction to shared or global memory, and how often it was
    // repeated. An access counts as a repetition if all its addresses are shifted by the same
    // multiple of 128 bytes. Such a shift does not change the cost. Each address keeps its bank,
    // because the 32 banks of 4 bytes repeat every 128 bytes. It also keeps its place in its line,
    // because a line has 128 bytes. If the stride is constant, other shifts do not change the cost,
    // either; see place_of().
    //
    // An access with a constant stride is described by this struct alone. It is small, so that the
    // accesses that are compared stay in the host's cache.
    struct Repeated {
        // how often the access was made, including the first time
        uint64_t times = 0;
        int64_t stride = 0;       // 0 if the shape is not strided
        sim::LaneMask mask = 0;   // 0: there was no access
        uint32_t wavefronts = 0;  // of one access
        uint8_t place = 0;        // place_of() the access; 0 if the shape is scattered
        ptx::Space space = ptx::Space::shared;
        sim::Shape shape = sim::Shape::scattered;

        // Returns true if the access is a repetition of this one. If the shape is scattered, the
        // addresses must be compared, too.
        [[nodiscard]] bool is_like(const sim::MemoryEvent& e) const {
            return e.shape == shape && e.space == space && e.mask == mask &&
                   (e.shape == sim::Shape::scattered ||
                    (place_of(e) == place &&
                     (e.shape != sim::Shape::strided || e.stride == stride)));
        }
    };
    // The cost of a repeated access. Also its addresses, if its shape is scattered, and the source
    // addresses of an asynchronous copy.
    struct Details {
        InstructionCounts cost;
        uint64_t addresses[sim::warp_size] = {};
        uint64_t sources[sim::warp_size] = {};
    };
    // The remembered accesses of one instruction. Several are remembered, because several warps
    // execute the instruction in turn. The warps often have different address patterns, and each
    // warp repeats its own pattern. An access is remembered at its hash, or at one of the next few
    // places. If all of them are taken, it replaces the access at its hash.
    struct Patterns {
        static constexpr size_t count = 64;
        std::array<Repeated, count> repeated;
        // Made when they are needed. Most instructions need only a few of them.
        std::array<std::unique_ptr<Details>, count> details;

        [[nodiscard]] bool has(size_t n, const sim::MemoryEvent& e) const;
        void add_to(InstructionCounts& total, size_t n) const;
    };
    // Returns the part of the first address that affects the cost of an access with a constant
    // stride. In global memory, this is the place in a line. In shared memory, all banks are alike,
    // so only the place in a word can matter. For an asynchronous copy, the place in a line matters
    // (model/copies.hpp).
    static uint64_t place_of(const sim::MemoryEvent& e) { return e.first % unit_of(e); }
    static uint64_t unit_of(const sim::MemoryEvent& e) {
        return e.space == ptx::Space::shared && !e.sources ? model::word_bytes : model::line_bytes;
    }
    // Returns a hash of the place of an access and of the differences between its addresses. If one
    // access is a repetition of another (see Repeated), both have the same hash.
    static size_t hash_of(uint64_t place, uint64_t differences) {
        return ((differences << 7 ^ place) * 0x9e3779b97f4a7c15) >> 58;
    }
    static size_t hash_of(const sim::MemoryEvent& e) {
        return e.shape == sim::Shape::scattered
                   ? hash_of_lanes(e)
                   : hash_of(place_of(e), uint64_t(sim::lane_stride(e)));
    }
    static size_t hash_of_lanes(const sim::MemoryEvent& e);
    static size_t entry_of(const Patterns& patterns, const sim::MemoryEvent& e, bool& is_known);

    uint32_t add_irregular(const sim::MemoryEvent& e);
    uint32_t add_run(const sim::MemoryEvent& e);
    uint32_t add_compared(const sim::MemoryEvent& e, const sim::MemoryEvent& like);
    void add(InstructionCounts& c, const sim::MemoryEvent& e) const;
    void add_global(InstructionCounts& c, const sim::MemoryEvent& e) const;

    // Describes the access `e`, which is remembered in `known`, as the last one of its instruction.
    void describe(const sim::MemoryEvent& e, Repeated& known) {
        if (e.shape == sim::Shape::scattered || e.mask != sim::all_lanes) {
            repetitions_[e.pc] = {};
            return;
        }
        repetitions_[e.pc] = {.stride = sim::lane_stride(e),
                              .place_bits = unit_of(e) - 1,
                              .place = known.place,
                              .wavefronts = known.wavefronts,
                              .times = &known.times};
    }

    static bool is_copy(const sim::MemoryEvent& e) { return e.access == sim::Access::async_copy; }
    void add_shared(InstructionCounts& c, const sim::MemoryEvent& e) const;
    void add_generic_bytes(InstructionCounts& c, const sim::MemoryEvent& e) const;
    // Adds one of the two events of an asynchronous copy: first the read, then the write.
    void add_copy(InstructionCounts& c, const sim::MemoryEvent& e) const;
    void add_bypassing(InstructionCounts& c, const sim::MemoryEvent& source,
                       const sim::MemoryEvent& target) const;

    [[nodiscard]] const sim::Traits& traits(const sim::MemoryEvent& e) const {
        return program_.instructions[e.pc].traits;
    }

    const sim::Program& program_;
    std::vector<Regular> regular_;  // counts of the regular accesses, by instruction
    // The remembered irregular accesses of each instruction, or null if it had none.
    std::vector<std::unique_ptr<Patterns>> repeated_;
    std::vector<InstructionCounts> sites_;      // counts of all other accesses, by instruction
    std::vector<sim::Repetition> repetitions_;  // by instruction
    // The lines of the last access, if its cost was computed from them (`has_lines_`).
    mutable model::RequestLines lines_;
    mutable bool has_lines_ = false;
    model::LaneRun run_;          // of the last access, if its shape is scattered
    sim::LaneMask left_out_ = 0;  // lanes that the guard of the next copy excludes
    // The instruction and the reading lanes of the current asynchronous copy.
    uint32_t copy_ = 0;
    sim::LaneMask readers_ = 0;
};

}  // namespace coalesce::analysis
