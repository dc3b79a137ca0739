// Tests that L2 is replayed in the same way with and without the models of its contents.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "analysis/caches/l2_replay.hpp"

namespace coalesce::analysis {
namespace {

using model::BlockSchedule;
using model::CacheCounts;
using model::Traffic;

constexpr uint32_t instructions = 3;

// Sends requests for `count` lines from `first` on, in slices of random size.
void send(L2Replay& replay, std::mt19937_64& random, uint64_t first, uint64_t count,
          Traffic::Kind kind, uint32_t pc, double& now) {
    for (uint64_t sent = 0; sent < count;) {
        BlockSchedule::Slice slice;
        slice.start = now;
        model::L2Sample::Batch batch(replay.sample(),
                                     [&](const Traffic& t, uint64_t line, uint32_t, bool repeats) {
                                         slice.requests.push_back({.line = line,
                                                                   .time = now,
                                                                   .pc = t.pc,
                                                                   .repeats = repeats,
                                                                   .from = uint8_t(random() % 8),
                                                                   .kind = t.kind,
                                                                   .sectors = t.sectors,
                                                                   .whole = t.sectors});
                                     });
        std::deque<Traffic> requests;  // its elements stay where they are
        for (uint64_t left = std::min<uint64_t>(count - sent, random() % 100); left > 0; --left) {
            const Traffic& t = requests.emplace_back(
                Traffic{.line = first + sent++, .pc = pc, .kind = kind, .sectors = 15});
            batch.add(t, 0, 0);
            if (replay.sample().counts_first_reads()) replay.sample().count_first_reads(t, 0);
        }
        batch.end();
        replay.handle(slice);
        now += 64;
    }
}

TEST(L2Replay, ALaterReadAddsOnlyItsOwnCounts) {
    for (const uint32_t sample : {0u, 2u}) {
        std::mt19937_64 random(4);
        const model::Gpu& gpu = *model::find_gpu("h200");
        L2Replay replay(gpu, instructions, sample);
        constexpr uint64_t lines = 20000;
        double now = 0;
        send(replay, random, 0, lines, Traffic::Kind::read, 0, now);
        send(replay, random, lines, lines, Traffic::Kind::write, 1, now);
        send(replay, random, lines, lines / 2, Traffic::Kind::write, 1, now);
        ASSERT_FALSE(replay.sample().reads_again());
        const CacheCounts before = replay.counts();
        const std::vector<Misses> misses = replay.misses();
        EXPECT_EQ(misses[0].slow, misses[0].read);
        EXPECT_EQ(before.dram_read_bytes, lines * model::line_bytes);

        // From now on the models are used, also for the earlier requests.
        now += 10000;
        uint64_t line = 7;
        while (!replay.sample().has(line)) ++line;
        send(replay, random, line, 1, Traffic::Kind::read, 2, now);
        ASSERT_TRUE(replay.sample().reads_again());
        const CacheCounts after = replay.counts();
        EXPECT_EQ(after.dram_read_bytes, before.dram_read_bytes);
        EXPECT_EQ(after.dram_written_bytes, before.dram_written_bytes);
        EXPECT_EQ(after.l2_reads, before.l2_reads + 4);
        EXPECT_NEAR(double(after.l2_hits), double(before.l2_hits + 4), sample ? 4 : 0);
        EXPECT_EQ(replay.misses()[0].read, misses[0].read);
        EXPECT_EQ(replay.misses()[0].slow, misses[0].slow);
        EXPECT_EQ(replay.misses()[2].read, 1u);
        EXPECT_EQ(replay.misses()[2].slow, 0u);
    }
}

TEST(L2Replay, LargeLaunchesUseTheModels) {
    std::mt19937_64 random(4);
    const model::Gpu& gpu = *model::find_gpu("h200");
    L2Replay replay(gpu, instructions, 0);
    constexpr uint64_t lines = 200000;
    double now = 0;
    send(replay, random, 0, lines, Traffic::Kind::read, 0, now);
    EXPECT_EQ(replay.counts().dram_read_bytes, lines * model::line_bytes);
    EXPECT_EQ(replay.counts().l2_hits, 0u);
    EXPECT_EQ(replay.misses()[0].read, lines);
    EXPECT_EQ(replay.misses()[0].slow, lines);
}

}  // namespace
}  // namespace coalesce::analysis
