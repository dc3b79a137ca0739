// Tests BlockRequests (analysis/caches/block_requests.hpp), which compares the requests of a block
// with those of an earlier block. Most accesses are compared in a short way, which needs their
// shape. If the shape is not given, the long way compares the addresses of all lanes. Repeated
// accesses are not announced as events. All three ways must agree.
//
// Also tests the replay of such requests (analysis/caches/l1_replay.hpp,
// analysis/caches/once_replay.hpp).
#include "analysis/caches/block_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>

#include "analysis/caches/l1_replay.hpp"
#include "analysis/caches/once_replay.hpp"

namespace coalesce::analysis {
namespace {

using sim::MemoryEvent;
using sim::Shape;

constexpr uint32_t instructions = 3, warps = 2;
constexpr uint64_t bytes_of_array = 1 << 20;

// An access by a warp, with the number of wavefronts of shared memory before it.
struct Access {
    uint32_t warp = 0, wavefronts = 0;
    MemoryEvent event;
};
using Accesses = std::vector<Access>;

// How a test passes accesses to BlockRequests: as events with a shape, as events with the addresses
// of all lanes instead, or without events (sim::Hook::repeated).
enum class Way { shapes, addresses, repeated };

class BlockRequestsTest : public testing::Test {
  protected:
    BlockRequestsTest() : sites_(instructions, {CacheSite::Effect::load, 4, false, false}) {
        for (uint64_t& array : arrays_) {
            sim::Buffer buffer;
            buffer.bytes = bytes_of_array;
            array = memory_.add(buffer);
        }
    }

    // Returns a block of random accesses.
    Accesses some(int count) {
        Accesses accesses;
        for (int n = 0; n < count; ++n) {
            Access a;
            a.warp = uint32_t(random_() % warps);
            a.wavefronts = random_() % 4 ? 0 : uint32_t(1 + random_() % 3);
            a.event = some_event();
            accesses.push_back(a);
        }
        return accesses;
    }

    MemoryEvent some_event() {
        MemoryEvent e;
        e.pc = uint32_t(random_() % instructions);
        e.bytes = 4;
        e.mask = sim::all_lanes;
        e.first = arrays_[e.pc % arrays_.size()] + 65536 + random_() % 64 * 4;
        constexpr std::array<int64_t, 6> strides = {0, 4, 128, -256, 8, 12};
        e.stride = strides[random_() % strides.size()];
        e.shape = e.stride == 0   ? Shape::uniform
                  : e.stride == 4 ? Shape::consecutive
                                  : Shape::strided;
        return e;
    }

    // Makes the accesses. Only uniform addresses have no long way. Returns the requests.
    std::shared_ptr<RecordedBlock> run(BlockRequests& requests, const Accesses& accesses,
                                       BlockRequests::Candidates candidates, Way way) {
        std::array<uint16_t, instructions> hints{};
        sim::Block block;
        block.memory = &memory_;
        block.hints = hints.data();
        std::array<sim::Warp, warps> of_block;
        requests.start(0, std::move(candidates));
        for (const Access& a : accesses) {
            sim::Warp& warp = of_block[a.warp];
            warp.block = &block;
            warp.index = a.warp;
            if (way == Way::repeated) {
                warp.repeated_wavefronts += a.wavefronts;
            } else if (a.wavefronts) {
                MemoryEvent shared;
                shared.space = ptx::Space::shared;
                requests.add(warp, shared, a.wavefronts);
            }
            MemoryEvent e = a.event;
            if (way == Way::repeated && e.shape != Shape::scattered) {
                sim::Op op;
                op.pc = e.pc;
                op.set(sim::MemoryOperand{.bytes = e.bytes});
                requests.add(warp, op, e.access, sim::lane_stride(e), e.first);
                continue;
            }
            std::array<uint64_t, sim::warp_size> addresses;
            for (int lane = 0; lane < sim::warp_size; ++lane)
                addresses[size_t(lane)] = a.event.address(lane);
            if (way == Way::addresses && e.shape != Shape::uniform) {
                e.shape = Shape::scattered;
                e.addresses = addresses.data();
            }
            requests.add(warp, e, 0);
        }
        return requests.finish();
    }

