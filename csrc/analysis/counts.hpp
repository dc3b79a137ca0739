// Counting: what each instruction of a kernel executed and moved.
//
// The numbers have Nsight Compute's names and meaning. They are of the instructions of the program
// that ran: the machine code where it could be lifted (csrc/sass), else the PTX, whose instructions
// the assembler merges and drops. docs/accuracy.md sets them beside a GPU's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/access_costs.hpp"
#include "analysis/cache_replay.hpp"
#include "analysis/instruction_counts.hpp"
#include "analysis/trace.hpp"
#include "model/time.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

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
    std::vector<InstructionCounts> instructions;  // by instruction
    std::shared_ptr<const Listing> listing;       // of the same instructions
    // Adds the counts of other blocks or launches of the same kernel; LaunchError if it is another.
    void add(const Counts& other);
    bool operator==(const Counts& other) const;
    // Sums over the instructions of a space and kind.
    [[nodiscard]] InstructionCounts sum(ptx::Space space, sim::Access access) const;
    [[nodiscard]] uint64_t executed() const;
    [[nodiscard]] uint64_t threads() const;
    // What the time model needs, of a grid of `blocks` of `warps` on buffers of `buffer_bytes`
    // (work.cpp).
    [[nodiscard]] model::Work work(uint64_t blocks, uint32_t warps, uint64_t buffer_bytes,
                                   const sim::MachineCode* machine = nullptr,
                                   const CacheResult* caches = nullptr) const;
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
    // `groups`, if there are any, are added up apart; `recorder`, if there is one, keeps events;
    // `caches` replays them.
    explicit CountObserver(const sim::Program& program, GroupedCounts* groups = nullptr,
                           Recorder* recorder = nullptr, CacheReplay* caches = nullptr)
        : program_(program),
          groups_(groups),
          recorder_(recorder),
          caches_(caches),
          runs_(program.ops.size()),
          parted_(program.instructions.size()),
          contended_(program.instructions.size()),
          costs_(program),
          met_(program.instructions.size(), !(recorder && recorder->wants_firsts())) {}

    void start(sim::Block& block) {
        block.observed = recorder_ ? recorder_->begin(block) : nullptr;
        if (!caches_) return;
        if (auto requests = caches_->begin(block)) requests_[&block] = std::move(requests);
        turn_to(&block);
    }

    void finish(const sim::Block& block) {
        if (block.observed) recorder_->end(block.linear);
        if (const auto found = requests_.find(&block); found != requests_.end()) {
            caches_->end(block, std::move(found->second));
            requests_.erase(found);
            turn_to(nullptr);
        }
        if (!swapping_.empty())
            swapping_.erase(swapping_.lower_bound({&block, 0}),
                            swapping_.upper_bound({&block, UINT64_MAX}));
        if (groups_) flush(block);
    }

    void segment(const sim::Warp& w, uint32_t op, sim::LaneMask mask) {
        ++runs_[op].executed;
        runs_[op].threads += count_lanes(mask);
        if (caches_) [[unlikely]]
            execute(w, program_.segment_end[op] - op);
    }

    // Lanes that leave (@P0 EXIT: a branch around it) meet nobody any more.
    void parted(const sim::Warp&, const sim::Op& op) { parted_[op.pc] += op.extra == 0; }

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (w.block->observed) [[unlikely]]
            static_cast<BlockTrace*>(w.block->observed)->record(w, e);
        if (!met_[e.pc]) [[unlikely]]
            meet(w, e);
        if (e.access == sim::Access::async_copy) costs_.leave_out(w.current.mask & ~e.mask);
        if (costs_.spins(e)) contend(w, e);
        const uint32_t wavefronts = costs_.add(e);
        if (caches_ && e.space != ptx::Space::constant) {
            if (w.block != current_) turn_to(w.block);
            if (current_requests_) current_requests_->add(w, e, wavefronts);
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

    void execute(const sim::Warp& w, uint32_t operations) {
        if (w.block != current_) turn_to(w.block);
        if (current_requests_) current_requests_->execute(w, operations);
    }

    // Keeps the first event of an instruction, for exemplars.
    void meet(const sim::Warp& w, const sim::MemoryEvent& e) {
        met_[e.pc] = true;
        TraceEvent& first = firsts_[e.pc] = trace_event(w, e);
        first.step = TraceEvent::unknown_step;
    }

    // Notes which warps of a block compare and swap at one address.
    void contend(const sim::Warp& w, const sim::MemoryEvent& e);

    void flush(const sim::Block& block);

    // The block whose requests come now: some that wait for each other take turns.
    void turn_to(const sim::Block* block) {
        const auto found = requests_.find(block);
        current_ = block;
        current_requests_ = found == requests_.end() ? nullptr : found->second.get();
    }

    const sim::Program& program_;
    GroupedCounts* groups_;
    Recorder* recorder_;
    CacheReplay* caches_;
    std::unordered_map<const sim::Block*, std::unique_ptr<BlockRequests>> requests_;
    const sim::Block* current_ = nullptr;
    BlockRequests* current_requests_ = nullptr;
    std::vector<Runs> runs_;        // by op at which a segment starts
    std::vector<uint64_t> parted_;  // by instruction, as InstructionCounts has it
    std::vector<uint64_t> contended_;
    std::map<std::pair<const sim::Block*, uint64_t>, const sim::Warp*> swapping_;  // by address
    AccessCosts costs_;
    std::vector<uint8_t> met_;  // by instruction: nothing to keep any more
    std::map<uint32_t, TraceEvent> firsts_;
};

}  // namespace coalesce::analysis
