// Models the caches of a GPU (L1 and L2), and the traffic to DRAM.
//
// METHOD
// A request is split into the lines that it touches. L1 keeps the sectors that loads have fetched,
// and fetches missing sectors from L2. Stores are passed to L2 at once. A store allocates its line
// in L1, but does not put data there. The counters report a store as a hit if its line is already
// allocated.
//
// L2 has one or two partitions. Each line has a home partition, which holds its data until they are
// written to DRAM. A multiprocessor asks the nearer partition. That partition fetches missing data
// from the line's home partition and keeps a copy. Therefore data that all multiprocessors read
// occupy twice their size in L2, and a miss causes two lookups. DRAM is read in half lines of 64
// bytes. When a line is evicted from L2, its modified sectors are written to DRAM.
//
// All rules were derived from Nsight Compute's recordings on an H200 (tests/data/models_h200.json).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/caches/cache_counts.hpp"
#include "model/caches/sectored_cache.hpp"
#include "model/gpu.hpp"
#include "model/units.hpp"

namespace coalesce::model {

// The part of a request that lies in one line. The members have no initial values, because it would
// take time to set them in an array for the lines of each request.
struct LineAccess {
    uint64_t line;
    uint8_t sectors;  // touched sectors
    uint8_t whole;    // sectors of which every byte is touched
};

// Returns the number of sectors in a mask of four bits. The constant is a table that has an entry
// of four bits for each mask. A table is used because std::popcount would be a function call if the
// host's baseline instruction set has no instruction for it.
inline uint64_t sectors_in(uint32_t sectors) {
    return uint64_t{0x4332322132212110} >> 4 * (sectors & 15) & 15;
}

// Returns the mask with all sectors of the half lines that contain these sectors. DRAM is read in
// half lines.
inline uint8_t half_lines(uint8_t sectors) {
    return uint8_t((sectors & 3 ? 3 : 0) | (sectors & 12 ? 12 : 0));
}

// Requests of one instruction from L1 to L2, one for each of `count` lines. Each line is `step`
// lines after the previous one. All requests are for the same sectors of their line.
struct Traffic {
    enum class Kind : uint8_t { read, write, atomic };
    uint64_t line = 0;  // the first line
    uint32_t time = 0;  // in cycles of L1, since the start of the block
    uint32_t pc = 0;    // the instruction
    int32_t step = 0;
    Kind kind = Kind::read;
    uint8_t sectors = 0;
    uint8_t whole = 0;
    uint8_t count = 1;

    [[nodiscard]] uint64_t line_at(uint32_t n) const {
        return line + uint64_t(int64_t{step} * int64_t{n});
    }
    // Tries to add the request `next` to these requests. This is possible if `next` differs from
    // them only in its line, and all the lines are then equally far apart. Returns true if `next`
    // was added. Otherwise returns false and changes nothing.
    bool extend(const Traffic& next) {
        const auto distance = int64_t(next.line - line_at(count - 1u));
        // With `||` instead of `|`, GCC would load several members of `next` as one number. The
        // host would have to wait for this load, because the members were stored one by one just
        // before.
        const bool other = (next.time != time) | (next.pc != pc) | (next.kind != kind) |
                           (next.sectors ^ sectors) | (next.whole ^ whole);
        if (other || count == most) return false;
        if (count == 1 && distance == int32_t(distance)) step = int32_t(distance);
        if (distance != step) return false;
        ++count;
        return true;
    }

  private:
    static constexpr uint8_t most = 255;
};

// A request to L2 for one line.
struct L2Request {
    uint64_t line;
    double time;           // cycles since the launch
    uint32_t pc : 31;      // the instruction
    uint32_t repeats : 1;  // there was an earlier request for this line (see L2Sample)
    uint8_t from;          // the GPC that requests the line
    Traffic::Kind kind;
    uint8_t sectors, whole;  // as in LineAccess

    [[nodiscard]] LineAccess access() const { return {line, sectors, whole}; }
};

// The part of a multiprocessor's L1 that the model gives to one block.
class L1Cache {
  public:
    explicit L1Cache(uint32_t bytes) : cache_(bytes / line_bytes) {}

