// The caches of a GPU fed with what the blocks of a launch access, in the order a GPU starts them.
//
// METHOD
// While a block runs on the simulator its requests are kept, warp by warp. When it ends they are
// replayed in turn, a request of each warp, through an L1: the block's share of that
// of its multiprocessor, as several blocks are there at once. The requests of L1 to
// L2, with the time in cycles of L1, wait until the block's turn comes.
//
// Shared memory only takes its time. Where a kernel has barriers its warps stay together; else they
// drift apart, so they start as many requests after each other as chance wants.
//
// L2 sees the grid as the GPU runs it (model/block_schedule.hpp), and of the reads of
// neighbouring multiprocessors those that are not under way (model/request_coalescer.hpp).
//
// Where replaying the whole grid would take too long, its first blocks are replayed, at least two
// rounds of as many as the GPU holds, and what the second half of them did stands for the rest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "analysis/count_observer.hpp"
#include "model/caches.hpp"
#include "sim/observer.hpp"

namespace coalesce::model {
class AtomicUnits;
struct Filtered;
}  // namespace coalesce::model

namespace coalesce::analysis {

// How often an instruction's loads missed L1.
struct Misses {
    uint64_t requests = 0;
    uint64_t missed = 0;  // of them, with at least one line that was not there
    uint64_t lines = 0;   // that were not there
    uint64_t read = 0;    // of such lines, asked of L2
    uint64_t slow = 0;    // of them, answered by DRAM, or while DRAM was bringing them
    uint64_t cycles = 0;  // of L1, for all its requests
    void add(const Misses& other);
    [[nodiscard]] double cycles_a_request() const { return double(cycles) / double(requests); }
};

// What the replay found, of the whole grid.
struct CacheResult {
    model::CacheCounts counts;
    std::vector<Misses> misses;  // by instruction, of the blocks that were replayed
    // Operations that a warp executed, of the blocks that were replayed: on the average, of a
    // block's slowest on the average, and of the slowest of all.
    double operations = 0, most_in_block = 0, most = 0;
    double atomics = 0;  // cycles that L2 takes for them

    // Of an instruction; null if no request of it was replayed.
    [[nodiscard]] const Misses* misses_of(size_t instruction) const {
        const bool known = instruction < misses.size() && misses[instruction].requests;
        return known ? &misses[instruction] : nullptr;
    }
    uint64_t blocks_replayed = 0, blocks = 0;
};

// The requests of one block.
class BlockRequests {
  public:
    explicit BlockRequests(uint32_t warps) : warps_(warps) {}
    // Of shared memory only how many wavefronts it takes is kept.
    void add(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t wavefronts) {
        OfWarp& own = warps_[warp.index];
        own.wavefronts += wavefronts;
        if (e.space != ptx::Space::shared) add(own, e);
    }
    // So many operations were executed.
    void execute(const sim::Warp& warp, uint32_t operations) {
        warps_[warp.index].operations += operations;
    }

  private:
    friend class CacheReplay;
    struct Request {
        // The address of lane 0 or, of some lanes or scattered ones, their place; of a pause its
        // cycles.
        uint64_t first;
        int32_t stride;  // of all lanes, or the mask
        uint32_t pc : 31;
        uint32_t scattered : 1;
    };
    static constexpr uint32_t pause = (1u << 31) - 1;  // pc of what is no request
    struct OfWarp {
        std::vector<Request> requests;
        uint64_t wavefronts = 0;  // of shared memory, since the last of them
        uint64_t operations = 0;
    };
    void add(OfWarp& own, const sim::MemoryEvent& e);
    void clear();
    std::vector<OfWarp> warps_;
    std::vector<uint64_t> addresses_;
    std::vector<model::FirstLevel::Place> places_;  // of lines, a row for a request
};

// One a launch, shared by its host threads.
class CacheReplay {
  public:
    // `most_lines` bounds the lines that are looked up in first-level caches, roughly.
    CacheReplay(const sim::Program& program, const sim::Launch& launch, const model::Gpu& gpu,
                const model::Occupancy& occupancy, uint64_t most_lines = 300'000'000);
    ~CacheReplay();

    // The place for a block's requests, or null where it is not replayed. `spare` is that of a
    // block that has ended, if there is one.
    [[nodiscard]] std::unique_ptr<BlockRequests> begin(const sim::Block& block,
                                                       std::unique_ptr<BlockRequests> spare);
    void end(const sim::Block& block, BlockRequests& requests);

