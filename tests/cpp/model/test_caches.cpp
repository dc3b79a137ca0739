// Compares the caches with a simple, slow cache (an oracle), and tests properties of L1 and L2.
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <random>
#include <set>

#include "analysis/small_gpu.hpp"
#include "model/caches/caches.hpp"
#include "model/caches/kept_memory.hpp"
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

TEST(SectoredCache, AgreesWithALeastRecentlyUsedList) {
    std::mt19937_64 random(1);
    for (const uint32_t ways : {1u, 4u, 16u}) {
        SectoredCache cache(ways, ways);
        SlowCache slow{ways};
        // The places at which lines were found before. Some are still right, others are outdated.
        std::map<uint64_t, SectoredCache::Place> places;
        std::vector<SectoredCache::Line> evicted;
        for (int n = 0; n < 20000; ++n) {
            const uint64_t line = random() % (2 * ways + 1);
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
}

TEST(LargeSectoredCache, AgreesWithTimedSets) {
    std::mt19937_64 random(2);
    constexpr uint64_t lines = 64;
    SectoredCache plain(lines);
    LargeSectoredCache quick(lines);
    for (int n = 0; n < 50000; ++n) {
        const uint64_t line = random() % 200;
        const auto valid = uint8_t(random() % 16), dirty = uint8_t(valid & random());
        if (n % 8 == 0) {
            plain.drop(line, valid);
            quick.drop(line, valid);
            continue;
        }
        SectoredCache::Line gone[2] = {};
        const auto before = plain.touch(line, valid, dirty, [&](const auto& l) { gone[0] = l; });
        const auto same = quick.touch(line, valid, dirty, [&](const auto& l) {
            gone[1] = {l.number, l.valid, l.dirty, false};
        });
        ASSERT_EQ(before.valid, same.valid);
        ASSERT_EQ(before.dirty, same.dirty);
        ASSERT_EQ(before.fresh, same.fresh);
        ASSERT_EQ(gone[0].number, gone[1].number);
        ASSERT_EQ(gone[0].dirty, gone[1].dirty);
        ASSERT_EQ(plain.look(line / 2).valid, quick.look(line / 2).valid);
    }
}

TEST(LargeSectoredCache, IsEmptyAtFirst) {
    // The second cache gets the memory of the first one.
    const auto ignore = [](const LargeSectoredCache::Line& line) { ADD_FAILURE() << line.number; };
    for (int n = 0; n < 2; ++n) {
        LargeSectoredCache cache(1 << 12);
        for (uint64_t line = 0; line < 500; ++line) {
            const LargeSectoredCache::Place guess = cache.guess(line);
            EXPECT_TRUE(cache.look(line).fresh);
            cache.drop(line, 15);
            LargeSectoredCache::Place place = guess;
            EXPECT_TRUE(cache.touch(line, 15, 15, ignore, place).fresh);
            EXPECT_FALSE(cache.look(line).fresh);
            EXPECT_EQ(cache.guess(line), place);
        }
    }
}

TEST(SectoredCache, UsingAGroupEqualsSeparateTouches) {
    std::mt19937_64 random(3);
    constexpr uint64_t lines = 64;
    SectoredCache quick(lines), plain(lines);
    struct Known {
        uint64_t first = 0, step = 0;
        uint32_t count = 0;
        uint8_t sectors = 0;
        SectoredCache::Group group;
    };
    std::vector<Known> known(8);
    int used = 0, hits = 0, evicted[2] = {};
    const auto touch_all = [&](Known& k, uint8_t sectors) {
        const uint64_t state = quick.state();
        for (uint32_t i = 0; i < k.count; ++i) {
            SectoredCache::Line gone[2] = {};
            const uint64_t line = k.first + i * k.step;
            const auto before = plain.touch(line, sectors, 0, [&](const auto& l) {
                gone[0] = l;
                ++evicted[0];
            });
            const auto same = quick.touch(
                line, sectors, 0,
                [&](const auto& l) {
                    gone[1] = l;
                    ++evicted[1];
                },
                k.group.places[i]);
            ASSERT_EQ(before.valid, same.valid);
            ASSERT_EQ(before.fresh, same.fresh);
            ASSERT_EQ(gone[0].number, gone[1].number);
        }
        quick.close(k.group, k.count, state);
        k.sectors = sectors;
    };
    for (int n = 0; n < 50000; ++n) {
        Known& k = known[random() % known.size()];
        const auto sectors = uint8_t(1 + random() % 15);
        if (random() % 64 == 0) {
            const uint64_t line = random() % 64;
            plain.drop(line, sectors);
            quick.drop(line, sectors);
        } else if (random() % 32 == 0) {  // the group gets other lines
            quick.open(k.group);
            k.first = random() % 64, k.step = 1 + random() % 8;
            k.count = uint32_t(1 + random() % 12);
            touch_all(k, sectors);
        } else if (k.count) {
            const bool intact = quick.is_intact(k.group) && !(sectors & ~k.sectors);
            bool all = intact;
            if (!intact) {
                const uint8_t there = quick.find(k.group, k.first, k.step, k.count);
                if (there) k.sectors = there;
                all = there && !(sectors & ~there);
                hits += all;
            }
            if (all) {
                ++used;
                quick.use(k.group);
                for (uint32_t i = 0; i < k.count; ++i) {
                    const uint64_t line = k.first + i * k.step;
                    const auto before = plain.touch(line, sectors, 0, [](const auto&) {});
                    ASSERT_FALSE(before.fresh);
                    ASSERT_EQ(before.valid & sectors, sectors);
                }
            } else {
                quick.open(k.group);
                touch_all(k, sectors);
            }
        }
    }
    EXPECT_GT(used, 5000);
    EXPECT_GT(hits, 500);
    EXPECT_GT(evicted[0], 500);
    EXPECT_EQ(evicted[0], evicted[1]);
}

TEST(SectoredCache, ALargerCacheNeverHitsLess) {
    std::mt19937_64 random(2);
    std::vector<uint64_t> lines(20000);
    for (uint64_t& line : lines) line = random() % (1 + random() % 64);
    uint64_t last = 0;
    for (const uint32_t ways : {2u, 4u, 8u, 16u, 32u, 64u}) {
        SectoredCache cache(ways, ways);
        uint64_t hits = 0;
        for (const uint64_t line : lines) hits += !cache.touch(line, 1, 0, ignore).fresh;
        EXPECT_GE(hits, last) << ways;
        last = hits;
    }
    EXPECT_EQ(last, lines.size() - std::set(lines.begin(), lines.end()).size());
}

TEST(SectoredCache, KeepsLinesThatFit) {
    SectoredCache cache(4096);
    for (uint64_t line = 0; line < 2048; ++line) cache.touch(line * 4096, 15, 0, ignore);
    uint64_t kept = 0;
    for (uint64_t line = 0; line < 2048; ++line) kept += cache.look(line * 4096).valid == 15;
    EXPECT_GT(kept, 2048 * 0.98);  // lines at a stride of a power of two are spread over all sets
}

TEST(L1Cache, StoresAllocateALineWithoutData) {
    L1Cache cache(1 << 15);
    EXPECT_EQ(cache.load({7, 0b0011, 0}), 0b0011);
    EXPECT_EQ(cache.load({7, 0b0111, 0}), 0b0100);
    cache.store({9, 0b1111, 0b1111});
    cache.store({9, 0b0001, 0b0001});
    EXPECT_EQ(cache.load({9, 0b0001, 0}), 0b0001);
    EXPECT_EQ(cache.counts().l1_loads, 6u);
    EXPECT_EQ(cache.counts().l1_load_hits, 2u);
    EXPECT_EQ(cache.counts().l1_stores, 5u);
    EXPECT_EQ(cache.counts().l1_store_hits, 1u);
    EXPECT_EQ(cache.bypassing_load({7, 0b0001, 0}), 0b0001);
    cache.atomic({7, 0b0001, 0});
    EXPECT_EQ(cache.load({7, 0b0011, 0}), 0b0001);
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
            const Traffic t{.line = random() % 3000,
                            .step = 7,
                            .kind = kind,
                            .sectors = sectors,
                            .whole = uint8_t(sectors & 3),
                            .count = uint8_t(1 + random() % 3)};
            constexpr uint64_t origin = 1000;
            const auto from = uint32_t(random() % 8);
            std::vector<uint64_t> lines, of_sample, sampled, all;
            for (uint32_t nth = 0; nth < t.count; ++nth) {
                const LineAccess a{origin + t.line_at(nth), t.sectors, t.whole};
                lines.push_back(a.line);
                whole.handle(kind, a, from);
                if (!sample.has(a.line)) continue;
                of_sample.push_back(a.line);
                part.handle(kind, a, from);
            }
            const auto add = [&](L2Sample& to, std::vector<uint64_t>& found) {
                L2Sample::Batch batch(to, [&](const Traffic&, uint64_t line, uint32_t, bool) {
                    found.push_back(line);
                });
                batch.add(t, origin, 0);
                if (to.counts_first_reads()) to.count_first_reads(t, origin);
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

TEST(L2Sample, KnowsWhichLinesWereRequestedBefore) {
    for (const uint32_t exponent : {0u, 2u}) {
        std::mt19937_64 random(3);
        L2Sample sample(exponent);
        std::set<uint64_t> before;
        bool reads_again = false;
        for (int n = 0; n < 2000; ++n) {
            // At first, lines are only written. Later, lines are also read.
            const auto kind = n < 1000 ? Traffic::Kind::write : Traffic::Kind(random() % 3);
            const Traffic t{.line = random() % 3000,
                            .step = -5,
                            .kind = kind,
                            .sectors = uint8_t(1 + random() % 15),
                            .count = uint8_t(1 + random() % 3)};
            L2Sample::Batch batch(
                sample, [&](const Traffic& sent, uint64_t line, uint32_t time, bool repeats) {
                    ASSERT_EQ(&sent, &t);
                    ASSERT_EQ(time, uint32_t(n));
                    if (!reads_again || exponent != 0) {
                        ASSERT_EQ(repeats, before.contains(line)) << n;
                    }
                    reads_again |= repeats && kind != Traffic::Kind::write;
                });
            batch.add(t, 100, uint32_t(n));
            batch.end();
            for (uint32_t nth = 0; nth < t.count; ++nth) before.insert(100 + t.line_at(nth));
            ASSERT_EQ(sample.reads_again(), reads_again) << n;
        }
        EXPECT_TRUE(reads_again);
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

}  // namespace
}  // namespace coalesce::model
