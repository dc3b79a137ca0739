// Tests how arrivals and bytes change the state of an mbarrier. Tests in Python cover the
// instructions.
#include <gtest/gtest.h>

#include <string>

#include "sim/program/mbarrier.hpp"

namespace coalesce::sim {
namespace {

TEST(Mbarrier, CompletesWhenAllHaveArrived) {
    Mbarrier b = Mbarrier::with(3);
    EXPECT_EQ(b.parity(), 0u);
    for (uint32_t phase = 0; phase < 5; ++phase) {
        for (const uint32_t count : {1u, 2u}) {
            EXPECT_EQ(b.parity(), phase % 2);
            EXPECT_STREQ(b.arrive(count), "");
            b.advance_if_complete();
        }
        EXPECT_EQ(b.pending(), 3u);
    }
}

TEST(Mbarrier, WaitsForBytesToo) {
    Mbarrier b = Mbarrier::with(1);
    EXPECT_STREQ(b.expect_bytes(4096), "");
    EXPECT_STREQ(b.arrive(1), "");
    b.advance_if_complete();
    EXPECT_EQ(b.parity(), 0u);
    EXPECT_STREQ(b.expect_bytes(-4000), "");
    b.advance_if_complete();
    EXPECT_EQ(b.parity(), 0u);
    EXPECT_EQ(b.bytes(), 96);
    EXPECT_STREQ(b.expect_bytes(-96), "");
    b.advance_if_complete();
    EXPECT_EQ(b.parity(), 1u);
    EXPECT_EQ(b.pending(), 1u);
}

TEST(Mbarrier, BytesMayArriveBeforeTheyAreAnnounced) {
    Mbarrier b = Mbarrier::with(1);
    EXPECT_STREQ(b.expect_bytes(-Mbarrier::max_bytes), "");
    b.advance_if_complete();
    EXPECT_EQ(b.bytes(), -Mbarrier::max_bytes);
    EXPECT_EQ(b.pending(), 1u);
    EXPECT_EQ(b.expected(), 1u);
    EXPECT_EQ(b.parity(), 0u);
    EXPECT_STREQ(b.expect_bytes(Mbarrier::max_bytes), "");
    EXPECT_STREQ(b.arrive(1), "");
    b.advance_if_complete();
    EXPECT_EQ(b.parity(), 1u);
}

TEST(Mbarrier, ExpectsFewerArrivalsAfterADrop) {
    Mbarrier b = Mbarrier::with(2);
    EXPECT_STREQ(b.arrive(1), "");
    EXPECT_STREQ(b.drop(), "");
    EXPECT_STREQ(b.arrive(1), "");
    b.advance_if_complete();
    EXPECT_EQ(b.pending(), 1u);
    EXPECT_EQ(b.expected(), 1u);
}

TEST(Mbarrier, RefusesTooManyArrivalsAndBytes) {
    Mbarrier b = Mbarrier::with(Mbarrier::max_arrivals);
    const uint64_t before = b.word();
    EXPECT_NE(std::string(b.arrive(Mbarrier::max_arrivals + 1)), "");
    EXPECT_NE(std::string(b.expect_one_more()), "");
    EXPECT_NE(std::string(b.expect_bytes(int64_t{Mbarrier::max_bytes} + 1)), "");
    EXPECT_NE(std::string(b.expect_bytes(-int64_t{Mbarrier::max_bytes} - 1)), "");
    EXPECT_EQ(b.word(), before);
    EXPECT_TRUE(b.is_valid());
    EXPECT_FALSE(Mbarrier(Mbarrier::invalid).is_valid());
}

}  // namespace
}  // namespace coalesce::sim
