// The caches of a GPU fed with what the blocks of a launch access, in the order a GPU starts them.
//
// METHOD
// While a block runs on the simulator its requests are kept, warp by warp. When it ends they are
// replayed in turn, a request of each warp, through a first-level cache: the block's share of that
// of its multiprocessor, as several blocks are there at once. What the first level asks the second
// for, with the time in cycles of the first level, waits until the block's turn comes.
//
// The second level sees the grid as the GPU runs it: block b is on multiprocessor b modulo their
// number, as many at once as there is room for, the next one when one ends. Time passes in slices.
// Of the blocks of a multiprocessor the older ones get more of it, as its schedulers prefer older
// warps: so blocks that started together drift apart.
//
// Where replaying the whole grid would take too long, its first blocks are replayed, at least two
// rounds of as many as the GPU holds, and what the second half of them did stands for the rest.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "model/caches.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

// What the replay found, of the whole grid.
struct CacheResult {
    model::CacheCounts counts;
    uint64_t blocks_replayed = 0, blocks = 0;
};

// The requests of one block.
class BlockRequests {
  public:
    explicit BlockRequests(uint32_t warps) : warps_(warps) {}
    void add(const sim::Warp& warp, const sim::MemoryEvent& e);

  private:
    friend class CacheReplay;
    struct Request {
        uint64_t first;  // the address of lane 0 or, of some lanes or scattered ones, their place
        int32_t stride;  // of all lanes, or the mask
        uint32_t pc : 31;
        uint32_t scattered : 1;
    };
    std::vector<std::vector<Request>> warps_;
    std::vector<uint64_t> addresses_;
};

// One a launch, shared by its host threads.
class CacheReplay {
  public:
    // `most_lines` bounds the lines that are looked up in first-level caches, roughly.
    CacheReplay(const sim::Program& program, const sim::Launch& launch, const model::Gpu& gpu,
                const model::Occupancy& occupancy, uint64_t most_lines = 300'000'000);

    // The place for a block's requests, or null where it is not replayed.
    [[nodiscard]] std::unique_ptr<BlockRequests> begin(const sim::Block& block);
    void end(const sim::Block& block, std::unique_ptr<BlockRequests> requests);

    // Once, after the last block.
    [[nodiscard]] CacheResult finish();

  private:
    // What a block's first level did.
    struct Filtered {
        model::CacheCounts counts;
        std::vector<model::Traffic> traffic;
        uint32_t cycles = 0;
        uint64_t lines = 0;
    };
    // A block on its multiprocessor.
    struct Running {
        uint64_t block = 0;
        std::shared_ptr<const Filtered> filtered;
        size_t next = 0;
        double time = 0;
    };

    [[nodiscard]] Filtered filter(const sim::Block& block, const BlockRequests& requests) const;
    [[nodiscard]] int lines_of(const sim::Block& block, uint32_t warp,
                               const BlockRequests& requests, const BlockRequests::Request& r,
                               model::LineAccess* lines) const;
    void decide();
    void advance(bool ended);
    bool fill(bool ended);
    void run_slice();

    // What an instruction does to the caches.
    enum class Effect : uint8_t { load, load_past, store, atomic };

    const sim::Program& program_;
    const model::Gpu& gpu_;
    const uint64_t blocks_;
    const uint32_t resident_;  // blocks of a multiprocessor
    const uint32_t share_bytes_;
    const uint64_t most_lines_;
    std::vector<Effect> effects_;  // by instruction

    std::mutex mutex_;
    uint64_t limit_;  // blocks to replay
    uint64_t first_round_ = 0, first_round_ended_ = 0, first_round_lines_ = 0;
    std::map<uint64_t, std::shared_ptr<const Filtered>> waiting_;  // by block
    std::vector<std::deque<Running>> running_;  // by multiprocessor, oldest first
    uint64_t next_block_ = 0, retired_ = 0;
    model::SecondLevel second_;
    model::CacheCounts first_levels_;  // of the blocks that have retired
    model::CacheCounts at_half_;       // of the second level
    uint64_t retired_at_half_ = 0;
};

}  // namespace coalesce::analysis
