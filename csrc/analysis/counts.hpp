// Counting: what each instruction of a kernel executed and moved.
//
// The numbers have Nsight Compute's names and meaning, counted on PTX instructions: where ptxas
// merges or removes instructions the hardware's counts of *instructions* differ, those of requests
// and sectors of global memory do not (they follow the addresses).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/trace.hpp"
#include "model/banks.hpp"
#include "model/coalescing.hpp"
#include "model/time.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

// Of one PTX instruction.
struct InstructionCounts {
    uint64_t executed = 0;    // warp instructions
    uint64_t threads = 0;     // of them, active threads
    uint64_t requests = 0;    // memory: executed with at least one active thread
    uint64_t accesses = 0;    // memory: lanes that accessed
    uint64_t bytes = 0;       // memory: requested by lanes
    uint64_t sectors = 0;     // global, local
    uint64_t lines = 0;       // global, local
    uint64_t wavefronts = 0;  // shared
    uint64_t ideal = 0;       // sectors or wavefronts a packed access of this width takes
    // Of generic accesses that were to several spaces, one: global before shared before local.
    ptx::Space space = ptx::Space::generic;
    sim::Access access = sim::Access::load;
    void add(const InstructionCounts& other);
    bool operator==(const InstructionCounts&) const = default;
};

// The numbers of an InstructionCounts by name, for tables and files.
struct Counter {
    const char* name;
    uint64_t InstructionCounts::* value;
};
inline constexpr Counter counters[] = {
    {"executed", &InstructionCounts::executed}, {"threads", &InstructionCounts::threads},
    {"requests", &InstructionCounts::requests}, {"accesses", &InstructionCounts::accesses},
    {"bytes", &InstructionCounts::bytes},       {"sectors", &InstructionCounts::sectors},
    {"lines", &InstructionCounts::lines},       {"wavefronts", &InstructionCounts::wavefronts},
    {"ideal", &InstructionCounts::ideal},
};

// The kernel that was counted, as tables of counts show it.
struct Listing {
    std::string kernel;
    uint32_t source_file = 0;               // key of `files`: the file the kernel is in
    std::map<uint32_t, std::string> files;  // of SourceLine
    std::vector<sim::InstructionInfo> instructions;
    bool operator==(const Listing&) const = default;
};

[[nodiscard]] std::shared_ptr<const Listing> listing_of(const sim::Program& program);

struct Counts {
    std::vector<InstructionCounts> instructions;  // by PTX instruction
    std::shared_ptr<const Listing> listing;       // of the same instructions
    // Adds the counts of other blocks or launches of the same kernel; LaunchError if it is another.
    void add(const Counts& other);
    bool operator==(const Counts& other) const;
    // Sums over the instructions of a space and kind.
    [[nodiscard]] InstructionCounts sum(ptx::Space space, sim::Access access) const;
    [[nodiscard]] uint64_t executed() const;
    [[nodiscard]] uint64_t threads() const;
    // What the time model needs, of a grid of `blocks` on buffers of `buffer_bytes`.
    [[nodiscard]] model::Work work(uint64_t blocks, uint64_t buffer_bytes) const;
    // By Nsight Compute's names.
    [[nodiscard]] std::map<std::string, double> metrics() const;
};

// The counts of blocks that are added up apart.
struct GroupedCounts {
    std::unordered_map<uint64_t, uint32_t> group_of;  // by linear block number
    std::vector<Counts> groups;
    std::mutex mutex;
};

// The observer: one a host thread, added up afterwards.
class CountObserver : public sim::SilentObserver {
  public:
    // `groups`, if there are any, are added up apart; `recorder`, if there is one, keeps events.
    explicit CountObserver(const sim::Program& program, GroupedCounts* groups = nullptr,
                           Recorder* recorder = nullptr)
        : program_(program),
          groups_(groups),
          recorder_(recorder),
          runs_(program.ops.size()),
          sites_(program.instructions.size()),
          met_(program.instructions.size(), !(recorder && recorder->wants_firsts())) {}

    void start(sim::Block& block) {
        block.observed = recorder_ ? recorder_->begin(block) : nullptr;
    }

    void finish(const sim::Block& block) {
        if (block.observed) recorder_->end(block.linear);
        if (groups_) flush(block);
    }

    void segment(const sim::Warp&, uint32_t op, sim::LaneMask mask) {
        ++runs_[op].executed;
        runs_[op].threads += uint64_t(std::popcount(mask));
    }

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        InstructionCounts& c = sites_[e.pc];
        if (w.block->observed) [[unlikely]]
            static_cast<BlockTrace*>(w.block->observed)->record(w, e);
        if (c.requests == 0) [[unlikely]]
            meet(w, e);
        if (e.access == sim::Access::async_copy && e.space == ptx::Space::shared) return;
        const uint32_t lanes = uint32_t(std::popcount(e.mask));
        c.space = std::max(c.space, e.space);
        c.access = e.access;
        ++c.requests;
        c.accesses += lanes;
        c.bytes += uint64_t(lanes) * e.bytes;
        if (e.space == ptx::Space::shared) {
            c.wavefronts += model::wavefronts(e);
            c.ideal += model::least_wavefronts(e);
        } else {
            add_footprint(c, e, lanes);
        }
    }

    // Adds what this thread saw, and was not yet added to a group, to the counts of the grid.
    void add_to(Counts& counts) const;

    // The first event of each instruction that this thread saw.
    [[nodiscard]] const std::map<uint32_t, TraceEvent>& firsts() const { return firsts_; }

  private:
    struct Runs {
        uint64_t executed = 0, threads = 0;
    };

    static void add_footprint(InstructionCounts& c, const sim::MemoryEvent& e, uint32_t lanes) {
        c.ideal += (uint64_t(lanes) * e.bytes + model::sector_bytes - 1) / model::sector_bytes;
        if (e.space == ptx::Space::local) {
            // A thread's local memory is interleaved by words, so equal offsets are neighbours.
            uint64_t addresses[sim::warp_size];
            sim::MemoryEvent interleaved = e;
            interleaved.shape = sim::Shape::scattered;
            interleaved.addresses = addresses;
            sim::for_each_lane(
                e.mask, [&](int i) { addresses[i] = e.address(i) / 4 * 128 + uint64_t(i) * 4; });
            const model::Footprint f = model::footprint(interleaved);
            const uint32_t words = std::max(1, e.bytes / 4);
            c.sectors += f.sectors * words;
            c.lines += f.lines * words;
            return;
        }
        const model::Footprint f = model::footprint(e);
        // A reduction of several lanes at one address is sent once a lane.
        const bool repeated = e.access == sim::Access::reduction && e.shape == sim::Shape::uniform;
        c.sectors += repeated ? lanes : f.sectors;
        c.lines += f.lines;
    }

    // Keeps the first event of an instruction, for exemplars.
    void meet(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (met_[e.pc]) return;
        met_[e.pc] = true;
        TraceEvent& first = firsts_[e.pc] = trace_event(w, e);
        first.step = TraceEvent::unknown_step;
    }

    void flush(const sim::Block& block);

    const sim::Program& program_;
    GroupedCounts* groups_;
    Recorder* recorder_;
    std::vector<Runs> runs_;                // by op at which a segment starts
    std::vector<InstructionCounts> sites_;  // by instruction; `executed` and `threads` unused
    std::vector<bool> met_;                 // by instruction: nothing to keep any more
    std::map<uint32_t, TraceEvent> firsts_;
};

}  // namespace coalesce::analysis
