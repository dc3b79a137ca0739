// Tests launches with all kinds of requests: plain, counted, replayed, traced and checked.
#include "analysis/launch.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <random>

#include "analysis/fixture.hpp"

namespace coalesce::analysis {
namespace {

TEST(Launch, RunsPlainly) {
    Kernel k("mov.u32 %r0, 7;");
    const Result r = k.launch(k.request(1));
    EXPECT_EQ(k.out(31), 7u);
    EXPECT_FALSE(r.counts || r.trace || r.checked || r.caches || r.time);
}

TEST(Launch, CountsAndModelsATime) {
    Kernel k("");
    LaunchRequest request = k.request(3);
    request.counts = true;
    const Result r = k.launch(request);
    const InstructionCounts loads = r.counts->sum(ptx::Space::global, sim::Access::load);
    EXPECT_EQ(loads.requests, 3u * 3u);  // three words, and one warp in each of three blocks
    EXPECT_EQ(loads.sectors, 3u * 3u * 24u);
    EXPECT_EQ(r.work.blocks, 3u);
    EXPECT_GT(r.time->ms, 0);
    EXPECT_FALSE(r.caches);
}

TEST(Launch, ModelsAWholeGridFromItsFirstRounds) {
    Kernel k("");
    LaunchRequest some =
        k.request(2 * 40 * 16, "t4");  // a T4's 40 multiprocessors hold 16 blocks each
    some.counts = some.caches = true;
    LaunchRequest all = some;
    some.first_rounds = 1;
    const Result half = k.launch(some), whole = k.launch(all);
    EXPECT_EQ(2 * half.counts->executed(), whole.counts->executed());
    EXPECT_EQ(half.work.instructions, whole.work.instructions);
    EXPECT_EQ(half.work.requests, whole.work.requests);
    EXPECT_EQ(half.work.fp32, whole.work.fp32);
    ASSERT_TRUE(half.caches && whole.caches);
    EXPECT_EQ(half.caches->blocks, whole.caches->blocks);
}

TEST(Launch, KeepsRequestedEvents) {
    Kernel k("");
    LaunchRequest request = k.request(4);
    request.record.emplace();
    request.record->blocks = {2};
    const Result r = k.launch(request);
    ASSERT_TRUE(r.trace);
    ASSERT_EQ(r.trace->events.size(), 4u);  // three loads and a store
    for (const TraceEvent& e : r.trace->events) EXPECT_EQ(e.block, 2u);
}

// A loop of accesses to shared and global memory. Their strides and the distances between
// iterations are random, and some are only executed by a part of the threads.
std::string random_accesses(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<int> values) {
        return std::to_string(values.begin()[random() % values.size()]);
    };
    std::string text = "ld.param.u64 %d4, [in]; mov.u32 %r4, sm; setp.lt.u32 %p4, %i, " +
                       pick({20, 64, 100}) + ";\nmov.u32 %r7, 5;\n";
    text += "mad.wide.u32 %d5, %i, " + pick({0, 4, 8, 12}) + ", %d4;\n";
    text += "mad.lo.u32 %r5, %i, " + pick({0, 4, 8, 16, 36, 64}) + ", %r4;\n";
    text += "mad.lo.u32 %r6, %i, " + pick({4, 132}) + ", %r4;\nL:\n";
    const std::string accesses[] = {
        "ld.shared.u32 %r8, [%r5+",  "st.shared.u32 [%r6+",       "ld.shared.u32 %r9, [%r6+",
        "ld.global.u32 %r10, [%d5+", "ld.global.u32 %r11, [%d4+",
    };
    for (int n = 0; n < 8; ++n) {
        const std::string& access = accesses[random() % std::size(accesses)];
        const bool stores = access.starts_with("st");
        text += (random() % 4 ? "" : "@%p4 ") + access + pick({0, 4, 64, 128}) +
                (stores ? "], %r7;\n" : "];\n");
    }
    text += "add.u32 %r5, %r5, " + pick({0, 4, 128}) + "; add.u32 %r6, %r6, " + pick({0, 8, 12}) +
            "; add.s64 %d5, %d5, " + pick({0, 4, 128}) + ";\n";
    return text + "sub.u32 %r7, %r7, 1; setp.ne.u32 %p5, %r7, 0;\n@%p5 bra L;\n";
}

// Most accesses of a counted launch are not announced (sim/warp/repetition.hpp). If all events are
// recorded, all accesses are announced. The counts must be the same.
TEST(Launch, CountsRepeatedAccessesLikeAnnouncedOnes) {
    std::mt19937 random(1);
    for (int n = 0; n < 300; ++n) {
        const std::string body = random_accesses(random);
        Kernel k(body, 128, ".shared .align 16 .b8 sm[20480];\n");
        LaunchRequest request = k.request(20);
        request.launch.workers = 1;
        request.counts = request.caches = true;
        LaunchRequest all = request;
        all.record = Recording{};
        const Result quick = k.launch(request), slow = k.launch(all);
        ASSERT_EQ(quick.counts->instructions, slow.counts->instructions) << body;
        uint64_t requests = 0;
        for (const InstructionCounts& c : slow.counts->instructions) requests += c.requests;
        EXPECT_EQ(slow.trace->events.size(), requests);
        const model::CacheCounts &a = quick.caches->counts, &b = slow.caches->counts;
        EXPECT_TRUE(a.l1_loads == b.l1_loads && a.l1_load_hits == b.l1_load_hits &&
                    a.l1_stores == b.l1_stores && a.l2_reads == b.l2_reads &&
                    a.l2_hits == b.l2_hits)
            << body;
        EXPECT_EQ(quick.time->ms, slow.time->ms) << body;
    }
}

TEST(Launch, ChecksInsteadOfCounting) {
    Kernel k("add.u64 %out, %out, 1024;");
    LaunchRequest request = k.request(1);
    request.check.emplace();
    const Result r = k.launch(request);
    ASSERT_TRUE(r.checked);
    ASSERT_EQ(r.checked->findings.size(), 1u);
    EXPECT_EQ(r.checked->findings[0].kind, FindingKind::out_of_bounds);
    EXPECT_FALSE(r.counts);
}

TEST(Launch, KernelsSeeTheGpusProperties) {
    Kernel k("mov.u32 %r0, %nsmid;");
    (void)k.launch(k.request(1));
    EXPECT_EQ(k.out(0), 132u);
    (void)k.launch(k.request(1, "t4"));
    EXPECT_EQ(k.out(0), 40u);
}

TEST(Launch, IsRefusedIfTheGpuCannotRunIt) {
    Kernel k("", 2048);
    EXPECT_THROW(k.launch(k.request(1)), LaunchError);
}

TEST(PurposeOf, FitsTheRequest) {
    LaunchRequest r;
    EXPECT_EQ(purpose_of(r), Purpose::run);
    r.exemplars = 1;
    EXPECT_EQ(purpose_of(r), Purpose::count);
    r.record.emplace();
    EXPECT_EQ(purpose_of(r), Purpose::trace);
    r.check.emplace();
    EXPECT_EQ(purpose_of(r), Purpose::check);
}

TEST(Scaled, MultipliesTheSums) {
    model::Work w;
    w.blocks = w.instructions = w.fp32 = w.fp64 = w.alu = w.xu = w.requests = w.tag_lookups =
        w.shared_wavefronts = w.constant_lookups = 2;
    w.l2_sectors = w.dram_bytes = 2;
    w.instructions_per_warp = 2;
    const model::Work s = scaled(w, 3);
    for (const uint64_t sum : {s.blocks, s.instructions, s.fp32, s.fp64, s.alu, s.xu, s.requests,
                               s.tag_lookups, s.shared_wavefronts, s.constant_lookups})
        EXPECT_EQ(sum, 6u);
    EXPECT_EQ(s.l2_sectors, 2u);  // a replay reports L2 counts for the whole grid
    EXPECT_EQ(s.dram_bytes, 2u);
    EXPECT_EQ(s.instructions_per_warp, 2);
}

}  // namespace
}  // namespace coalesce::analysis