    // Compares the accesses with those of `earlier`, in all ways. Returns true if they are equal.
    bool equal(const Accesses& earlier, const Accesses& accesses) {
        BlockRequests requests(sites_, warps, 1 << 14);
        const auto first = run(requests, earlier, {}, Way::shapes);
        first->is_candidate = true;
        const auto second = run(requests, accesses, {first}, Way::shapes);
        EXPECT_EQ(requests.is_as_expected(), second == first);
        BlockRequests alone(sites_, warps, 1 << 14);
        EXPECT_EQ(run(alone, accesses, {}, Way::shapes)->has_same_requests(*first),
                  requests.is_as_expected());
        for (const Way way : {Way::addresses, Way::repeated}) {
            BlockRequests others(sites_, warps, 1 << 14);
            const auto first_other = run(others, earlier, {}, way);
            EXPECT_EQ(first->requests, first_other->requests);
            first_other->is_candidate = true;
            const auto second_other = run(others, accesses, {first_other}, way);
            EXPECT_EQ(second->requests, second_other->requests);
            EXPECT_EQ(requests.is_as_expected(), others.is_as_expected());
            EXPECT_EQ(requests.origins(), others.origins());
            EXPECT_EQ(requests.cycles(), others.cycles());
        }
        return requests.is_as_expected();
    }

    // Replays the accesses through L1.
    L1Result replay(const Accesses& accesses, uint32_t variant, bool has_barriers) {
        BlockRequests requests(sites_, warps, 1 << 14);
        const auto block = run(requests, accesses, {}, Way::shapes);
        return L1Replay(*block, requests.memory(), sites_, nullptr, requests.origins(), variant,
                        has_barriers)
            .run();
    }
    // Returns null if a line is requested twice.
    std::shared_ptr<const OnceReplay> once(const Accesses& accesses) {
        BlockRequests requests(sites_, warps, 1 << 14);
        const auto block = run(requests, accesses, {}, Way::shapes);
        return OnceReplay::of(*block, sites_, requests.origins().size());
    }