    // The place at which a request last found a line. It is a hint: if the line is still there, no
    // search is needed.
    using Place = SectoredCache::Place;
    // The lines of a load that is often repeated.
    using Group = SectoredCache::Group;

    // Handles a load. Returns the sectors that are not in L1 and must be fetched from L2.
    uint8_t load(const LineAccess& a, Place& place) {
        const uint8_t there = cache_.touch(a.line, a.sectors, 0, nothing_to_write, place).valid;
        counts_.l1_loads += sectors_in(a.sectors);
        counts_.l1_load_hits += sectors_in(a.sectors & there);
        return uint8_t(a.sectors & ~there);
    }
    uint8_t load(const LineAccess& a) {
        Place anywhere = 0;
        return load(a, anywhere);
    }
    // Counts a load of sectors that are all present. The lines of these sectors must be the ones
    // that were used last. Then the load does not change the order of use, so only the counts
    // change.
    void load_again(uint64_t sectors) {
        counts_.l1_loads += sectors;
        counts_.l1_load_hits += sectors;
    }
    // Counts a load of sectors that are all present in the lines of the group.
    void load_again(Group& group, uint64_t sectors) {
        cache_.use(group);
        load_again(sectors);
    }
    // Handles a load that bypasses L1 (ld.volatile, ld.global.cg, cp.async.cg).
    uint8_t bypassing_load(const LineAccess& a) {
        counts_.l1_loads += sectors_in(a.sectors);
        return a.sectors;
    }
    void store(const LineAccess& a, Place& place) {
        const bool placed = !cache_.touch(a.line, 0, 0, nothing_to_write, place).fresh;
        counts_.l1_stores += sectors_in(a.sectors);
        if (placed) counts_.l1_store_hits += sectors_in(a.sectors);
    }
    void store(const LineAccess& a) {
        Place anywhere = 0;
        store(a, anywhere);
    }
    void atomic(const LineAccess& a) { cache_.drop(a.line, a.sectors); }

    [[nodiscard]] const CacheCounts& counts() const { return counts_; }
    [[nodiscard]] SectoredCache& lines() { return cache_; }
    // Empties the cache for another block.
    void clear() {
        cache_.clear();
        counts_ = {};
    }

  private:
    static constexpr auto nothing_to_write = [](const SectoredCache::Line&) {};

    SectoredCache cache_;
    CacheCounts counts_;
};

class L2Cache {
  public:
    // The places where a line probably is: in its home partition, and in the partition that
    // receives the request.
    struct Guess {
        LargeSectoredCache::Place home, near;
    };

    // If `sample` is not 0, only lines of the sample may be used (is_in_sample).
    explicit L2Cache(const Gpu& gpu, uint32_t sample = 0);

    // Returns true for 1 / 2^sample of all lines. The sample has all lines of some sets, and no
    // line of the other sets. So what happens to its lines does not depend on the other lines. (If
    // 2^sample does not divide the number of sets, the sample has only a part of the last set.)
    [[nodiscard]] static bool is_in_sample(uint64_t line, uint32_t sample) {
        return LargeSectoredCache::is_in_sample(line, sample);
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

    static constexpr uint32_t ways = LargeSectoredCache::usual_ways;
    [[nodiscard]] uint32_t partitions() const { return other_ + 1; }
    [[nodiscard]] uint32_t home_of(uint64_t line) const;
    // Returns the partition that the GPC `from` asks.
    [[nodiscard]] uint32_t partition_of(uint32_t from) const { return from & other_; }
    // The number of sets of a partition, or if there is a sample, of sets with lines of the sample.
    [[nodiscard]] uint64_t sets() const { return partitions_[0].sets(); }
    // Returns the set of a line, which has the same number in both partitions.
    [[nodiscard]] uint64_t set_of(uint64_t line) const { return partitions_[0].set_of(line); }

  private:
    using Place = LargeSectoredCache::Place;

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

    std::vector<LargeSectoredCache> partitions_;
    uint32_t other_;  // the number of the other partition; 0 if there is only one
    Copied copied_;
    CacheCounts counts_;
};

}  // namespace coalesce::model
