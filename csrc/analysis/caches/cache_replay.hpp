// Replays the memory accesses of a launch through models of the caches, to count hits and misses.
//
// METHOD
// While a block runs on the simulator, the requests of each warp are recorded. When the block ends,
// its requests are replayed through a model of L1 (l1_replay.hpp). This replay decides which
// requests L1 sends to L2, and at which L1 cycle. These requests are kept.
//
// A model of the GPU's schedule (model/block_schedule.hpp) decides when each block starts. Then it
// sends the kept requests of all blocks to L2 (l2_replay.hpp), in the order in which a GPU would
// run the blocks.
//
// Usually, most blocks make the same requests as an earlier block, but in another part of each
// array (block_requests.hpp). For these blocks, the replay of the earlier block is used again.
//
// Host threads replay the L1 of their own blocks at the same time. Only one of them at a time
// replays L2. The others do not wait for it, unless very many requests are kept.
//
// Large launches request many lines from L2. Then L2 handles only the requests for a sample of the
// lines. The sample consists of all lines of some sets of the modelled L2. Only lines of the same
// set compete with each other. So these sets get exactly the requests that they would get without
// sampling. The counts of L2 are estimated from the sample. Two counts do not depend on the size of
// L2, and include all requests. They are the requested sectors, and the sectors that must be read
// from DRAM at least once (model/caches/first_reads.hpp).
//
// If replaying the whole grid would take too long, only its first blocks are replayed. Their number
// is at least twice the number of blocks that the GPU holds at once. The blocks that are not
// replayed are assumed to send as many requests as the replayed blocks. Their hits in L2 and their
// DRAM traffic are assumed to be those of the second half of the replayed blocks, because L2 is
// empty at first.
//
// EXAMPLE
// A grid has 10,000 blocks, and the GPU holds 264 of them at once. The first 264 blocks look up
// 100,000 lines each in L1, so about 3,000 blocks may be replayed (`max_lines`). Each block sends
// requests for 20 lines to L2, that is, 60,000 in all. So L2 gets half of the lines as a sample.
// Blocks 0 to 2999 are replayed. Each of the other 7,000 blocks counts like one of the blocks 1500
// to 2999 for L2 hits and DRAM, and like an average block for the requests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "analysis/caches/block_requests.hpp"
#include "analysis/caches/cache_result.hpp"
#include "analysis/counts/count_observer.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::model {
class AtomicUnits;
struct ReplayedBlock;
struct Gpu;
struct Occupancy;
}  // namespace coalesce::model

namespace coalesce::analysis {

// Replays the caches for one launch. The host threads of the launch share this object.
class CacheReplay {
  public:
    // `max_lines` limits how long the replay takes: it is approximately the maximum number of lines
    // that the replay looks up in L1 caches.
    CacheReplay(const sim::Program& program, const sim::GridRun& launch, const model::Gpu& gpu,
                const model::Occupancy& occupancy, uint64_t max_lines = 300'000'000);
    ~CacheReplay();

    // Returns the object that records a block's requests, or null if the block is not replayed.
    // `spare` is the object of a finished block, to be reused; it may be null.
    [[nodiscard]] std::unique_ptr<BlockRequests> begin(const sim::Block& block,
                                                       std::unique_ptr<BlockRequests> spare);
    void end(const sim::Block& block, BlockRequests& requests);

    // Returns the result. Call this function once, after the last block.
    [[nodiscard]] CacheResult finish();

  private:
    void decide();
    [[nodiscard]] std::shared_ptr<const L1Result> replay(const sim::Block& block,
                                                         BlockRequests& requests);
    void keep_to_compare(const std::shared_ptr<RecordedBlock>& recorded);
    [[nodiscard]] bool keep(const sim::Block& block, const BlockRequests& requests,
                            std::shared_ptr<const L1Result> result);
    void advance(bool ended);
    bool fill(bool ended);
    void run_slice();

    const model::Gpu& gpu_;
    const uint64_t blocks_;
    const uint32_t resident_;  // number of blocks that a multiprocessor holds
    const uint32_t share_bytes_;
    const uint64_t max_lines_;
    std::vector<CacheSite> sites_;  // the properties of each instruction
    bool has_barriers_ = false;

