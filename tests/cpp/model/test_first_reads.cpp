// Tests what must be read from DRAM whatever the size of L2 is.
#include "model/caches/first_reads.hpp"

#include <gtest/gtest.h>

#include "analysis/small_gpu.hpp"
#include "model/caches/l2_cache.hpp"

#include <random>

namespace coalesce::model {
namespace {

using Kind = Traffic::Kind;

TEST(FirstReads, ReadsMissingHalfLines) {
    FirstReads first;
    constexpr uint64_t line = 1234567;
    first.write(line, 0b0001);
    EXPECT_EQ(first.read(line, 0b0001), 0u);
    EXPECT_EQ(first.read(line, 0b0010), 1u);
    EXPECT_EQ(first.read(line, 0b1000), 2u);
    EXPECT_EQ(first.read(line, 0b1111), 0u);
    EXPECT_EQ(first.read(line + 1, 0b0001), 2u);
}

TEST(FirstReads, AreAllReadsOfAnL2ThatEvictsNothing) {
    std::mt19937_64 random(3);
    FirstReads first;
    L2Cache l2(small(1, 1 << 16));
    uint64_t sectors = 0;
    for (int n = 0; n < 20000; ++n) {
        const auto kind = Kind(random() % 3);
        const auto requested = uint8_t(1 + random() % 15);
        const uint64_t line = random() % 4000 * (random() % 8 ? 1 : 1000);
        if (kind == Kind::write)
            first.write(line, requested);
        else
            sectors += first.read(line, requested);
        l2.handle(kind, {line, requested, 0}, 0);
    }
    EXPECT_EQ(l2.counts().dram_read_bytes, sectors * sector_bytes);
    EXPECT_EQ(l2.counts().dram_written_bytes, 0u);
}

}  // namespace
}  // namespace coalesce::model
