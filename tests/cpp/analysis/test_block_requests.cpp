// Tests BlockRequests (analysis/caches/block_requests.hpp), which records the requests of a block.
// Most accesses are recorded in a short way, which needs their shape. If the shape is not given,
// the long way compares the addresses of all lanes. Repeated accesses are not announced as events.
// All three ways must agree.
//
// Also compares the replay of such requests (analysis/caches/l1_replay.hpp) with a simple, slow
// one.
#include "analysis/caches/block_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <memory>
#include <random>

#include "analysis/caches/l1_replay.hpp"

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
    std::shared_ptr<RecordedBlock> run(BlockRequests& requests, const Accesses& accesses, Way way) {
        std::array<uint16_t, instructions> hints{};
        sim::Block block;
        block.memory = &memory_;
        block.hints = hints.data();
        std::array<sim::Warp, warps> of_block;
        requests.start();
        for (const Access& a : accesses) {
            sim::Warp& warp = of_block[a.warp];
            warp.block = &block;
            warp.index = a.warp;
            if (way == Way::repeated) {
                warp.repeated_wavefronts += a.wavefronts;
            } else if (a.wavefronts) {
                MemoryEvent shared;
                shared.space = ptx::Space::shared;
                requests.add(warp, shared, a.wavefronts, {});
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
            requests.add(warp, e, 0, model::run_of(e));
        }
        return requests.get();
    }

    // Compares the accesses with those of `earlier`, in all ways. Returns true if they are equal.
    bool equal(const Accesses& earlier, const Accesses& accesses) {
        BlockRequests one(sites_, warps, 1 << 14), two(sites_, warps, 1 << 14);
        const auto first = run(one, earlier, Way::shapes), second = run(two, accesses, Way::shapes);
        for (const Way way : {Way::addresses, Way::repeated}) {
            BlockRequests other(sites_, warps, 1 << 14);
            EXPECT_TRUE(run(other, earlier, way)->has_same_requests(*first));
            EXPECT_EQ(one.origins(), other.origins());
            EXPECT_EQ(one.cycles(), other.cycles());
        }
        return second->has_same_requests(*first);
    }

    // Replays the accesses through L1.
    L1Result replay(const Accesses& accesses, uint32_t l1_bytes) {
        BlockRequests requests(sites_, warps, l1_bytes);
        const auto block = run(requests, accesses, Way::shapes);
        constexpr bool has_barriers = true;
        return L1Replay(*block, requests.memory(), sites_, requests.origins().size(), 0,
                        has_barriers)
            .run();
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

// A simple, slow L1: each set has a list of lines, the one that was used last first.
class SlowL1 {
  public:
    explicit SlowL1(uint32_t bytes) : sets_(bytes / model::line_bytes / model::L1Cache::ways) {}

    // Returns the number of sectors that were there.
    uint64_t load(uint64_t line, uint8_t sectors) {
        auto& set = lines_[(line * 0x9e3779b97f4a7c15 >> 32) * sets_ >> 32];
        const auto at = std::ranges::find(set, line, &std::pair<uint64_t, uint8_t>::first);
        uint8_t there = 0;
        if (at != set.end()) {
            there = at->second;
            set.erase(at);
        } else if (set.size() == model::L1Cache::ways) {
            set.pop_back();
        }
        set.emplace_front(line, there | sectors);
        return model::sectors_in(sectors & there);
    }

  private:
    uint64_t sets_;
    std::map<uint64_t, std::list<std::pair<uint64_t, uint8_t>>> lines_;
};

// Warps walk along rows and columns of arrays, like the loops of kernels, and load from random
// places. In the largest L1, few lines are evicted. In the others, lines of one request evict each
// other. The replay looks up first the lanes that use the same sectors as before, and the slow L1
// looks up the lanes in their order, so a few of these lines differ.
TEST_F(BlockRequestsTest, LoadsAreReplayedLikeInASlowL1) {
    constexpr uint32_t large = 1 << 17;
    for (const uint32_t l1_bytes : {1u << 11, 1u << 14, large}) {
        uint64_t loads = 0, hits = 0, slow_loads = 0, slow_hits = 0, sent = 0;
        for (int n = 0; n < 30; ++n) {
            constexpr std::array<int64_t, 9> strides = {0, 4, 8, -4, 100, 128, 2000, 2052, -2052};
            Accesses accesses;
            std::array<uint64_t, warps * instructions> first{};
            for (uint64_t& each : first) each = 500000 + random_() % 4096 * 4;
            for (int round = 0; round < 100; ++round) {
                for (uint32_t warp = 0; warp < warps; ++warp) {
                    Access a;
                    a.warp = warp;
                    a.event = some_event();
                    a.event.pc = uint32_t(round % int(instructions));
                    const uint32_t walk = warp * instructions + a.event.pc;
                    a.event.stride = strides[size_t(n + int(walk)) % strides.size()];
                    a.event.first = arrays_[a.event.pc % 2] + (first[walk] += n % 4 ? 4 : 96);
                    if (random_() % 16 == 0) a.event.first += random_() % 1024 * 4;
                    a.event.shape = a.event.stride == 0   ? Shape::uniform
                                    : a.event.stride == 4 ? Shape::consecutive
                                                          : Shape::strided;
                    accesses.push_back(a);
                }
            }
            const L1Result result = replay(accesses, l1_bytes);
            BlockRequests requests(sites_, warps, l1_bytes);
            run(requests, accesses, Way::shapes);
            SlowL1 slow(l1_bytes);
            for (const Access& a : accesses) {
                std::vector<std::pair<uint64_t, uint8_t>> lines;
                for (int lane = 0; lane < sim::warp_size; ++lane) {
                    const uint64_t relative =
                        a.event.address(lane) - requests.origins()[1 + a.event.pc % 2];
                    const uint64_t address =
                        relative + result.shifts[relative >> model::region_bits];
                    const uint64_t line = address / model::line_bytes;
                    auto at = std::ranges::find(lines, line, &std::pair<uint64_t, uint8_t>::first);
                    if (at == lines.end()) at = lines.insert(at, {line, 0});
                    at->second |= uint8_t(1u << address / model::sector_bytes % 4);
                }
                for (const auto& [line, sectors] : lines) {
                    slow_loads += model::sectors_in(sectors);
                    slow_hits += slow.load(line, sectors);
                }
            }
            loads += result.filtered->counts.l1_loads;
            hits += result.filtered->counts.l1_load_hits;
            for (const model::Traffic& t : result.filtered->traffic)
                sent += t.count * model::sectors_in(t.sectors);
        }
        EXPECT_EQ(loads, slow_loads);
        EXPECT_EQ(sent, loads - hits);
        EXPECT_GT(hits, 100u);
        EXPECT_NEAR(double(hits), double(slow_hits), l1_bytes == large ? 0 : 0.01 * double(loads));
    }
}

}  // namespace
}  // namespace coalesce::analysis
