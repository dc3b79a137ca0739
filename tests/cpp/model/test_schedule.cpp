// Tests which blocks run on which multiprocessors, and which of their reads are merged.
#include <gtest/gtest.h>

#include <memory>

#include "model/block_schedule.hpp"
#include "model/request_coalescer.hpp"
#include "model/time.hpp"

namespace coalesce::model {
namespace {

TEST(RequestCoalescer, MergesPendingReadsOfAGpc) {
    RequestCoalescer coalescer(*find_gpu("h200"));
    const auto missing = [&](uint32_t gpc, uint64_t line, uint8_t sectors, double now) {
        return coalescer.missing(coalescer.entry_of(gpc, line), line, sectors, now);
    };
    const auto mark_pending = [&](uint8_t sectors, double now, bool from_dram) {
        coalescer.mark_pending(coalescer.entry_of(0, 7), 7, sectors, now, from_dram);
    };
    EXPECT_EQ(missing(0, 7, 0b1111, 0), 0b1111);
    mark_pending(0b0011, 0, false);
    EXPECT_EQ(missing(0, 7, 0b0111, 150), 0b0100);
    EXPECT_EQ(missing(1, 7, 0b0111, 150), 0b0111);  // another GPC requested it
    EXPECT_EQ(missing(0, 8, 0b0111, 150), 0b0111);  // another line
    EXPECT_EQ(missing(0, 7, 0b0111, 250), 0b0111);  // the answer has arrived
    mark_pending(0b0100, 300, true);                // DRAM takes longer
    EXPECT_EQ(missing(0, 7, 0b0111, 750), 0b0011);
    EXPECT_EQ(missing(0, 7, 0b0111, 950), 0b0111);
}

TEST(RequestCoalescer, DoesNotExistBeforeHopper) {
    RequestCoalescer coalescer(*find_gpu("a100"));
    coalescer.mark_pending(coalescer.entry_of(0, 7), 7, 0b1111, 0, false);
    EXPECT_EQ(coalescer.missing(coalescer.entry_of(0, 7), 7, 0b1111, 1), 0b1111);
}

TEST(RequestCoalescer, EveryMultiprocessorIsInAGpc) {
    for (const Gpu& gpu : gpus()) {
        EXPECT_EQ(gpu.gpc_of(0), 0u);
        EXPECT_EQ(gpu.gpc_of(gpu.multiprocessors - 1), gpu.gpcs() - 1);
    }
}

std::shared_ptr<const ReplayedBlock> reading(uint64_t line, uint32_t cycles) {
    auto filtered = std::make_shared<ReplayedBlock>();
    filtered->cycles = cycles;
    for (uint32_t time = 0; time < cycles; ++time)
        filtered->traffic.push_back(
            {.address = (line + time) * line_bytes, .time = time, .sectors = 0b1111});
    return filtered;
}

TEST(BlockSchedule, RunsEachRequestOnceInOrder) {
    const Gpu& gpu = *find_gpu("h200");
    L2Sample all(0);
    BlockSchedule schedule(gpu, 2, all);
    constexpr uint64_t blocks = 1000, cycles = 300;
    std::vector<uint64_t> next(blocks);
    uint64_t started = 0, ended = 0, most = 0;
    double last = 0;
    do {
        for (; started < blocks && schedule.has_place(); ++started)
            schedule.start(started, reading(started * cycles, cycles));
        const BlockSchedule::Slice& slice = schedule.run_slice();
        const double before = last;  // slices follow one another
        for (const L2Request& r : slice.requests) {
            const uint64_t block = r.line / cycles;
            EXPECT_EQ(r.line % cycles, next[block]++);
            EXPECT_LT(r.from, gpu.gpcs());
            EXPECT_GE(r.time, before);
            last = std::max(last, r.time);
        }
        ended += slice.ended.size();
        most = std::max(most, started - ended);
    } while (!schedule.is_empty());
    EXPECT_EQ(next, std::vector<uint64_t>(blocks, cycles));
    EXPECT_EQ(ended, blocks);
    EXPECT_LE(most, 2 * gpu.multiprocessors);
}

TEST(Traffic, JoinsEqualRequestsAtOneDistance) {
    Traffic t{.address = 100 * line_bytes, .time = 7, .sectors = 0b0011};
    const auto extend = [&](uint64_t line, uint32_t time, uint8_t sectors) {
        return t.extend({.address = line * line_bytes, .time = time, .sectors = sectors});
    };
    EXPECT_FALSE(extend(90, 8, 0b0011));
    EXPECT_FALSE(extend(90, 7, 0b0001));
    EXPECT_FALSE(extend(100 + (uint64_t{1} << 40), 7, 0b0011));
    EXPECT_TRUE(extend(90, 7, 0b0011));
    EXPECT_FALSE(extend(81, 7, 0b0011));
    EXPECT_TRUE(extend(80, 7, 0b0011));
    EXPECT_EQ(t.count, 3);
    for (const uint32_t n : {0u, 1u, 2u}) {
        const LineAccess a = t.access_at(t.address_of(n));
        EXPECT_EQ(a.line, 100 - 10 * n);
        EXPECT_EQ(a.sectors, 0b0011);
    }
}

TEST(Traffic, JoinsSectorsAtOneDistance) {
    Traffic t{.address = 200, .sectors = 0b0001, .whole = 0b0001};
    for (const uint64_t n : {1, 2, 3, 4})
        EXPECT_TRUE(t.extend({.address = 200 + n * 2052, .sectors = 0b0001, .whole = 0b0001}));
    for (const uint32_t n : {0u, 1u, 2u, 3u, 4u}) {
        const LineAccess a = t.access_at(t.address_of(n));
        EXPECT_EQ(a.line, (200 + n * 2052) / line_bytes);
        EXPECT_EQ(a.sectors, 1 << (200 + n * 2052) / sector_bytes % 4);
        EXPECT_EQ(a.whole, a.sectors);
    }
}

TEST(BlockSchedule, LastsAsLongAsL2Needs) {
    const Gpu& gpu = *find_gpu("h200");
    L2Sample all(0);
    BlockSchedule schedule(gpu, 1, all);
    constexpr uint32_t cycles = 10000;
    for (uint64_t block = 0; schedule.has_place(); ++block)
        schedule.start(block, reading(block * cycles, cycles));
    double end = 0;
    while (!schedule.is_empty())
        for (const L2Request& r : schedule.run_slice().requests) end = std::max(end, r.time);
    const double sectors = 4.0 * cycles;  // sectors of one multiprocessor
    EXPECT_NEAR(end, sectors / l2_sectors_per_cycle, 0.1 * end);
}

}  // namespace
}  // namespace coalesce::model
