// Compares the modelled sectors, lines and wavefronts of random accesses with the results of
// simple, slow functions, which count byte by byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "model/banks.hpp"
#include "model/coalescing.hpp"
#include "model/request_lines.hpp"

namespace coalesce::model {
namespace {

using sim::MemoryEvent;
using sim::Shape;

constexpr int warp = sim::warp_size;

struct RandomAccess {
    std::array<uint64_t, warp> addresses{};
    MemoryEvent event;

    // Makes an access whose active lanes have aligned addresses within `spread` bytes.
    RandomAccess(std::mt19937_64& random, uint8_t bytes, uint64_t spread) {
        event.bytes = bytes;
        event.shape = Shape::scattered;
        event.mask = random() % 4 ? uint32_t(random()) | 1u << (random() % 32) : sim::all_lanes;
        for (uint64_t& a : addresses) a = 4096 + random() % spread / bytes * bytes;
        event.addresses = addresses.data();
    }

    // Makes both lanes of each pair access the same address. For `apart` = 1, the pairs are lanes 0
    // and 1, 2 and 3, ... For `apart` = 2, they are lanes 0 and 2, 1 and 3, 4 and 6, ...
    void share(int apart) {
        for (int lane = 0; lane < warp; ++lane)
            addresses[size_t(lane)] = addresses[size_t(lane & ~apart)];
    }
};

std::set<uint64_t> units(const MemoryEvent& e, uint64_t size) {
    std::set<uint64_t> units;
    sim::for_each_lane(e.mask, [&](int lane) {
        for (uint64_t b = 0; b < e.bytes; ++b) units.insert((e.address(lane) + b) / size);
    });
    return units;
}

// Returns the largest number of distinct words in any bank, for `lanes` lanes from `first` on.
uint32_t slow_conflict(const MemoryEvent& e, int first, int lanes) {
    std::map<uint64_t, std::set<uint64_t>> words_of_bank;
    size_t most = 0;
    sim::for_each_lane(e.mask, [&](int lane) {
        if (lane < first || lane >= first + lanes) return;
        for (uint64_t b = 0; b < e.bytes; ++b) {
            const uint64_t word = (e.address(lane) + b) / 4;
            words_of_bank[word % 32].insert(word);
        }
    });
    for (const auto& [bank, words] : words_of_bank) most = std::max(most, words.size());
    return uint32_t(most);
}

// Looks at the pairs of lanes that RandomAccess::share makes. Returns true if the two lanes of each
// pair have the same address. Pairs with an inactive lane do not count.
bool slow_alike(const MemoryEvent& e, int apart) {
    for (int lane = 0; lane < warp; ++lane) {
        const int other = lane ^ apart;
        if (sim::has_lane(e.mask, lane) && sim::has_lane(e.mask, other) &&
            e.address(lane) != e.address(other))
            return false;
    }
    return true;
}

uint32_t slow_wavefronts(const MemoryEvent& e) {
    int groups = std::max(1, e.bytes / 4);
    if (e.access == sim::Access::load && groups > 1 && (slow_alike(e, 1) || slow_alike(e, 2)))
        groups /= 2;
    uint32_t total = 0;
    for (int g = 0; g < groups; ++g) total += slow_conflict(e, g * warp / groups, warp / groups);
    return total;
}

// Returns the number of sectors that an atomic sends. Each sector is sent once for each lane that
// accesses its most frequent address.
uint32_t slow_repeated(const MemoryEvent& e) {
    std::map<uint64_t, std::map<uint64_t, uint32_t>> wanted;
    sim::for_each_lane(e.mask, [&](int lane) { ++wanted[e.address(lane) / 32][e.address(lane)]; });
    uint32_t total = 0;
    for (const auto& [sector, times] : wanted) {
        uint32_t most = 0;
        for (const auto& [address, n] : times) most = std::max(most, n);
        total += most;
    }
    return total;
}

TEST(Oracle, RandomAddresses) {
    std::mt19937_64 random(1);
    for (const uint8_t bytes : {1, 2, 4, 8, 16}) {
        for (const uint64_t spread : {64u, 512u, 4096u, 1u << 20}) {
            for (int i = 0; i < 500; ++i) {
                RandomAccess access(random, bytes, spread);
                access.event.access = random() % 2 ? sim::Access::load : sim::Access::store;
                if (random() % 4 == 0) access.share(random() % 2 ? 1 : 2);
                MemoryEvent atomic = access.event;
                atomic.access = sim::Access::atomic;
                ASSERT_EQ(footprint(atomic).repeated, slow_repeated(access.event));
                const Footprint f = footprint(access.event);
                ASSERT_EQ(f.elements, footprint(atomic).elements);
                ASSERT_EQ(f.sectors, units(access.event, 32).size());
                ASSERT_EQ(f.lines, units(access.event, 128).size());
                ASSERT_EQ(wavefronts(access.event).taken, slow_wavefronts(access.event));
            }
        }
    }
}

// Most requests of a kernel have other lines than the request before, but some have the same.
TEST(Oracle, LinesOfRequests) {
    std::mt19937_64 random(6);
    RequestLines lines;
    for (const uint8_t bytes : {1, 2, 4, 8, 16}) {
        for (const uint64_t spread : {64u, 256u, 512u, 4096u, 1u << 20, 1u << 30}) {
            for (int i = 0; i < 300; ++i) {
                const RandomAccess access(random, bytes, spread);
                const MemoryEvent& e = access.event;
                lines.collect(e);
                std::vector<uint64_t> numbers;
                sim::for_each_lane(e.mask, [&](int lane) {
                    const uint64_t line = e.address(lane) / line_bytes;
                    if (std::ranges::find(numbers, line) == numbers.end()) numbers.push_back(line);
                });
                const std::set<uint64_t> touched = units(e, 1), words = units(e, word_bytes);
                ASSERT_EQ(lines.count(), numbers.size());
                for (uint32_t n = 0; n < lines.count(); ++n) {
                    ASSERT_EQ(lines.number(n), numbers[n]);
                    for (uint32_t bank = 0; bank < 32; ++bank)
                        ASSERT_EQ(lines.banks(n) >> bank & 1, words.count(numbers[n] * 32 + bank));
                    for (uint32_t sector = 0; sector < 4; ++sector) {
                        const uint64_t first = numbers[n] * line_bytes + sector * sector_bytes;
                        const auto all = std::distance(touched.lower_bound(first),
                                                       touched.lower_bound(first + sector_bytes));
                        ASSERT_EQ(lines.sectors(n) >> sector & 1, all > 0);
                        ASSERT_EQ(lines.whole(n) >> sector & 1, all == sector_bytes);
                    }
                }
                const Footprint f = lines.footprint(bytes), wanted = footprint(e);
                ASSERT_EQ(f.elements, wanted.elements);
                ASSERT_EQ(f.sectors, wanted.sectors);
                ASSERT_EQ(f.lines, wanted.lines);
            }
        }
    }
}

TEST(Oracle, RunsOfLanes) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 5000; ++i) {
        const auto bytes = uint8_t(1 << random() % 5);
        RandomAccess access(random, bytes, 1 << 20);
        MemoryEvent& e = access.event;
        const auto start = uint32_t(random() % warp),
                   lanes = uint32_t(1 + random() % (warp - start));
        e.mask = uint32_t((uint64_t{1} << lanes) - 1) << start;
        const int64_t stride = lanes == 1 ? 0 : (int64_t(random() % 80) - 40) * bytes;
        const uint64_t first = (1 << 20) + random() % 512 * bytes;
        for (uint32_t lane = 0; lane < lanes; ++lane)
            access.addresses[start + lane] = first + uint64_t(stride * int64_t{lane});
        const LaneRun run = run_of(e);
        ASSERT_EQ(run.lanes, lanes);
        ASSERT_EQ(run.stride, stride);
        ASSERT_EQ(run.first, first);
        ASSERT_EQ(run.address_of_lane_0(), first - uint64_t(stride * int64_t{start}));
        const Footprint f = footprint(e);
        ASSERT_EQ(f.elements, stride ? lanes : 1);
        ASSERT_EQ(f.sectors, units(e, 32).size());
        ASSERT_EQ(f.lines, units(e, 128).size());
        ASSERT_EQ(f.repeated, slow_repeated(e));
        if (lanes < 3) continue;
        access.addresses[start + lanes - 1] += bytes;
        ASSERT_FALSE(run_of(e));
        access.addresses[start + lanes - 1] -= bytes;
        e.mask &= ~(2u << start);
        ASSERT_FALSE(run_of(e));
    }
}