    std::mt19937_64 random_{3};
    std::vector<CacheSite> sites_;
    sim::AddressSpace memory_;
    std::array<uint64_t, 2> arrays_{};
};

TEST_F(BlockRequestsTest, BlocksThatDifferInAWholeNumberOfLinesAreEqual) {
    for (int n = 0; n < 50; ++n) {
        const Accesses earlier = some(100);
        Accesses later = earlier;
        const std::array<uint64_t, 2> moved = {128 * (random_() % 40), 128 * (random_() % 40)};
        for (Access& a : later) a.event.first += moved[a.event.pc % moved.size()];
        EXPECT_TRUE(equal(earlier, later));
    }
}

// One request differs: in its address, alignment, stride or instruction, in its mask, in the
// wavefronts before it, or because it is missing.
TEST_F(BlockRequestsTest, BlocksThatDifferInOneRequestAreNotEqual) {
    for (int n = 0; n < 300; ++n) {
        const Accesses earlier = some(60);
        Accesses later = earlier;
        // Not among the first requests, because the addresses are relative to those.
        const size_t at = n % 5 ? 20 + random_() % 40 : 59;
        Access& a = later[at];
        switch (n % 6) {
            case 0:
                a.event.first += 128;
                break;
            case 1:
                a.event.first += 4;
                break;
            case 2:
                a.event.shape = Shape::strided;
                a.event.stride = 1280;
                break;
            case 3:
                a.event.first = arrays_[1 - a.event.pc % 2] + 65536;
                break;
            case 4:
                a.wavefronts += 1;
                break;
            case 5:
                later.erase(later.begin() + ptrdiff_t(at));
                break;
        }
        EXPECT_FALSE(equal(earlier, later)) << n;
    }
}

TEST_F(BlockRequestsTest, AMaskedRequestIsNotEqual) {
    const Accesses earlier = some(60);
    std::array<uint64_t, sim::warp_size> addresses;
    Accesses later = earlier;
    MemoryEvent& e = later[40].event;
    for (int lane = 0; lane < sim::warp_size; ++lane) addresses[size_t(lane)] = e.address(lane);
    e.shape = Shape::scattered;
    e.addresses = addresses.data();
    e.mask = 0x7fffffff;
    EXPECT_FALSE(equal(earlier, later));
}

TEST_F(BlockRequestsTest, ScatteredAddressesAreCompared) {
    Accesses earlier = some(60), later = earlier;
    std::array<uint64_t, sim::warp_size> some_addresses, others;
    for (size_t lane = 0; lane < sim::warp_size; ++lane)
        some_addresses[lane] = others[lane] = arrays_[0] + 65536 + random_() % 4096 * 4;
    others[17] += 4;
    for (Accesses* const block : {&earlier, &later}) {
        MemoryEvent& e = (*block)[40].event;
        e.pc = 0;
        e.shape = Shape::scattered;
        e.addresses = some_addresses.data();
    }
    EXPECT_TRUE(equal(earlier, later));
    later[40].event.addresses = others.data();
    EXPECT_FALSE(equal(earlier, later));
}

// The last lane is in another array. The relative addresses of its lanes have no constant stride.
TEST_F(BlockRequestsTest, ARequestThatLeavesItsArrayIsNotEqual) {
    Accesses earlier = some(60);
    MemoryEvent e;
    e.pc = 0;
    e.bytes = 4;
    e.mask = sim::all_lanes;
    e.shape = Shape::strided;
    e.stride = 256;
    e.first = arrays_[0] + 65536;
    earlier[0] = earlier[59] = {0, 0, e};
    Accesses later = earlier;
    // The block's accesses to this array are near its end.
    for (Access& a : later)
        if (a.event.pc % 2 == 0) a.event.first += bytes_of_array - 65536 - 4096;
    const bool leaves = later[59].event.address(31) >= arrays_[0] + bytes_of_array;
    ASSERT_TRUE(leaves);
    EXPECT_FALSE(equal(earlier, later));
}

std::vector<uint64_t> numbers_of(const model::CacheCounts& c) {
    return {c.l1_loads, c.l1_load_hits, c.l1_stores, c.l1_store_hits};
}

// If no line is requested twice, L1 is not modelled. The result must be the same as with the model.
TEST_F(BlockRequestsTest, ABlockWithoutRepeatedLinesIsReplayedLikeAnyOther) {
    sites_ = {{CacheSite::Effect::load, 4, false, false},
              {CacheSite::Effect::store, 4, false, false},
              {CacheSite::Effect::bypassing_load, 4, false, false}};
    for (uint32_t n = 0; n < 40; ++n) {
        Accesses accesses = some(60);
        uint64_t next = 0;
        for (Access& a : accesses) {
            a.event.first = arrays_[a.event.pc % 2] + (next += 16384) + random_() % 8 * 4;
            if (random_() % 2) a.event.first &= ~uint64_t{127};
        }
        ASSERT_TRUE(once(accesses));
        const bool has_barriers = n % 2;
        const uint32_t variant = n % RecordedBlock::variants;
        const L1Result quick = once(accesses)->run(variant, has_barriers);
        const L1Result slow = replay(accesses, variant, has_barriers);
        const model::ReplayedBlock &one = *quick.filtered, &other = *slow.filtered;
        EXPECT_EQ(numbers_of(one.counts), numbers_of(other.counts));
        EXPECT_EQ(one.cycles, other.cycles);
        EXPECT_EQ(one.lines, other.lines);
        EXPECT_EQ(one.lines_sent, other.lines_sent);
        ASSERT_EQ(one.traffic.size(), other.traffic.size());
        for (size_t i = 0; i < one.traffic.size(); ++i) {
            const model::Traffic &a = one.traffic[i], &b = other.traffic[i];
            const uint64_t shift = slow.shifts[b.line >> model::line_region_bits];
            EXPECT_TRUE(a.line + shift / model::line_bytes == b.line && a.time == b.time &&
                        a.pc == b.pc && a.step == b.step && a.kind == b.kind &&
                        a.sectors == b.sectors && a.whole == b.whole && a.count == b.count)
                << i;
        }
        ASSERT_EQ(quick.misses.size(), slow.misses.size());
        for (size_t i = 0; i < quick.misses.size(); ++i) {
            EXPECT_EQ(quick.misses[i].pc, slow.misses[i].pc);
            const Misses &a = quick.misses[i].misses, &b = slow.misses[i].misses;
            EXPECT_TRUE(a.requests == b.requests && a.missed == b.missed && a.lines == b.lines &&
                        a.cycles == b.cycles);
        }
        accesses.push_back(accesses.front());
        EXPECT_FALSE(once(accesses));
        accesses.pop_back();
        sites_[2].effect = CacheSite::Effect::atomic;
        const bool has_atomic =
            std::ranges::any_of(accesses, [](const Access& a) { return a.event.pc == 2; });
        EXPECT_EQ(once(accesses) != nullptr, !has_atomic);
        sites_[2].effect = CacheSite::Effect::bypassing_load;
    }
}

}  // namespace
}  // namespace coalesce::analysis
