// Tests BlockRequests (analysis/block_requests.hpp), which compares the requests of a block with
// those of an earlier block. Most accesses are compared in a short way, which needs their shape. If
// the shape is not given, the long way compares the addresses of all lanes. Both must agree.
#include "analysis/block_requests.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "analysis/l1_replay.hpp"

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

    // Makes the accesses. If `shapes` is false, the events have the addresses of all lanes instead
    // of a shape. Only uniform addresses have no long way. Returns the requests.
    std::shared_ptr<RecordedBlock> run(BlockRequests& requests, const Accesses& accesses,
                                       BlockRequests::Candidates candidates, bool shapes) {
        std::array<uint16_t, instructions> hints{};
        sim::Block block;
        block.memory = &memory_;
        block.hints = hints.data();
        sim::Warp warp;
        warp.block = &block;
        requests.start(0, std::move(candidates));
        for (const Access& a : accesses) {
            warp.index = a.warp;
            if (a.wavefronts) {
                MemoryEvent shared;
                shared.space = ptx::Space::shared;
                requests.add(warp, shared, a.wavefronts);
            }
            MemoryEvent e = a.event;
            std::array<uint64_t, sim::warp_size> addresses;
            for (int lane = 0; lane < sim::warp_size; ++lane)
                addresses[size_t(lane)] = a.event.address(lane);
            if (!shapes && e.shape != Shape::uniform) {
                e.shape = Shape::scattered;
                e.addresses = addresses.data();
            }
            requests.add(warp, e, 0);
        }
        return requests.finish();
    }

    // Compares the accesses with those of `earlier`, in both ways. Returns true if they are equal.
    bool equal(const Accesses& earlier, const Accesses& accesses) {
        BlockRequests requests(sites_, warps, 1 << 14), slow(sites_, warps, 1 << 14);
        const auto first = run(requests, earlier, {}, true);
        const auto first_slow = run(slow, earlier, {}, false);
        EXPECT_EQ(first->requests, first_slow->requests);
        first->is_candidate = first_slow->is_candidate = true;
        const auto second = run(requests, accesses, {first}, true);
        const auto second_slow = run(slow, accesses, {first_slow}, false);
        EXPECT_EQ(second->requests, second_slow->requests);
        EXPECT_EQ(requests.is_as_expected(), slow.is_as_expected());
        EXPECT_EQ(requests.origins(), slow.origins());
        EXPECT_EQ(requests.cycles(), slow.cycles());
        EXPECT_EQ(requests.is_as_expected(), second == first);
        return requests.is_as_expected();
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

}  // namespace
}  // namespace coalesce::analysis