// For some patterns of addresses, the model has a fast path. Its result must be the same as the
// result of the general path for the same addresses.
TEST(Oracle, ShapesAreShortcuts) {
    std::array<uint64_t, warp> addresses{};
    for (const uint8_t bytes : {1, 2, 4, 8, 16}) {
        for (uint64_t first = 0; first < 256; first += bytes) {
            for (const auto& [shape, access] : {std::pair{Shape::uniform, sim::Access::load},
                                                {Shape::uniform, sim::Access::store},
                                                {Shape::consecutive, sim::Access::load}}) {
                MemoryEvent quick;
                quick.access = access;
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
                EXPECT_EQ(footprint(quick).repeated, footprint(plain).repeated);
                EXPECT_EQ(footprint(quick).elements, footprint(plain).elements);
                EXPECT_EQ(footprint(quick).sectors, units(plain, 32).size());
                // A uniform access costs the same as an access whose addresses were compared and
                // found equal.
                EXPECT_EQ(wavefronts(quick).taken, slow_wavefronts(plain))
                    << int(bytes) << " " << first;
            }
        }
    }
}

TEST(Oracle, Strides) {
    std::array<uint64_t, warp> addresses{};
    MemoryEvent e;
    e.shape = Shape::scattered;
    e.mask = sim::all_lanes;
    e.addresses = addresses.data();
    for (const uint8_t bytes : {1, 2, 4, 8, 16}) {
        e.bytes = bytes;
        for (int64_t stride = -300 * bytes; stride <= 300 * bytes; stride += bytes) {
            for (int i = 0; i < warp; ++i)
                addresses[size_t(i)] = uint64_t(200000 / 16 * 16 + bytes + i * stride);
            ASSERT_EQ(footprint(e).sectors, units(e, 32).size()) << int(bytes) << " " << stride;
            ASSERT_EQ(footprint(e).lines, units(e, 128).size()) << int(bytes) << " " << stride;
            ASSERT_EQ(footprint(e).repeated, slow_repeated(e)) << int(bytes) << " " << stride;
            ASSERT_EQ(wavefronts(e).taken, slow_wavefronts(e)) << int(bytes) << " " << stride;
            if (stride == 0 || stride == bytes) continue;
            // The event can also say that its addresses have a stride.
            MemoryEvent quick = e;
            quick.shape = Shape::strided;
            quick.first = addresses[0];
            quick.stride = stride;
            quick.addresses = nullptr;
            for (int i = 0; i < warp; ++i) ASSERT_EQ(quick.address(i), e.address(i));
            ASSERT_EQ(footprint(quick).elements, footprint(e).elements);
            ASSERT_EQ(footprint(quick).sectors, footprint(e).sectors);
            ASSERT_EQ(footprint(quick).lines, footprint(e).lines);
            ASSERT_EQ(footprint(quick).repeated, footprint(e).repeated);
            ASSERT_EQ(wavefronts(quick).taken, wavefronts(e).taken);
            ASSERT_EQ(wavefronts(quick).theoretical, wavefronts(e).theoretical);
            ASSERT_EQ(wavefronts(quick).ideal, wavefronts(e).ideal);
        }
    }
}

}  // namespace
}  // namespace coalesce::model
