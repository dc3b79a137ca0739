// Compares NewLines with the model of L2.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

#include "analysis/small_gpu.hpp"
#include "model/caches/new_lines.hpp"

namespace coalesce::model {
namespace {

// Returns requests for random lines of the sample. The first `reads` requests are reads. The others
// are reads and atomics, and writes if `writes` is true. No line is requested twice, but if
// `rewrites` is true, some lines are written several times, also after they were read.
std::vector<L2Request> requests(std::mt19937_64& random, size_t count, uint32_t sample, bool writes,
                                bool rewrites, size_t reads) {
    using enum Traffic::Kind;
    constexpr std::array kinds{read, atomic, write};
    std::vector<L2Request> all;
    std::set<uint64_t> before;
    while (all.size() < count) {
        L2Request r{};
        r.line = random() % (1 << 24);
        r.kind = all.size() < reads ? read : kinds[random() % (writes ? 3 : 2)];
        r.sectors = uint8_t(1 + random() % 15);
        r.whole = r.sectors & uint8_t(random());
        r.from = uint8_t(random() % 8);
        if (rewrites && all.size() > reads && random() % 8 == 0) {
            r.line = all[all.size() - 1 - random() % std::min<size_t>(all.size(), 200)].line;
            r.kind = write;
        }
        r.repeats = !before.insert(r.line).second;
        if (r.repeats && r.kind != write) continue;
        if (L2Cache::is_in_sample(r.line, sample)) all.push_back(r);
    }
    return all;
}

TEST(NewLines, CountsLikeTheModelOfL2) {
    std::mt19937_64 random(1);
    for (const uint32_t partitions : {1u, 2u}) {
        for (const uint32_t sample : {0u, 2u}) {
            for (const int round : {0, 1, 2, 3}) {
                const bool writes = round > 0, rewrites = round > 1;
                // After the reads at the start, about as many lines are stored in a set as it has
                // ways. So some of the lines that are written first are evicted.
                const size_t reads = random() % 3000, count = reads + (1500u >> sample);
                const Gpu gpu = small(partitions, 1024);
                L2Cache l2(gpu, sample);
                NewLines lines(gpu, sample);
                EXPECT_EQ(lines.counts(), CacheCounts{});
                for (const L2Request& r :
                     requests(random, count, sample, writes, rewrites, reads)) {
                    lines.add(r);
                    l2.handle(r.kind, r.access(), r.from);
                }
                EXPECT_GT(l2.counts().dram_written_bytes, 0u);
                EXPECT_EQ(lines.counts(), l2.counts());
            }
        }
    }
}

TEST(NewLines, GivesRequestsBackBySlice) {
    const Gpu gpu = small(1, 1024);
    NewLines lines(gpu, 0);
    const std::vector<size_t> counts{3, 0, 1};
    uint64_t next = 0;
    for (size_t slice = 0; slice < counts.size(); ++slice) {
        for (size_t n = 0; n < counts[slice]; ++n) {
            L2Request r{};
            r.line = next++;
            lines.add(r);
        }
        lines.end_slice(double(slice));
    }
    size_t slice = 0;
    uint64_t line = 0;
    lines.take_back([&](double start, std::span<const L2Request> requests) {
        EXPECT_EQ(start, double(slice));
        EXPECT_EQ(requests.size(), counts[slice++]);
        for (const L2Request& r : requests) EXPECT_EQ(r.line, line++);
    });
    EXPECT_EQ(slice, counts.size());
    EXPECT_EQ(line, next);
    EXPECT_EQ(lines.counts(), CacheCounts{});
}

}  // namespace
}  // namespace coalesce::model
