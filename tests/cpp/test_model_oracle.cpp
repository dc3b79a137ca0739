// Sectors, lines and wavefronts of random accesses, against sets that are counted byte by byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "model/banks.hpp"
#include "model/coalescing.hpp"

namespace coalesce::model {
namespace {

using sim::MemoryEvent;
using sim::Shape;

constexpr int warp = sim::warp_size;

struct RandomAccess {
    std::array<uint64_t, warp> addresses{};
    MemoryEvent event;

    // `spread` bytes hold the addresses of the active lanes, aligned to the access.
    RandomAccess(std::mt19937_64& random, uint8_t bytes, uint64_t spread) {
        event.bytes = bytes;
        event.shape = Shape::scattered;
        event.mask = random() % 4 ? uint32_t(random()) | 1u << (random() % 32) : sim::all_lanes;
        for (uint64_t& a : addresses) a = 4096 + random() % spread / bytes * bytes;
        event.addresses = addresses.data();
    }
};

std::set<uint64_t> units(const MemoryEvent& e, uint64_t size) {
    std::set<uint64_t> found;
    sim::for_each_lane(e.mask, [&](int lane) {
        for (uint64_t b = 0; b < e.bytes; ++b) found.insert((e.address(lane) + b) / size);
    });
    return found;
}

// The most distinct words in any bank, for each group of lanes that is served together.
uint32_t slow_wavefronts(const MemoryEvent& e) {
    const int groups = std::max(1, e.bytes / 4);
    uint32_t total = 0;
    for (int g = 0; g < groups; ++g) {
        std::map<uint64_t, std::set<uint64_t>> words_of_bank;
        uint32_t most = 0;
        sim::for_each_lane(e.mask, [&](int lane) {
            if (lane / (warp / groups) != g) return;
            for (uint64_t b = 0; b < e.bytes; ++b) {
                const uint64_t word = (e.address(lane) + b) / 4;
                words_of_bank[word % 32].insert(word);
            }
        });
        for (const auto& [bank, words] : words_of_bank)
            most = std::max(most, uint32_t(words.size()));
        total += most;
    }
    return total;
}

TEST(Oracle, RandomAddresses) {
    std::mt19937_64 random(1);
    for (const uint8_t bytes : {1, 2, 4, 8, 16}) {
        for (const uint64_t spread : {64u, 512u, 4096u, 1u << 20}) {
            for (int i = 0; i < 500; ++i) {
                const RandomAccess access(random, bytes, spread);
                const Footprint f = footprint(access.event);
                ASSERT_EQ(f.sectors, units(access.event, 32).size());
                ASSERT_EQ(f.lines, units(access.event, 128).size());
                ASSERT_EQ(wavefronts(access.event), slow_wavefronts(access.event));
            }
        }
    }
}

// The shapes that are recognised must cost what the same addresses cost when they are spelled out.
TEST(Oracle, ShapesAreShortcuts) {
    std::array<uint64_t, warp> addresses{};
    for (const uint8_t bytes : {1, 2, 4, 8, 16}) {
        for (uint64_t first = 0; first < 256; first += bytes) {
            for (const Shape shape : {Shape::uniform, Shape::consecutive}) {
                MemoryEvent quick;
                quick.bytes = bytes;
                quick.shape = shape;
                quick.mask = sim::all_lanes;
                quick.first = first;
                for (int i = 0; i < warp; ++i) addresses[size_t(i)] = quick.address(i);
                MemoryEvent plain = quick;
                plain.shape = Shape::scattered;
                plain.addresses = addresses.data();
                EXPECT_EQ(footprint(quick).sectors, footprint(plain).sectors);
                EXPECT_EQ(footprint(quick).lines, footprint(plain).lines);
                EXPECT_EQ(footprint(quick).sectors, units(plain, 32).size());
                if (shape == Shape::consecutive) {
                    EXPECT_EQ(wavefronts(quick), slow_wavefronts(plain))
                        << int(bytes) << " " << first;
                }
            }
        }
    }
}

}  // namespace
}  // namespace coalesce::model
