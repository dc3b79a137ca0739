// Replays the memory requests of one block through a model of L1.
//
// METHOD
// The warps of the block take turns: in each round, each warp replays one request. A multiprocessor
// holds several blocks, so each block gets its share of the multiprocessor's L1. Accesses to shared
// memory do not use L1, and only take time. If a kernel has barriers, its warps stay close
// together. Otherwise each warp starts after a pseudo-random number of rounds.
//
// A request is split into the lines that it touches (strides.hpp), and each line is looked up
// in L1 (model/caches/l1_cache.hpp). If each lane loads from a line of its own, this takes long.
// But then most lanes usually load from the same sector as in the last such load of the warp: a
// loop that walks along 32 rows reads eight neighbouring floats of a row from one sector. If L1 has
// kept the lines of that load, these sectors are certainly there, and only the other lanes are
// looked up.
//
// EXAMPLE
// Lane i loads the float at the address 1000 + 2052 i. In the next iteration it loads the float at
// 1004 + 2052 i. The lanes whose first address was the last float of a sector, that is, the lanes
// 5, 13, 21 and 29, load from another sector than before: 4 look-ups instead of 32.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/caches/block_requests.hpp"
#include "analysis/caches/cache_result.hpp"
#include "model/block_schedule.hpp"
#include "model/caches/l1_cache.hpp"

namespace coalesce::analysis {

struct MissesOf {
    uint32_t pc;  // the instruction
    Misses misses;
};

// The result of the replay of a block.
struct L1Result {
    // The counts and the requests to L2, with relative addresses (block_requests.hpp).
    std::shared_ptr<const model::ReplayedBlock> filtered;
    // What the replay has added to the relative addresses, by region.
    std::vector<uint64_t> shifts;
    // Misses of each instruction with requests, without cycles (BlockRequests::cycles).
    std::vector<MissesOf> misses;
};

// A load in which each lane accesses a line of its own, because the addresses of neighbouring lanes
// are at least a line apart.
struct ApartLoad {
    uint64_t first = 0;   // the address of lane 0
    int32_t stride = 0;   // 0: there was no load
    uint64_t before = 0;  // L1Cache::now() before the load
    // The places of each address in its sector. Each lane has a byte.
    std::array<uint64_t, sim::warp_size / 8> in_sector{};
    std::array<model::L1Cache::Place, sim::warp_size> places{};

    void start(const MemoryRequest& r);
    [[nodiscard]] sim::LaneMask move(int distance);
};

// L1 merges some partial writes before they go to L2. A partial write may be merged if the same
// warp was the last writer of the sector. The exact rule is not known: in recorded kernels, a GPU
// merges between 0 and 83 % of such writes. The model merges 70 % of them. Writes of different
// warps are not merged (`transpose/naive_read`).
class PartialWrites {
  public:
    // Returns the sectors that must be sent to L2.
    uint8_t left_of(const model::LineAccess& a);

  private:
    static constexpr uint32_t most = sim::warp_size;  // the largest number of lines of one request

    [[nodiscard]] model::LineAccess* find(uint64_t line);
    void mark(uint64_t line) { known_[hash_of(line) / 64] |= uint64_t{1} << hash_of(line) % 64; }
    static uint32_t hash_of(uint64_t line) { return uint32_t((line * 0x9e3779b97f4a7c15) >> 56); }

    std::array<model::LineAccess, most> lines_{};
    uint32_t count_ = 0;
    uint32_t next_ = 0;  // the entry after the one that was found last
    uint32_t oldest_ = 0;
    uint32_t writes_ = 0;
    std::array<uint64_t, 4> known_{};  // a bit for each hash that a line in `lines_` may have
};

// Memory that the replay of one block leaves to the replay of the next block.
struct ReplayMemory {
    explicit ReplayMemory(uint32_t l1_bytes) : l1(l1_bytes) {}

    model::L1Cache l1;
    std::vector<ApartLoad> apart;
    std::vector<PartialWrites> unwritten;  // partial writes that L1 holds, by warp
    size_t traffic = 0;  // the number of elements of the last block's ReplayedBlock::traffic
};

class L1Replay {
  public:
    // Prepares to replay the requests of a block. The variants of the replay differ only in their
    // pseudo-random numbers. `regions` is the number of regions of relative addresses.
    L1Replay(const RecordedBlock& block, ReplayMemory& memory, const std::vector<CacheSite>& sites,
             size_t regions, uint32_t variant, bool has_barriers);

    [[nodiscard]] L1Result run();

  private:
    using Effect = CacheSite::Effect;
    // The part of a request in a line, with the address for Traffic.
    struct Part : model::LineAccess {
        uint64_t address;
    };
    static Part sector_at(uint64_t address, bool whole);

    void replay(uint32_t warp, const MemoryRequest& recorded);
    void replay_other(uint32_t warp, MemoryRequest r);
    void load_dense(const MemoryRequest& r, uint32_t bytes);
    void load_apart(uint32_t warp, const MemoryRequest& r);
    template <class PartAt>
    void replay_parts(uint32_t warp, uint32_t pc, uint32_t count, PartAt&& part_at);
    void load(uint32_t pc, const Part& a);
    void store(PartialWrites& unwritten, uint32_t pc, const Part& a);
    void send(const Part& a, uint8_t sectors, model::Traffic::Kind kind, uint32_t pc);
    void end(uint32_t pc, uint32_t lines, uint64_t loaded);

    const RecordedBlock& block_;
    ReplayMemory& memory_;
    model::L1Cache& l1_;
    const std::vector<CacheSite>& sites_;
    std::vector<Misses> misses_;
    const std::vector<uint64_t> shifts_;
    const uint32_t variant_;
    const bool has_barriers_;
    model::ReplayedBlock result_;
    uint32_t missed_ = 0;   // the lines of the current request that were sent to L2
    uint64_t fetched_ = 0;  // the sectors of all reads that were sent to L2

    // ReplayMemory::apart has this number of loads for each warp, by a hash of the stride.
    static constexpr uint32_t strides = 4;
};

}  // namespace coalesce::analysis
