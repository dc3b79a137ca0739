// Replays the memory requests of one block through a model of L1.
//
// METHOD
// The warps of the block take turns: in each round, each warp replays one request. A multiprocessor
// holds several blocks, so each block gets its share of the multiprocessor's L1. Accesses to shared
// memory do not use L1, and only take time. If a kernel has barriers, its warps stay close
// together. Otherwise each warp starts after a pseudo-random number of rounds.
//
// Most requests are loads that have been made before: by another warp, or by another copy of the
// body of an unrolled loop. Such loads are remembered (Pattern). If L1 still has the lines of a
// remembered load, a repetition is replayed in a few steps, however many lines it has.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/block_requests.hpp"
#include "analysis/cache_result.hpp"
#include "model/block_schedule.hpp"
#include "model/caches.hpp"

namespace coalesce::model {
class AtomicUnits;
}  // namespace coalesce::model

namespace coalesce::analysis {

// The properties of an instruction that the replay needs.
struct CacheSite {
    // The effect on the caches. load_past means a load that bypasses L1.
    enum class Effect : uint8_t { load, load_past, store, atomic };
    Effect effect;
    uint8_t bytes;     // the bytes that each lane accesses
    bool local;        // accesses local memory
    bool adds_floats;  // an atomic that adds floating-point numbers
};

// Memory that the replay of one block leaves to the replay of the next block.
struct ReplayMemory {
    // A regular load that was replayed. Later loads are compared with it. The members that a
    // comparison reads are in one line of the host's cache.
    struct alignas(64) Pattern {
        uint64_t first = 0;
        int32_t stride = 0;
        uint8_t bytes = 0;    // 0: nothing is remembered
        uint8_t sectors = 0;  // the sectors that each line has (AlikeLines)
        uint32_t cycles = 0;  // L1 cycles of the load
        uint64_t loaded = 0;  // the number of sectors of all lines
        model::L1Cache::Group lines;
    };
    static constexpr uint32_t most_patterns = 512;

    // Remembers how many L1 cycles a request takes. Requests take equally long if they have the
    // same stride, the same number of bytes per lane, and the same lower bits in the first address.
    class CyclesByStride {
      public:
        template <class Compute>
        uint32_t of(uint64_t first, int32_t stride, uint32_t bytes, Compute&& compute);

      private:
        struct Entry {
            uint64_t key = 0;  // no request has this key, because each accesses at least one byte
            uint32_t cycles = 0;
        };
        std::array<Entry, 256> entries_;
    };

    explicit ReplayMemory(uint32_t l1_bytes) : l1(l1_bytes) {}

    model::L1Cache l1;
    std::vector<Pattern> patterns{most_patterns};  // the last load with each hash
    CyclesByStride cycles_by_stride;
    size_t traffic = 0;          // the number of elements of the last block's Filtered::traffic
    std::vector<Misses> misses;  // misses of the block, by instruction
};

// Describes the `count` lines of a regular request: the first line, and the distance `step` from
// each line to the next. The lanes access the same sectors in every line. If a request does not
// have this form, `count` is 0.
struct AlikeLines {
    model::LineAccess first;
    uint64_t step = 0;
    int count = 0;
};

class L1Replay {
  public:
    // `first_slot` is the number of warps whose local memory comes before that of the block's first
    // warp.
    L1Replay(BlockRequests& requests, const std::vector<CacheSite>& sites,
             model::AtomicUnits& atomics, uint64_t block, uint64_t first_slot, bool has_barriers);
    ~L1Replay();

    // Returns the counts and the requests to L2.
    [[nodiscard]] model::Filtered run();
    // Returns the misses of each instruction. Valid until the next block is replayed.
    [[nodiscard]] const std::vector<Misses>& misses() const { return misses_; }

  private:
    using MemoryRequest = BlockRequests::MemoryRequest;
    using Pattern = ReplayMemory::Pattern;
    using Effect = CacheSite::Effect;

    [[nodiscard]] static AlikeLines alike_lines(const MemoryRequest& r, uint32_t bytes);
    [[nodiscard]] static uint64_t start_of(const MemoryRequest& r);
    bool repeat(const MemoryRequest& r);
    void replay(uint32_t warp, const MemoryRequest& r);
    [[nodiscard]] bool find(const MemoryRequest& r, const AlikeLines& alike, Pattern& p);
    // Returns the place to remember a load.
    [[nodiscard]] Pattern& pattern_of(uint64_t first, int32_t stride) {
        const uint64_t key = (first / 32 * 33 + uint32_t(stride)) * 0x9e3779b97f4a7c15;
        return memory_.patterns[(key >> 32) % ReplayMemory::most_patterns];
    }
    [[nodiscard]] int lines_of(uint32_t warp, const MemoryRequest& r,
                               model::LineAccess* lines) const;
    [[nodiscard]] uint32_t cycles_of(const MemoryRequest& r, const AlikeLines& alike, int lines);
    // Calls `use(mask, address)` for a request. `address(lane)` returns the address of a lane.
    template <class Use>
    auto with_lanes(const MemoryRequest& r, Use&& use) const;

    BlockRequests& requests_;
    ReplayMemory& memory_;
    model::L1Cache& cache_;
    const std::vector<CacheSite>& sites_;
    std::vector<Misses>& misses_;
    model::AtomicUnits& atomics_;
    const uint64_t block_, first_slot_;
    const bool has_barriers_;
    // True if the cache is so large that one line of a request cannot evict another line of the
    // same request.
    const bool keeps_a_request_;
    model::Filtered result_;

    class PartialWrites;
    std::vector<PartialWrites> unwritten_;  // partial writes that L1 holds, by warp
    // The last request, if it was a regular load. It is kept because the next request often loads
    // the same lines. If `last_lines_` is 0, the last request was not a regular load.
    MemoryRequest last_{};
    uint64_t last_sectors_ = 0;
    uint32_t last_lines_ = 0, last_cycles_ = 0;
};

}  // namespace coalesce::analysis