    // Protects the following members.
    std::mutex mutex_;
    uint64_t limit_;  // number of blocks to replay
    uint64_t first_round_ = 0, first_round_ended_ = 0, first_round_lines_ = 0;
    uint64_t first_round_requests_ = 0;  // requests to L2, one for each line
    // L2 handles only the requests for 1 / 2^sample_ of the lines (L2Cache::is_in_sample).
    uint32_t sample_ = 0;
    // The results of the L1 replay for blocks that have not started in the modelled schedule yet.
    // The key is the block number.
    struct Waiting {
        std::shared_ptr<const model::ReplayedBlock> filtered;
        std::vector<uint64_t> origins;
    };
    std::map<uint64_t, Waiting> waiting_;
    // The last blocks with different requests, with which the next blocks are compared. Empty if
    // there are none yet, or if the comparisons have failed too often.
    std::vector<std::shared_ptr<RecordedBlock>> known_;
    uint64_t equal_ = 0, different_ = 0;  // numbers of blocks
    size_t waiting_requests_ = 0;  // the number of elements of ReplayedBlock::traffic in `waiting_`
    std::vector<Misses> misses_;   // misses, by instruction
    std::vector<uint64_t> cycles_;  // BlockRequests::cycles(), summed over the blocks
    uint64_t blocks_ended_ = 0, warps_ended_ = 0;
    uint64_t operations_ = 0;  // operations of all warps
    // The operations of the slowest warp of each block, summed over the blocks.
    uint64_t most_in_blocks_ = 0;
    uint64_t most_ = 0;  // the most operations of one warp

    // Null if the program has no atomics. It has its own lock.
    std::unique_ptr<model::AtomicUnits> atomics_;

    // Protects the following members. A thread that needs both locks takes this one first.
    std::mutex machine_mutex_;
    struct Machine;                     // the multiprocessors, and the L2 that they share
    std::unique_ptr<Machine> machine_;  // null until the first blocks have ended
    uint64_t next_block_ = 0, retired_ = 0;
    model::CacheCounts l1_counts_;  // L1 counts of the retired blocks
    // The counts of L2 at the time when half of the blocks had ended.
    model::CacheCounts at_half_;
    uint64_t retired_at_half_ = 0;
};

// Records accesses for the replay. CacheObserver asks CountObserver for the number of wavefronts of
// each access to shared memory, and for the lines of an access to global memory. Therefore
// CountObserver must come before CacheObserver in the list of observers.
class CacheObserver {
  public:
    static constexpr sim::Hooks hooks = sim::Hook::start | sim::Hook::finish | sim::Hook::segment |
                                        sim::Hook::access | sim::Hook::repeated;

    CacheObserver(const sim::Program& program, CacheReplay& replay, const CountObserver& counts)
        : program_(program), replay_(replay), counts_(counts) {}

    void start(sim::Block& block) {
        if (auto requests = replay_.begin(block, std::move(spare_)))
            requests_[&block] = std::move(requests);
        select(&block);
    }

    void finish(const sim::Block& block) {
        const auto entry = requests_.find(&block);
        if (entry == requests_.end()) return;
        replay_.end(block, *entry->second);
        spare_ = std::move(entry->second);
        requests_.erase(entry);
        select(nullptr);
    }

    void segment(const sim::Warp& w, uint32_t op, sim::LaneMask) {
        if (w.block != current_) select(w.block);
        if (current_requests_) current_requests_->execute(w, program_.segment_end[op] - op);
    }

    void access(const sim::Warp& w, const sim::MemoryEvent& e) {
        if (e.space == ptx::Space::constant || e.of) [[unlikely]]
            return;
        if (w.block != current_) [[unlikely]]
            select(w.block);
        if (current_requests_) [[likely]]
            current_requests_->add(w, e, counts_.wavefronts(), counts_.run(e), counts_.lines());
    }

    void repeated(const sim::Warp& w, const sim::Op& op, sim::Access access, int64_t stride,
                  uint64_t first) {
        if (w.block != current_) [[unlikely]]
            return repeated_elsewhere(w, op, access, stride, first);
        if (current_requests_) [[likely]]
            current_requests_->add(w, op, access, stride, first);
    }

  private:
    // The same as repeated(), for a warp of another block than before. It is a function of its own,
    // so that repeated() need not save registers.
    [[gnu::noinline]] void repeated_elsewhere(const sim::Warp& w, const sim::Op& op,
                                              sim::Access access, int64_t stride, uint64_t first) {
        select(w.block);
        repeated(w, op, access, stride, first);
    }
    // Switches to the requests of another block. A worker alternates between blocks if they wait
    // for each other.
    [[gnu::noinline]] void select(const sim::Block* block) {
        const auto entry = requests_.find(block);
        current_ = block;
        current_requests_ = entry == requests_.end() ? nullptr : entry->second.get();
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