    // Once, after the last block.
    [[nodiscard]] CacheResult finish();

  private:
    [[nodiscard]] model::Filtered filter(const sim::Block& block, BlockRequests& requests,
                                         std::vector<Misses>& misses) const;
    [[nodiscard]] int lines_of(const sim::Block& block, uint32_t warp,
                               const BlockRequests& requests, const BlockRequests::Request& r,
                               model::LineAccess* lines) const;
    // Calls `use(mask, address of a lane)`, of the lanes of a request.
    template <class Use>
    auto with_lanes(const BlockRequests& requests, const BlockRequests::Request& r,
                    Use&& use) const;
    void decide();
    void advance(bool ended);
    bool fill(bool ended);
    void run_slice();

    // What an instruction does to the caches.
    enum class Effect : uint8_t { load, load_past, store, atomic };

    const sim::Program& program_;
    const uint64_t blocks_;
    const uint32_t resident_;  // blocks of a multiprocessor
    const uint32_t share_bytes_;
    const uint64_t most_lines_;
    std::vector<Effect> effects_;       // by instruction
    std::vector<uint8_t> adds_floats_;  // by instruction: an atomic that does
    bool has_barriers_ = false;

    std::mutex mutex_;
    uint64_t limit_;  // blocks to replay
    uint64_t first_round_ = 0, first_round_ended_ = 0, first_round_lines_ = 0;
    std::map<uint64_t, std::shared_ptr<const model::Filtered>> waiting_;  // by block
    std::unique_ptr<model::AtomicUnits> atomics_;
    struct Machine;  // the multiprocessors and what they share
    std::unique_ptr<Machine> machine_;
    uint64_t next_block_ = 0, retired_ = 0;
    model::CacheCounts first_levels_;  // of the blocks that have retired
    std::vector<Misses> misses_;       // by instruction
    // Of the blocks in them: warps, what they executed, and the most of each block and of all.
    uint64_t blocks_ended_ = 0, warps_ended_ = 0, operations_ = 0, most_in_blocks_ = 0, most_ = 0;
    model::CacheCounts at_half_;  // of L2
    uint64_t retired_at_half_ = 0;
};

// Keeps what the blocks access for the replay. CountObserver stands before it in the list: its
// wavefronts are the time that accesses to shared memory take.
class CacheObserver {
  public:
    static constexpr sim::Hooks hooks =
        sim::Hook::start | sim::Hook::finish | sim::Hook::segment | sim::Hook::access;

    CacheObserver(const sim::Program& program, CacheReplay& replay, const CountObserver& counts)
        : program_(program), replay_(replay), counts_(counts) {}

    void start(sim::Block& block) {
        if (auto requests = replay_.begin(block, std::move(spare_)))
            requests_[&block] = std::move(requests);
        turn_to(&block);
    }

    void finish(const sim::Block& block) {
        const auto found = requests_.find(&block);
        if (found == requests_.end()) return;
        replay_.end(block, *found->second);
        spare_ = std::move(found->second);
        requests_.erase(found);
        turn_to(nullptr);
    }

    void segment(const sim::Warp& w, uint32_t op, sim::LaneMask) {
        if (w.block != current_) turn_to(w.block);
        if (current_requests_) current_requests_->execute(w, program_.segment_end[op] - op);
    }

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (e.space == ptx::Space::constant || e.of) return;
        if (w.block != current_) turn_to(w.block);
        if (current_requests_) current_requests_->add(w, e, counts_.wavefronts());
    }

  private:
    // The block whose requests come now: some that wait for each other take turns.
    void turn_to(const sim::Block* block) {
        const auto found = requests_.find(block);
        current_ = block;
        current_requests_ = found == requests_.end() ? nullptr : found->second.get();
    }

    const sim::Program& program_;
    CacheReplay& replay_;
    const CountObserver& counts_;
    std::unordered_map<const sim::Block*, std::unique_ptr<BlockRequests>> requests_;
    std::unique_ptr<BlockRequests> spare_;
    const sim::Block* current_ = nullptr;
    BlockRequests* current_requests_ = nullptr;
};
static_assert(sim::Observer<CacheObserver>);

}  // namespace coalesce::analysis
