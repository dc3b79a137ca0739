// The caches of a GPU, and DRAM behind them.
//
// METHOD
// A request is taken apart into the lines it touches. L1 keeps sectors that were
// loaded; a load's other sectors are fetched from L2. Stores go on to L2 at
// once. They give their line a place in L1, but no data: counters call a
// store a hit where the line has a place.
//
// L2 has one or two partitions. A line's home is in one of them, and so are its data
// that are not yet in DRAM. Multiprocessors ask the partition they are nearer to, which keeps a
// copy of what it fetches from the home of a line: data that all multiprocessors read take twice
// their room, and are looked up twice where they miss. DRAM is read in halves of a line, 64 bytes,
// and written in sectors when a line leaves L2.
//
// All of this was read off Nsight Compute's recordings on an H200 (tests/data/models_h200.json).
#pragma once

#include <cstdint>
#include <vector>

#include "model/gpu.hpp"
#include "model/sectored_cache.hpp"

namespace coalesce::model {

// The part of a request that is in one line.
struct LineAccess {
    uint64_t line = 0;
    uint8_t sectors = 0;  // touched
    uint8_t whole = 0;    // of them, every byte
};

// How many sectors of a line: the bits, four in a digit. (std::popcount is a call where the host's
// baseline cannot count.)
inline uint64_t sectors_in(uint32_t sectors) {
    return uint64_t{0x4332322132212110} >> 4 * (sectors & 15) & 15;
}

// What was counted of caches.
struct CacheCounts {
    uint64_t l1_loads = 0, l1_load_hits = 0;    // sectors
    uint64_t l1_stores = 0, l1_store_hits = 0;  // sectors
    uint64_t l2_reads = 0, l2_writes = 0;       // sectors from and to first levels
    uint64_t l2_partial_writes = 0;             // of them, written in part
    uint64_t l2_merged = 0;  // reads that another's, under way, answered (request_coalescer.hpp)
    uint64_t l2_lookups = 0, l2_hits = 0;  // sectors, in all partitions
    uint64_t dram_read_bytes = 0, dram_written_bytes = 0;

    void add(const CacheCounts& other);
    bool operator==(const CacheCounts&) const = default;
};

// The requests of an L1 to L2.
struct Traffic {
    enum class Kind : uint8_t { read, write, atomic };
    uint64_t line = 0;
    uint32_t time = 0;  // cycles of L1, from the block's start
    uint8_t sectors = 0;
    uint8_t whole = 0;
    Kind kind = Kind::read;
    uint32_t pc = 0;  // the instruction
};

// L1 as one block has it: a share of that of its multiprocessor.
class FirstLevel {
  public:
    explicit FirstLevel(uint32_t bytes) : cache_(bytes / 128) {}

    // Where a request last found its lines. It is a hint: a line that is still there needs no
    // search.
    using Place = SectoredCache::Place;

    // Returns the sectors that have to be fetched.
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
    // As many sectors again that were loaded just now.
    void load_again(uint64_t sectors) {
        counts_.l1_loads += sectors;
        counts_.l1_load_hits += sectors;
    }
    // Loads the same sectors of `lines` lines again; each line is `step` after the one before. Each
    // line must still be at its place in `places`, with these sectors. Otherwise the function does
    // nothing and returns false.
    bool load_again(const LineAccess& first, uint64_t step, uint32_t lines, const Place* places) {
        if (!cache_.touch_again(first.line, step, lines, first.sectors, places)) return false;
        load_again(lines * sectors_in(first.sectors));
        return true;
    }
    // Loads that pass by the cache (ld.volatile, ld.global.cg, cp.async.cg).
    uint8_t load_past(const LineAccess& a) {
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

  private:
    static constexpr auto nothing_to_write = [](const SectoredCache::Line&) {};

    SectoredCache cache_;
    CacheCounts counts_;
};

class SecondLevel {
  public:
    explicit SecondLevel(const Gpu& gpu);

    // A request of cluster of multiprocessors `from`; whether DRAM has to answer.
    bool handle(const Traffic& t, uint32_t from);

    [[nodiscard]] const CacheCounts& counts() const { return counts_; }

  private:
    bool read(uint64_t line, uint8_t sectors, uint32_t from);
    void write(const Traffic& t, uint32_t from);
    uint8_t look_up(uint32_t partition, uint64_t line, uint8_t sectors);
    [[nodiscard]] uint32_t home_of(uint64_t line) const;

    std::vector<SectoredCache> partitions_;
    CacheCounts counts_;
};

}  // namespace coalesce::model
