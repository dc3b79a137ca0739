// Replays the memory requests of one block through a model of L1.
//
// METHOD
// The warps of the block take turns: in each round, each warp replays one request. A multiprocessor
// holds several blocks, so each block gets its share of the multiprocessor's L1. Accesses to shared
// memory do not use L1, and only take time. If a kernel has barriers, its warps stay close
// together. Otherwise each warp starts after a pseudo-random number of rounds.
//
// Some blocks request each line only once. They are replayed in a simpler way (once_replay.hpp).
//
// Most requests are loads that have been made before: by another warp, or by another copy of the
// body of an unrolled loop. Such loads are remembered (Pattern). If L1 still has the lines of a
// remembered load, a repetition is replayed in a few steps, however many lines it has.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/caches/block_requests.hpp"
#include "analysis/caches/cache_result.hpp"
#include "analysis/caches/request_lines.hpp"
#include "model/block_schedule.hpp"
#include "model/caches/caches.hpp"

namespace coalesce::model {
class AtomicUnits;
}  // namespace coalesce::model

namespace coalesce::analysis {

struct MissesOf {
    uint32_t pc;  // the instruction
    Misses misses;
};

// The result of the replay of a block.
struct L1Result {
    // The counts and the requests to L2, with relative addresses (block_requests.hpp).
    std::shared_ptr<const model::ReplayedBlock> filtered;
    // What the replay has added to the relative addresses, by region. Empty if it is 0.
    std::vector<uint64_t> shifts;
    // Misses of each instruction with requests. The cycles are only those that
    // BlockRequests::cycles leaves out.
    std::vector<MissesOf> misses;
};

// Returns those of the elements that have requests. `misses` has an element for each instruction.
[[nodiscard]] std::vector<MissesOf> with_requests(const std::vector<Misses>& misses);

// Returns for how many rounds a warp waits before its first request.
[[nodiscard]] uint32_t idle_rounds(uint32_t variant, uint32_t warp);

// Memory that the replay of one block leaves to the replay of the next block.
struct ReplayMemory {
    // A regular load that was replayed. Later loads are compared with it. The members that a
    // comparison reads are in one line of the host's cache.
    struct alignas(64) Pattern {
        uint64_t first = 0;
        int32_t stride = 0;
        uint8_t bytes = 0;    // 0: nothing is remembered
        uint8_t sectors = 0;  // the sectors that each line has (AlikeLines)
        uint32_t cycles = 0;  // L1 cycles of the load, if its lines are alike; otherwise 0
        uint64_t loaded = 0;  // the number of sectors of all lines
        model::L1Cache::Group lines;
    };
    static constexpr uint32_t max_patterns = 512;

    explicit ReplayMemory(uint32_t l1_bytes) : l1(l1_bytes) {}

    model::L1Cache l1;
    std::vector<Pattern> patterns{max_patterns};  // the last load with each hash
    size_t traffic = 0;  // the number of elements of the last block's ReplayedBlock::traffic
};

class L1Replay {
  public:
    // Prepares to replay the requests of a block. The variants of the replay differ only in their
    // pseudo-random numbers. If `atomics` is not null, atomics are added to it. `origins` are those
    // of the block (BlockRequests::origins).
    L1Replay(const RecordedBlock& block, ReplayMemory& memory, const std::vector<CacheSite>& sites,
             model::AtomicUnits* atomics, const std::vector<uint64_t>& origins, uint32_t variant,
             bool has_barriers);
    ~L1Replay();

    [[nodiscard]] L1Result run();

  private:
    using Pattern = ReplayMemory::Pattern;
    using Effect = CacheSite::Effect;

    [[nodiscard]] static uint64_t start_of(const MemoryRequest& r);
    bool replay_simple(const MemoryRequest& r);
    void replay(uint32_t warp, const MemoryRequest& r);
    void use(const MemoryRequest& r, Pattern& p, uint64_t sectors);
    void load(const MemoryRequest& r, const AlikeLines& alike, Pattern& p);
    void send(const model::LineAccess& a, model::Traffic::Kind kind, uint8_t sectors, uint32_t pc,
              uint64_t before);
    model::Traffic& append(const model::LineAccess& a, model::Traffic::Kind kind, uint8_t sectors,
                           uint32_t pc);
    void remember(const MemoryRequest& r, uint8_t sectors, Pattern& p, uint32_t lines,
                  uint64_t state);
    void add(const MemoryRequest& r, uint32_t lines, uint64_t missed);
    [[nodiscard]] bool find(const MemoryRequest& r, const AlikeLines& alike, Pattern& p);
    [[nodiscard]] bool find(const MemoryRequest& r, const Pattern& recent, Pattern& p);
    // Returns the place to remember a load.
    [[nodiscard]] Pattern& pattern_of(uint64_t first, int32_t stride) {
        const uint64_t key = (first * 33 + uint32_t(stride)) * 0x9e3779b97f4a7c15;
        return memory_.patterns[(key >> 32) % ReplayMemory::max_patterns];
    }
    void add_atomic(const MemoryRequest& r);

    const RecordedBlock& block_;
    ReplayMemory& memory_;
    model::L1Cache& cache_;
    const std::vector<CacheSite>& sites_;
    std::vector<Misses> misses_;
    model::AtomicUnits* const atomics_;
    const std::vector<uint64_t>& origins_;
    const RequestLines lines_of_;
    const uint32_t variant_;
    const bool has_barriers_;
    // True if the cache is so large that one line of a request cannot evict another line of the
    // same request.
    const bool keeps_a_request_;
    model::ReplayedBlock result_;

    class PartialWrites;
    std::vector<PartialWrites> unwritten_;  // partial writes that L1 holds, by warp
    // The last load of each warp whose lines were not alike. The next iteration of a loop usually
    // loads most of these lines again.
    std::vector<const Pattern*> recent_;
    // The last request, if it was a regular load. It is kept because the next request often loads
    // the same lines. If `last_lines_` is 0, the last request was not a regular load.
    MemoryRequest last_{};
    uint64_t last_sectors_ = 0;
    uint32_t last_lines_ = 0, last_cycles_ = 0;
};

}  // namespace coalesce::analysis
