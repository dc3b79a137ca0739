// Models L2, and the traffic to DRAM.
//
// METHOD
// L2 has one or two partitions. Each line has a home partition, which holds its data until they are
// written to DRAM. A multiprocessor asks the nearer partition. That partition fetches missing data
// from the line's home partition and keeps a copy. Therefore data that all multiprocessors read
// occupy twice their size in L2, and a miss causes two lookups. DRAM is read in half lines of 64
// bytes. When a line is evicted from L2, its modified sectors are written to DRAM.
//
// EXAMPLE
// A multiprocessor reads sector 0 of a line whose home is the other partition. Neither partition
// has it: two lookups, no hit, and 64 bytes are read from DRAM. Both partitions now have sector 0,
// and the home also has sector 1. If the same multiprocessor reads the sectors 0 and 1, there are
// three lookups: the near partition hits sector 0, and the home hits sector 1.
//
// All rules were derived from Nsight Compute's recordings on an H200 (tests/data/models_h200.json).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/caches/cache_counts.hpp"
#include "model/caches/sectored_cache.hpp"
#include "model/caches/traffic.hpp"
#include "model/gpu.hpp"
#include "model/units.hpp"

namespace coalesce::model {

class L2Cache {
  public:
    // The places where a line probably is: in its home partition, and in the partition that
    // receives the request.
    struct Guess {
        SectoredCache::Place home, near;
    };

    // If `sample` is not 0, only lines of the sample may be used (is_in_sample).
    explicit L2Cache(const Gpu& gpu, uint32_t sample = 0);

    // Returns true for 1 / 2^sample of all lines. The sample has all lines of some sets, and no
    // line of the other sets. So what happens to its lines does not depend on the other lines. (If
    // 2^sample does not divide the number of sets, the sample has only a part of the last set.)
    [[nodiscard]] static bool is_in_sample(uint64_t line, uint32_t sample) {
        return SectoredCache::is_in_sample(line, sample);
    }

    // Handles a request from a multiprocessor of the GPC `from`. Returns true if DRAM must answer
    // it.
    bool handle(Traffic::Kind kind, const LineAccess& a, uint32_t from, Guess guess = {});
    // Both functions prepare handle(): they load data of the modelled cache that handle() will need
    // into the host's own cache. Call guess() some time after prefetch(), and pass its result to
    // handle().
    void prefetch(Traffic::Kind kind, uint64_t line, uint32_t from) const;
    [[nodiscard]] Guess guess(Traffic::Kind kind, uint64_t line, uint32_t from) const;

    [[nodiscard]] const CacheCounts& counts() const { return counts_; }

  private:
    using Place = SectoredCache::Place;

    [[nodiscard]] uint32_t home_of(uint64_t line) const;
    // Returns the partition that the GPC `from` asks.
    [[nodiscard]] uint32_t partition_of(uint32_t from) const { return from & other_; }
    bool read(const LineAccess& a, uint32_t near, Guess guess);
    void write(const LineAccess& a, uint32_t near, Place place);
    uint8_t look_up(uint32_t partition, uint64_t line, uint8_t sectors, Place& place);

    // Stores which pages of 4 KB may have copies outside their home partition. Most arrays that a
    // kernel writes have no such copies. So for most writes, the model need not look for a copy.
    class Copied {
      public:
        void add(uint64_t line) { pages_[hash_of(line) / 64] |= uint64_t{1} << hash_of(line) % 64; }
        [[nodiscard]] bool may_have(uint64_t line) const {
            return pages_[hash_of(line) / 64] >> hash_of(line) % 64 & 1;
        }

      private:
        static uint64_t hash_of(uint64_t line) { return (line >> 5) * 0x9e3779b97f4a7c15 >> 49; }
        std::array<uint64_t, 512> pages_{};
    };

    std::vector<SectoredCache> partitions_;
    uint32_t other_;  // the number of the other partition; 0 if there is only one
    Copied copied_;
    CacheCounts counts_;
};

}  // namespace coalesce::model
