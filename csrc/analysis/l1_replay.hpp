// Replays the requests of one block through an L1.
//
// METHOD
// The warps of the block replay one request each in turn. A multiprocessor holds several blocks, so
// each block gets a share of its L1. Accesses to shared memory only take time. If a kernel has
// barriers, its warps stay close together. Otherwise each warp starts after a random number of
// requests of the others.
//
// Most requests are loads that other warps, or the copies of an unrolled loop, have made before.
// Such loads are remembered (Pattern). While L1 has not lost their lines, a repetition takes the
// same few steps for any number of lines.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/block_schedule.hpp"
#include "model/caches.hpp"
#include "sim/memory.hpp"

namespace coalesce::model {
class AtomicUnits;
}  // namespace coalesce::model

namespace coalesce::analysis {

// Counts how often the loads of an instruction missed L1.
struct Misses {
    uint64_t requests = 0;
    uint64_t missed = 0;  // requests that missed at least one line in L1
    uint64_t lines = 0;   // lines that L1 missed
    uint64_t read = 0;    // missed lines whose read reached the L2 model
    uint64_t slow = 0;    // missed lines that DRAM answered or was already fetching
    uint64_t cycles = 0;  // L1 cycles of all requests of the instruction
    void add(const Misses& other);
    [[nodiscard]] double cycles_per_request() const { return double(cycles) / double(requests); }
};

// What the replay needs to know about an instruction.
struct CacheSite {
    // The effect on the caches. load_past means a load that bypasses L1.
    enum class Effect : uint8_t { load, load_past, store, atomic };
    Effect effect;
    uint8_t bytes;     // the bytes that each lane accesses
    bool local;        // accesses local memory
    bool adds_floats;  // an atomic that adds floating-point numbers
};

// The requests of one block.
class BlockRequests {
  public:
    // `l1_bytes` is the size of the block's share of L1.
    BlockRequests(uint32_t warps, uint32_t l1_bytes) : warps_(warps), l1_(l1_bytes) {}
    // Records an access. For accesses to shared memory, it keeps only the number of wavefronts.
    void add(const sim::Warp& warp, const sim::MemoryEvent& e, uint32_t wavefronts) {
        OfWarp& own = warps_[warp.index];
        own.wavefronts += wavefronts;
        if (e.space != ptx::Space::shared) add(own, e);
    }
    // Adds to the number of operations that the warp executed.
    void execute(const sim::Warp& warp, uint32_t operations) {
        warps_[warp.index].operations += operations;
    }
    // The number of operations that all warps executed, and the largest number of one warp.
    [[nodiscard]] uint64_t operations() const;
    [[nodiscard]] uint64_t most_operations() const;
    // Forgets the requests, so that the memory can be used for another block.
    void clear();

  private:
    friend class L1Replay;
    struct Request {
        // A regular request stores the address of lane 0 here. A scattered request stores the index
        // of its first address in `addresses_`. A pause stores its number of cycles.
        uint64_t first;
        // The distance in bytes between neighbouring lanes. A scattered request stores its lane
        // mask here.
        int32_t stride;
        uint32_t pc : 31;
        uint32_t scattered : 1;
    };
    // The value of `pc` for a pause. A pause is the time that accesses to shared memory take.
    static constexpr uint32_t pause = (1u << 31) - 1;
    struct OfWarp {
        std::vector<Request> requests;
        uint64_t wavefronts = 0;  // wavefronts of shared memory since the last request
        uint64_t operations = 0;
    };
    // A regular load that was replayed, to compare later ones with it.
    struct Pattern {
        uint64_t first = 0;
        int32_t stride = 0;
        uint8_t bytes = 0;    // 0: nothing is remembered
        uint8_t sectors = 0;  // the sectors that each line has (AlikeLines)
        uint32_t cycles = 0;  // L1 cycles of the load
        uint64_t loaded = 0;  // the number of sectors of all lines
        model::L1Cache::Group lines;
    };
    static constexpr uint32_t most_patterns = 512;

    void add(OfWarp& own, const sim::MemoryEvent& e);

    std::vector<OfWarp> warps_;
    std::vector<uint64_t> addresses_;
    // The following members belong to the replay. They are here so that the next block can use
    // their memory.
    model::L1Cache l1_;
    std::vector<Pattern> patterns_{most_patterns};  // the last load with each hash
    size_t traffic_ = 0;  // the number of requests to L2 of the last block
};

// Lines of a request, `step` apart, in which the lanes access the same sectors. If a request does
// not have this form, `count` is 0.
struct AlikeLines {
    model::LineAccess first;
    uint64_t step = 0;
    int count = 0;
};

class L1Replay {
  public:
    // `first_slot` is the number of warps that come before those of the block in the interleaved
    // local memory.
    L1Replay(BlockRequests& requests, const std::vector<CacheSite>& sites,
             std::vector<Misses>& misses, model::AtomicUnits& atomics, uint64_t block,
             uint64_t first_slot, bool has_barriers);
    ~L1Replay();

    // Returns the counts and the requests to L2. Adds to the misses of each instruction.
    [[nodiscard]] model::Filtered run();

  private:
    using Request = BlockRequests::Request;
    using Pattern = BlockRequests::Pattern;
    using Effect = CacheSite::Effect;

    bool repeat(const Request& r);
    void replay(uint32_t warp, const Request& r);
    [[nodiscard]] bool find(const Request& r, const AlikeLines& alike, Pattern& p);
    // Returns the place to remember a load.
    [[nodiscard]] Pattern& pattern_of(uint64_t first, int32_t stride) {
        const uint64_t key = (first / 32 * 33 + uint32_t(stride)) * 0x9e3779b97f4a7c15;
        return requests_.patterns_[(key >> 32) % BlockRequests::most_patterns];
    }
    [[nodiscard]] int lines_of(uint32_t warp, const Request& r, model::LineAccess* lines) const;
    [[nodiscard]] uint32_t cycles_of(const Request& r, int lines);
    // Calls `use(mask, address)` for a request. `address(lane)` returns the address of a lane.
    template <class Use>
    auto with_lanes(const Request& r, Use&& use) const;

    BlockRequests& requests_;
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
    class CyclesByStride;
    std::vector<PartialWrites> unwritten_;  // partial writes that L1 holds, by warp
    std::unique_ptr<CyclesByStride> cycles_by_stride_;
    // The last request, if it was a regular load. It is kept because the next request often loads
    // the same lines. If `last_lines_` is 0, the last request was another one.
    Request last_{};
    uint64_t last_sectors_ = 0;
    uint32_t last_lines_ = 0, last_cycles_ = 0;
};

}  // namespace coalesce::analysis
