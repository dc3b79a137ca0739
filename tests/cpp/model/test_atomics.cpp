// Tests how long L2 is busy with atomics: more accesses to the same element take longer.
#include <gtest/gtest.h>

#include "model/atomics.hpp"

namespace coalesce::model {
namespace {

constexpr uint64_t warps = 1000, at = 1 << 20;

// Returns the cycles for the requests of all warps. address(warp, lane) returns an address.
template <class Address>
double cycles(Address&& address, bool floats = false, sim::LaneMask mask = sim::all_lanes) {
    AtomicUnits units;
    for (uint64_t warp = 0; warp < warps; ++warp)
        units.add(mask, floats, [&](int lane) { return address(warp, uint64_t(lane)); });
    return units.cycles();
}

uint64_t one_place(uint64_t, uint64_t) { return at; }
uint64_t own_word(uint64_t warp, uint64_t lane) { return at + (warp * 32 + lane) * 4; }

TEST(AtomicUnits, NoAtomicsTakeNoTime) {
    EXPECT_EQ(AtomicUnits().cycles(), 0);
    EXPECT_EQ(cycles(one_place, true, 0), 0);
}

TEST(AtomicUnits, EachLaneAtTheSameAddressCounts) {
    const double one = cycles(one_place, false, 1);
    EXPECT_GT(one, double(warps));  // more than one cycle per request
    EXPECT_DOUBLE_EQ(cycles(one_place), 32 * one);
    EXPECT_DOUBLE_EQ(cycles(one_place, false, 0xf0f0), 8 * one);
    EXPECT_DOUBLE_EQ(cycles(one_place, false, 1u << 31), one);
    EXPECT_DOUBLE_EQ(cycles(one_place, true), 32 * cycles(one_place, true, 1));
}

TEST(AtomicUnits, ASectorIsProcessedAtOnce) {
    // Eight words of a sector take as long as one word.
    const double one = cycles(one_place, false, 1);
    EXPECT_DOUBLE_EQ(cycles([](uint64_t, uint64_t lane) { return at + 4 * lane; }, false, 0xff),
                     one);
    // The sector is processed as often as its most frequent word occurs.
    const auto uneven = [](uint64_t, uint64_t lane) { return at + (lane < 3 ? 0 : 4 * lane); };
    EXPECT_DOUBLE_EQ(cycles(uneven, false, 0xff), 3 * one);
    EXPECT_DOUBLE_EQ(cycles([](uint64_t, uint64_t lane) { return at + 32 * lane; }, false, 0xff),
                     8 * one);
}

TEST(AtomicUnits, SlicesWorkInParallel) {
    const auto in_turn = [](uint64_t bytes) {
        return cycles([=](uint64_t warp, uint64_t) { return at + warp % 2 * bytes; }, false, 1);
    };
    const double one_sector = in_turn(0);
    EXPECT_DOUBLE_EQ(in_turn(32), one_sector);
    EXPECT_DOUBLE_EQ(in_turn(480), one_sector);
    EXPECT_DOUBLE_EQ(in_turn(512), one_sector / 2);
}

TEST(AtomicUnits, FloatSumsAtTheSameAddressWait) {
    EXPECT_GT(cycles(one_place, true, 1), 2 * cycles(one_place, false, 1));
    // Additions at different addresses do not wait for each other, even in the same sector.
    const auto others = [](uint64_t warp, uint64_t) { return at + warp % 8 * 4; };
    EXPECT_DOUBLE_EQ(cycles(others, true, 1), cycles(others, false, 1));
}

TEST(AtomicUnits, SpreadAtomicsAreLimitedByTheTotalRate) {
    // The words of each warp are in four sectors that no other warp uses. Floating-point additions
    // then take as long as integer additions.
    const double spread = cycles(own_word);
    EXPECT_DOUBLE_EQ(cycles(own_word, true), spread);
    EXPECT_LT(spread, cycles(one_place, false, 1));
    // Half of the sectors take half of the time. It does not matter where they are.
    EXPECT_DOUBLE_EQ(cycles(own_word, false, 0xffff), spread / 2);
    const auto wide = [](uint64_t warp, uint64_t lane) { return at + (warp * 32 + lane) * 32; };
    EXPECT_DOUBLE_EQ(cycles(wide), 8 * spread);
}

TEST(AtomicUnits, TheOrderOfLanesDoesNotMatter) {
    const auto scattered = [](uint64_t, uint64_t lane) { return at + lane * 13 % 32 / 4 * 4; };
    const auto in_order = [](uint64_t, uint64_t lane) { return at + lane / 4 * 4; };
    EXPECT_DOUBLE_EQ(cycles(scattered), cycles(in_order));
    EXPECT_DOUBLE_EQ(cycles(scattered, true), cycles(in_order, true));
}

}  // namespace
}  // namespace coalesce::model
