#include "model/caches/l2_cache.hpp"

#include <cassert>

namespace coalesce::model {

void CacheCounts::add(const CacheCounts& o) {
    l1_loads += o.l1_loads;
    l1_load_hits += o.l1_load_hits;
    l1_stores += o.l1_stores;
    l1_store_hits += o.l1_store_hits;
    l2_reads += o.l2_reads;
    l2_writes += o.l2_writes;
    l2_partial_writes += o.l2_partial_writes;
    l2_merged += o.l2_merged;
    l2_lookups += o.l2_lookups;
    l2_hits += o.l2_hits;
    dram_read_bytes += o.dram_read_bytes;
    dram_written_bytes += o.dram_written_bytes;
}

L2Cache::L2Cache(const Gpu& gpu, uint32_t sample) : other_(gpu.partitions - 1) {
    assert(gpu.partitions == 1 || gpu.partitions == 2);
    partitions_.reserve(gpu.partitions);  // so that the caches, which are large, are not copied
    for (uint32_t n = 0; n < gpu.partitions; ++n)
        partitions_.emplace_back(uint64_t(gpu.l2_mb * 1024 * 1024 / line_bytes) / gpu.partitions,
                                 sample);
}

uint32_t L2Cache::home_of(uint64_t line) const {
    // The partition that is the home of an address may change every 4 KB of addresses.
    return uint32_t(((line >> 5) * 0xd6e8feb86659fd93) >> 40) & other_;
}

bool L2Cache::handle(Traffic::Kind kind, const LineAccess& a, uint32_t from, Guess guess) {
    bool from_dram = false;
    switch (kind) {
        case Traffic::Kind::read:
            counts_.l2_reads += sectors_in(a.sectors);
            from_dram = read(a, partition_of(from), guess);
            break;
        case Traffic::Kind::write:
            counts_.l2_writes += sectors_in(a.sectors);
            counts_.l2_partial_writes += sectors_in(a.sectors & ~a.whole);
            write(a, partition_of(from), guess.home);
            break;
        case Traffic::Kind::atomic:
            read(a, home_of(a.line), {guess.home, guess.home});
            write(a, home_of(a.line), guess.home);
            break;
    }
    return from_dram;
}

void L2Cache::prefetch(Traffic::Kind kind, uint64_t line, uint32_t from) const {
    partitions_[home_of(line)].prefetch(line);
    if (kind == Traffic::Kind::read) partitions_[partition_of(from)].prefetch(line);
}

L2Cache::Guess L2Cache::guess(Traffic::Kind kind, uint64_t line, uint32_t from) const {
    const uint32_t home = home_of(line), near = partition_of(from);
    const Place at_home = partitions_[home].guess(line);
    const bool both = kind == Traffic::Kind::read && near != home;
    return {at_home, both ? partitions_[near].guess(line) : at_home};
}

// Marks the sectors as present in a partition. Returns those that were missing.
uint8_t L2Cache::look_up(uint32_t partition, uint64_t line, uint8_t sectors, Place& place) {
    const auto evicted = [this](const SectoredCache::Line& gone) {
        counts_.dram_written_bytes += sector_bytes * sectors_in(gone.dirty);
    };
    const uint8_t there = partitions_[partition].touch(line, sectors, 0, evicted, place).valid;
    counts_.l2_lookups += sectors_in(sectors);
    counts_.l2_hits += sectors_in(sectors & there);
    return uint8_t(sectors & ~there);
}

bool L2Cache::read(const LineAccess& a, uint32_t near, Guess guess) {
    const uint32_t home = home_of(a.line);
    uint8_t missing = look_up(near, a.line, a.sectors, guess.near);
    if (near == home) {
        guess.home = guess.near;
    } else {
        copied_.add(a.line);
        if (missing) missing = look_up(home, a.line, missing, guess.home);
    }
    if (!missing) return false;
    // DRAM is read in half lines of two sectors. So the neighbour of a missing sector is fetched,
    // too, unless the home partition already has it. All these sectors are stored in the home
    // partition.
    const uint8_t there = partitions_[home].at(guess.home).valid;
    const uint8_t fetched = uint8_t(missing | (half_lines(missing) & ~there));
    if (fetched != missing)  // the lookup has stored the missing sectors
        partitions_[home].touch(a.line, fetched, 0, [](const SectoredCache::Line&) {}, guess.home);
    counts_.dram_read_bytes += sector_bytes * sectors_in(fetched);
    return true;
}

void L2Cache::write(const LineAccess& a, uint32_t near, Place place) {
    const uint32_t home = home_of(a.line);
    const uint64_t passes = near == home ? 1 : 2;
    if (near != home && copied_.may_have(a.line)) partitions_[near].drop(a.line, a.sectors);
    const auto evicted = [this](const SectoredCache::Line& gone) {
        counts_.dram_written_bytes += sector_bytes * sectors_in(gone.dirty);
    };
    partitions_[home].touch(a.line, a.sectors, a.sectors, evicted, place);
    // A write needs no old data, so it always hits.
    counts_.l2_lookups += passes * sectors_in(a.sectors);
    counts_.l2_hits += passes * sectors_in(a.sectors);
}

}  // namespace coalesce::model
