// Compares the modelled cycles of L1 with a simulation of each bank, and with known results for
// some patterns.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "model/caches/tag_sets.hpp"

namespace coalesce::model {
namespace {

using Addresses = std::array<uint64_t, 32>;

L1Cycles cycles(const Addresses& addresses, uint32_t bytes, sim::LaneMask mask = sim::all_lanes) {
    return l1_cycles(mask, bytes, [&](int lane) { return addresses[size_t(lane)]; });
}

Addresses apart(uint64_t bytes, uint64_t first = 0) {
    Addresses addresses;
    for (size_t lane = 0; lane < 32; ++lane) addresses[lane] = first + lane * bytes;
    return addresses;
}

// Computes the cycles in a simple, slow way. In each iteration, each set looks up one line, in the
// order of the lanes. The bank that most of these lines need decides how many cycles the iteration
// takes.
L1Cycles slow_cycles(const Addresses& addresses, uint32_t bytes, sim::LaneMask mask) {
    std::map<uint32_t, std::vector<uint64_t>> lines;  // the lines of each set
    std::map<uint64_t, std::set<uint64_t>> banks;     // the banks that each line needs
    for (size_t lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const uint64_t line = addresses[lane] / 128;
        if (!banks.contains(line)) lines[tag_set(line)].push_back(line);
        for (uint64_t byte = addresses[lane]; byte < addresses[lane] + bytes; ++byte)
            banks[line].insert(byte / 4 % 32);
    }
    size_t lookups = 0;
    for (const auto& [set, those] : lines) lookups = std::max(lookups, those.size());
    L1Cycles total{.lookups = uint32_t(lookups), .data = 0};
    for (size_t k = 0; k < lookups; ++k) {
        std::map<uint64_t, uint32_t> wanted;  // how many lines need each bank
        for (const auto& [set, those] : lines)
            if (k < those.size())
                for (const uint64_t bank : banks[those[k]]) ++wanted[bank];
        uint32_t most = 0;
        for (const auto& [bank, times] : wanted) most = std::max(most, times);
        total.data += most;
    }
    return total;
}

TEST(L1Cycles, AgreeWithASimulationOfEachBank) {
    std::mt19937_64 random(1);
    for (const uint32_t bytes : {1u, 2u, 4u, 8u, 16u})
        // The range of the addresses in bytes. In the three cases, many, some or no lanes share a
        // line.
        for (const uint64_t range : {256u, 4096u, 1u << 20})
            for (int n = 0; n < 500; ++n) {
                Addresses addresses;
                for (uint64_t& a : addresses) a = random() % (range / bytes) * bytes;
                const auto mask = sim::LaneMask(n % 2 ? random() : sim::all_lanes);
                const L1Cycles fast = cycles(addresses, bytes, mask);
                const L1Cycles slow = slow_cycles(addresses, bytes, mask);
                ASSERT_EQ(fast.lookups, slow.lookups) << bytes << " bytes of " << range;
                ASSERT_EQ(fast.data, slow.data) << bytes << " bytes of " << range;
            }
}

TEST(L1Cycles, LinesWithDifferentBanksAreLookedUpFourAtATime) {
    const L1Cycles c = cycles(apart(33 * 4), 4);
    EXPECT_EQ(c.lookups, 8u);
    EXPECT_EQ(c.data, 8u);
}

TEST(L1Cycles, LinesWithTheSameBankAreReadOneByOne) {
    const L1Cycles c = cycles(apart(128), 4);
    EXPECT_EQ(c.lookups, 8u);
    EXPECT_EQ(c.data, 32u);
}

TEST(L1Cycles, OneLineTakesOneCycle) {
    for (const uint64_t first : {0u, 128u, 1u << 20}) {
        EXPECT_EQ(cycles(apart(4, first), 4).data, 1u);
        EXPECT_EQ(cycles(apart(4, first), 4).lookups, 1u);
        EXPECT_EQ(cycles(apart(0, first), 4).data, 1u);
        EXPECT_EQ(cycles(apart(1, first), 1).data, 1u);
    }
    EXPECT_EQ(cycles(apart(4), 4, 0).data, 0u);
}

TEST(L1Cycles, WideAccessesNeedMoreBanks) {
    for (const uint32_t bytes : {8u, 16u}) {
        const L1Cycles all = cycles(apart(bytes), bytes);
        EXPECT_EQ(all.lookups, 1u);
        EXPECT_EQ(all.data, bytes / 4);  // words per bank
        EXPECT_EQ(cycles(apart(0), bytes).data, 1u);
        EXPECT_EQ(cycles(apart(128), bytes).data, 32u);
        // The two words are in two lines.
        EXPECT_EQ(cycles(apart(128 + bytes), bytes, 0b11).data, 1u);
        EXPECT_EQ(cycles(apart(128), bytes, 0b11).data, 2u);
    }
}

TEST(TagSet, FourNeighboursAreInFourSets) {
    for (uint64_t line = 0; line < 1 << 14; line += tag_sets) {
        std::set<uint32_t> sets;
        for (uint64_t i = 0; i < tag_sets; ++i) sets.insert(tag_set(line + i));
        EXPECT_EQ(sets, (std::set<uint32_t>{0, 1, 2, 3})) << line;
    }
}

}  // namespace
}  // namespace coalesce::model
