// Tests the limits of an mbarrier's state. tests/python/instructions/test_mbarriers.py has phases,
// bytes and threads that leave.
#include <gtest/gtest.h>

#include <string>

#include "sim/program/mbarrier.hpp"

namespace coalesce::sim {
namespace {

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
