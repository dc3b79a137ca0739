// Compares the caches with a simple, slow cache (an oracle), and tests properties of L1 and L2.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include "analysis/small_gpu.hpp"
#include "model/caches/kept_memory.hpp"
#include "model/caches/l1_cache.hpp"
#include "model/caches/l2_sample.hpp"
#include "model/time.hpp"

namespace coalesce::model {
namespace {

// A simple, slow cache: it is fully associative, with a list in the order of last use.
struct SlowCache {
    struct Line {
        uint64_t number;
        uint8_t valid, dirty;
    };
    size_t capacity;
    std::list<Line> lines = {};
    std::vector<Line> evicted = {};

    uint8_t touch(uint64_t number, uint8_t valid, uint8_t dirty) {
        for (auto it = lines.begin(); it != lines.end(); ++it) {
            if (it->number != number) continue;
            const uint8_t before = it->valid;
            lines.push_front({number, uint8_t(it->valid | valid), uint8_t(it->dirty | dirty)});
            lines.erase(it);
            return before;
        }
        if (lines.size() == capacity) {
            evicted.push_back(lines.back());
            lines.pop_back();
        }
        lines.push_front({number, valid, dirty});
        return 0;
    }
};

constexpr auto ignore = [](const SectoredCache::Line&) {};

// Caches with one set.
TEST(SectoredCache, AgreesWithALeastRecentlyUsedList) {
    std::mt19937_64 random(1);
    SectoredCache cache(SectoredCache::ways);
    SlowCache slow{SectoredCache::ways};
    // The places at which lines were found before. Some are still right, others are outdated.
    std::map<uint64_t, SectoredCache::Place> places;
    std::vector<SectoredCache::Line> evicted;
    for (int n = 0; n < 20000; ++n) {
        const uint64_t line = random() % 33;
        const auto valid = uint8_t(1 + random() % 15);
        const auto dirty = uint8_t(random() % 4 == 0 ? valid : 0);
        const auto before = cache.touch(
            line, valid, dirty, [&](const SectoredCache::Line& l) { evicted.push_back(l); },
            places[line]);
        ASSERT_EQ(slow.touch(line, valid, dirty), before.valid);
        ASSERT_EQ(slow.evicted.size(), evicted.size());
        if (evicted.empty()) continue;
        ASSERT_EQ(slow.evicted.back().number, evicted.back().number);
        ASSERT_EQ(slow.evicted.back().valid, evicted.back().valid);
        ASSERT_EQ(slow.evicted.back().dirty, evicted.back().dirty);
    }
}

TEST(L1Cache, AgreesWithALeastRecentlyUsedList) {
    std::mt19937_64 random(1);
    L1Cache cache(L1Cache::ways * line_bytes);
    SlowCache slow{L1Cache::ways};
    std::map<uint64_t, uint64_t> used;  // the time of the last use of each line
    for (int n = 0; n < 20000; ++n) {
        const uint64_t line = random() % 33;
        const auto sectors = uint8_t(random() % 16);
        const L1Cache::Found found = cache.find(line);
        cache.use(found.place);
        const auto evicted = slow.evicted.size();
        const auto here =
            std::ranges::any_of(slow.lines, [&](const auto& l) { return l.number == line; });
        ASSERT_EQ(found.before, here);
        const auto missing = uint8_t(sectors & ~slow.touch(line, sectors, 0));
        ASSERT_EQ(cache.fetch(found.place, sectors), missing);
        if (slow.evicted.size() > evicted) {
            ASSERT_FALSE(cache.has_kept(used[slow.evicted.back().number] - 1));
        }
        used[line] = cache.now();
        if (random() % 64) continue;
        cache.drop(line, 0b0101);
        slow.lines.front().valid &= 0b1010;
        ASSERT_FALSE(cache.has_kept(cache.now() - 1));
    }
    cache.clear();
    EXPECT_TRUE(cache.has_kept(0));
    EXPECT_FALSE(cache.find(7).before);
}

TEST(SectoredCache, IsEmptyAtFirst) {
    // The second cache gets the memory of the first one.
    const auto ignore = [](const SectoredCache::Line& line) { ADD_FAILURE() << line.number; };
    for (int n = 0; n < 2; ++n) {
        SectoredCache cache(1 << 12);
        for (uint64_t line = 0; line < 500; ++line) {
            const SectoredCache::Place guess = cache.guess(line);
            EXPECT_TRUE(cache.look(line).fresh);
            cache.drop(line, 15);
            SectoredCache::Place place = guess;
            EXPECT_TRUE(cache.touch(line, 15, 15, ignore, place).fresh);
            EXPECT_FALSE(cache.look(line).fresh);
            EXPECT_EQ(cache.guess(line), place);
        }
    }
}

TEST(SectoredCache, KeepsLinesThatFit) {
    SectoredCache cache(4096);
    for (uint64_t line = 0; line < 2048; ++line) cache.touch(line * 4096, 15, 0, ignore);
    uint64_t kept = 0;
    for (uint64_t line = 0; line < 2048; ++line) kept += cache.look(line * 4096).valid == 15;
    EXPECT_GT(kept, 2048 * 0.98);  // lines at a stride of a power of two are spread over all sets
}

TEST(L2Cache, AgreesWithALeastRecentlyUsedList) {
    std::mt19937_64 random(3);
    L2Cache cache(small(1, 16));
    SlowCache slow{16};
    uint64_t reads = 0, lookups = 0, hits = 0, fetched = 0, written = 0;
    for (int n = 0; n < 20000; ++n) {
        LineAccess t;
        t.line = random() % 40;
        t.sectors = uint8_t(1 + random() % 15);
        t.whole = uint8_t(t.sectors & random());
        const auto kind = random() % 3 ? Traffic::Kind::read : Traffic::Kind::write;
        cache.handle(kind, t, uint32_t(random() % 132));
        const auto size = [](int sectors) { return uint64_t(std::popcount(unsigned(sectors))); };
        lookups += size(t.sectors);
        if (kind == Traffic::Kind::write) {
            slow.touch(t.line, t.sectors, t.sectors);
            hits += size(t.sectors);
            continue;
        }
        reads += size(t.sectors);
        const int before = slow.touch(t.line, t.sectors, 0);
        hits += size(t.sectors & before);
        int wanted = t.sectors & ~before;
        for (const int half : {0b0011, 0b1100})
            if (wanted & half) wanted |= half & ~before & ~t.sectors;
        slow.lines.front().valid |= uint8_t(wanted);
        fetched += size(wanted);
    }
    for (const auto& line : slow.evicted) written += uint64_t(std::popcount(unsigned(line.dirty)));
    EXPECT_EQ(cache.counts().l2_reads, reads);
    EXPECT_EQ(cache.counts().l2_lookups, lookups);
    EXPECT_EQ(cache.counts().l2_hits, hits);
    EXPECT_EQ(cache.counts().dram_read_bytes, 32 * fetched);
    EXPECT_EQ(cache.counts().dram_written_bytes, 32 * written);
}

TEST(L2Cache, TheLinesOfASampleAreHandledAsInTheWholeCache) {
    for (const uint32_t sample : {1u, 3u}) {
        std::mt19937_64 random(5);
        const Gpu gpu = small(2, 1024);
        L2Cache whole(gpu), part(gpu, sample);
        uint64_t lines = 0, sampled = 0;
        for (int n = 0; n < 50000; ++n) {
            LineAccess a{random() % 3000, uint8_t(1 + random() % 15), 0};
            const auto kind = Traffic::Kind(random() % 3);
            const auto from = uint32_t(random() % 8);
            const CacheCounts before = whole.counts(), of_part = part.counts();
            const bool from_dram = whole.handle(kind, a, from);
            ++lines;
            if (!L2Cache::is_in_sample(a.line, sample)) continue;
            ++sampled;
            ASSERT_EQ(part.handle(kind, a, from), from_dram);
            ASSERT_EQ(part.counts().l2_hits - of_part.l2_hits,
                      whole.counts().l2_hits - before.l2_hits);
            ASSERT_EQ(part.counts().dram_written_bytes - of_part.dram_written_bytes,
                      whole.counts().dram_written_bytes - before.dram_written_bytes);
        }
        EXPECT_NEAR(double(sampled << sample) / double(lines), 1, 0.05);
    }
}

TEST(L2Sample, EstimatesTheCountsOfAllLines) {
    for (const uint32_t exponent : {0u, 2u}) {
        std::mt19937_64 random(8);
        const Gpu gpu = small(2, 1024);
        L2Sample sample(exponent), everything(0);
        L2Cache whole(gpu), part(gpu, exponent);
        for (int n = 0; n < 50000; ++n) {
            const auto kind = Traffic::Kind(random() % 3);
            const auto sectors = uint8_t(1 + random() % 15);
            const Traffic t{.address = random() % 3000 * line_bytes,
                            .step = 7 * int32_t{line_bytes},
                            .kind = kind,
                            .sectors = sectors,
                            .whole = uint8_t(sectors & 3),
                            .count = uint8_t(1 + random() % 3)};
            constexpr uint64_t origin = 1000 * line_bytes;
            const auto from = uint32_t(random() % 8);
            std::vector<uint64_t> lines, of_sample, sampled, all;
            for (uint32_t nth = 0; nth < t.count; ++nth) {
                const LineAccess a = t.access_at(origin + t.address_of(nth));
                lines.push_back(a.line);
                whole.handle(kind, a, from);
                if (!sample.has(a.line)) continue;
                of_sample.push_back(a.line);
                part.handle(kind, a, from);
            }
            const auto add = [&](L2Sample& to, std::vector<uint64_t>& found) {
                L2Sample::Batch batch(
                    to, [&](const Traffic&, const LineAccess& a) { found.push_back(a.line); });
                batch.add(t, origin);
                return batch.end();
            };
            ASSERT_EQ(add(sample, sampled), t.count * sectors_in(t.sectors));
            ASSERT_EQ(sampled, of_sample);
            ASSERT_EQ(add(everything, all), t.count * sectors_in(t.sectors));
            ASSERT_EQ(all, lines);
        }
        const CacheCounts exact = everything.estimate(whole.counts(), 123);
        const CacheCounts estimate = sample.estimate(part.counts(), exponent ? 0 : 123);
        EXPECT_EQ(exact.l2_merged, 123u);
        EXPECT_EQ(estimate.l2_reads, exact.l2_reads);
        EXPECT_EQ(estimate.l2_writes, exact.l2_writes);
        EXPECT_EQ(estimate.l2_partial_writes, exact.l2_partial_writes);
        const auto expect_near = [&](uint64_t value, uint64_t wanted) {
            EXPECT_NEAR(double(value), double(wanted), exponent ? 0.1 * double(wanted) : 0);
        };
        expect_near(estimate.l2_lookups, exact.l2_lookups);
        expect_near(estimate.l2_hits, exact.l2_hits);
        expect_near(estimate.dram_read_bytes, exact.dram_read_bytes);
        expect_near(estimate.dram_written_bytes, exact.dram_written_bytes);
    }
}

TEST(KeptPages, MemoryIsUsedAgainForTheSameSize) {
    using Numbers = std::vector<uint64_t, KeptPages<uint64_t>>;
    constexpr size_t large = 1 << 15, other = 1 << 16;
    const uint64_t* first;
    {
        Numbers numbers(large);
        first = numbers.data();
    }
    Numbers same(large), different(other);
    EXPECT_EQ(same.data(), first);
    Numbers growing;
    for (uint64_t n = 0; n < 3 * large; ++n) growing.push_back(n);
    for (uint64_t n = 0; n < 3 * large; ++n) ASSERT_EQ(growing[n], n);
    // Memory with huge pages is kept separately.
    constexpr size_t huge = size_t{2} << 20;
    void* const plain = KeptPages<char>().allocate(huge);
    KeptPages<char>().deallocate(static_cast<char*>(plain), huge);
    char* const aligned = HugePages<char>().allocate(huge);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % huge, 0u);
    EXPECT_NE(aligned, plain);
    HugePages<char>().deallocate(aligned, huge);
}

TEST(L2Cache, BothPartitionsKeepACopyAndDramIsReadOnce) {
    L2Cache cache(small(2, 1 << 16));
    constexpr uint64_t lines = 1 << 12;
    const auto read_all = [&](uint32_t from) {
        for (uint64_t line = 0; line < lines; ++line)
            cache.handle(Traffic::Kind::read, {line, 15, 0}, from);
    };
    read_all(0);
    EXPECT_EQ(cache.counts().dram_read_bytes, 128 * lines);
    EXPECT_EQ(cache.counts().l2_hits, 0u);
    // About half of the lines have their home in the other partition, and are looked up twice.
    EXPECT_NEAR(double(cache.counts().l2_lookups), 1.5 * 4 * lines, 0.1 * 4 * lines);
    read_all(1);
    EXPECT_EQ(cache.counts().dram_read_bytes, 128 * lines);
    const uint64_t before = cache.counts().l2_lookups;
    read_all(0);
    read_all(1);
    EXPECT_EQ(cache.counts().l2_lookups, before + 2 * 4 * lines);
}

TEST(L2Cache, AWriteRemovesTheCopyOfTheOtherPartition) {
    L2Cache cache(small(2, 1 << 16));
    for (uint64_t line = 0; line < 1024; ++line) {
        for (const uint32_t from : {0u, 1u}) cache.handle(Traffic::Kind::read, {line, 15, 0}, from);
        for (const uint32_t from : {0u, 1u}) {
            cache.handle(Traffic::Kind::write, {line, 0b0100, 0b0100}, from);
            const uint64_t before = cache.counts().l2_lookups, hits = cache.counts().l2_hits;
            cache.handle(Traffic::Kind::read, {line, 15, 0}, from);
            // If this is not the home of the line, the written sector is looked up there.
            const uint64_t asked = cache.counts().l2_lookups - before;
            EXPECT_TRUE(asked == 4 || asked == 5) << line;
            EXPECT_EQ(cache.counts().l2_hits - hits, 4u) << line;
        }
    }
    EXPECT_GT(cache.counts().l2_lookups, 0u);
}

TEST(L2Cache, DramIsReadInHalfLines) {
    L2Cache cache(small(1, 1024));
    for (uint64_t line = 0; line < 100; ++line)
        cache.handle(Traffic::Kind::read, {line, 0b0001, 0}, 0);
    EXPECT_EQ(cache.counts().dram_read_bytes, 64 * 100u);
    cache.handle(Traffic::Kind::read, {0, 0b0010, 0}, 0);
    EXPECT_EQ(cache.counts().dram_read_bytes, 64 * 100u);
    cache.handle(Traffic::Kind::read, {0, 0b0100, 0}, 0);
    EXPECT_EQ(cache.counts().dram_read_bytes, 64 * 101u);
}

TEST(L2Cache, WritesReachDramOnEviction) {
    L2Cache cache(small(1, 1024));
    for (uint64_t line = 0; line < 10000; ++line)
        cache.handle(Traffic::Kind::write, {line, 15, 15}, 0);
    EXPECT_EQ(cache.counts().dram_read_bytes, 0u);
    EXPECT_EQ(cache.counts().dram_written_bytes, 128u * (10000 - 1024));
}

TEST(Gpus, AreUniqueAndCiteTheirSources) {
    std::set<std::string_view> names;
    for (const Gpu& gpu : gpus()) {
        EXPECT_TRUE(names.insert(gpu.name).second);
        EXPECT_EQ(find_gpu(gpu.name), &gpu);
        EXPECT_FALSE(gpu.source.empty());
        EXPECT_GT(gpu.l1_kb, gpu.carveouts_kb().back() - 1);
        EXPECT_EQ(gpu.carveouts_kb().back(), gpu.shared_kb);
    }
    EXPECT_EQ(find_gpu("abacus"), nullptr);
}

TEST(Occupancy, EqualsTheRecordings) {
    const Gpu& h200 = *find_gpu("h200");
    // launch__occupancy_limit_* in tests/data/models_h200.json: naive, corner_turned, padded, copy
    EXPECT_EQ(occupancy(h200, 1024, 32, 0).blocks, 2u);
    EXPECT_EQ(occupancy(h200, 1024, 40, 8192).blocks, 1u);
    EXPECT_STREQ(occupancy(h200, 1024, 40, 8192).limit, "registers");
    EXPECT_EQ(occupancy(h200, 256, 30, 4224).blocks, 8u);
    EXPECT_EQ(occupancy(h200, 256, 28, 0).blocks, 8u);
    EXPECT_EQ(occupancy(h200, 32, 0, 0).blocks, 32u);
    EXPECT_EQ(occupancy(h200, 256, 32, 100 * 1024).blocks, 2u);
    EXPECT_EQ(occupancy(h200, 1, 255, 227 * 1024).blocks, 1u);
    for (const Gpu& gpu : gpus()) {
        EXPECT_EQ(occupancy(gpu, 1024, 32, gpu.max_block_shared_bytes()).blocks, 1u) << gpu.name;
        EXPECT_GE(occupancy(gpu, 256, 32, 0).cache_bytes, 32u * 1024) << gpu.name;
    }
}

TEST(Time, GrowsWithEachKindOfWorkAndNamesTheBound) {
    const Gpu& h200 = *find_gpu("h200");
    const Occupancy o = occupancy(h200, 256, 32, 0);
    Work work;
    work.blocks = 1 << 14;
    work.instructions_per_warp = 20;
    work.memory_waits = 1;
    const double least = modelled_time(h200, o, work).ms;
    EXPECT_EQ(modelled_time(h200, o, work).bound, Bound::latency);
    const std::pair<uint64_t Work::*, Bound> kinds[] = {
        {&Work::instructions, Bound::issue},     {&Work::fp64, Bound::fp64},
        {&Work::requests, Bound::requests},      {&Work::tag_lookups, Bound::data},
        {&Work::shared_wavefronts, Bound::data}, {&Work::constant_lookups, Bound::constants},
        {&Work::l2_sectors, Bound::l2},          {&Work::dram_bytes, Bound::dram}};
    for (const auto& [member, bound] : kinds) {
        Work more = work;
        more.*member = uint64_t(1) << 40;
        const Time t = modelled_time(h200, o, more);
        EXPECT_EQ(t.bound, bound);
        EXPECT_GT(t.ms, 10 * least);
        more.*member = uint64_t(1) << 41;
        EXPECT_NEAR(modelled_time(h200, o, more).ms / t.ms, 2, 0.1);
    }
    work.blocks = 0;
    EXPECT_GT(modelled_time(h200, o, work).ms, 0);
}

TEST(Time, StartsABlockPerCycle) {
    const Gpu& h200 = *find_gpu("h200");
    Work work;
    work.blocks = 1 << 20;
    work.instructions = work.blocks;
    work.instructions_per_warp = 1;
    const Time t = modelled_time(h200, occupancy(h200, 32, 32, 0), work);
    EXPECT_EQ(t.bound, Bound::latency);
    EXPECT_GT(t.ms * 1e-3 * h200.clock_ghz * 1e9, double(work.blocks));
}

}  // namespace
}  // namespace coalesce::model
