// Tests AccessCosts (analysis/counts/access_costs.hpp), which remembers the costs of accesses. A
// remembered cost must equal the cost that a new object computes for the same access.
#include "analysis/counts/access_costs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace coalesce::analysis {
namespace {

using sim::MemoryEvent;
using sim::Shape;

struct Pattern {
    MemoryEvent event;
    std::array<uint64_t, sim::warp_size> addresses{};

    // Returns the access with each address `distance` bytes further on.
    MemoryEvent moved(uint64_t distance) {
        for (uint64_t& a : addresses) a += distance;
        event.first += distance;
        event.addresses = event.shape == Shape::scattered ? addresses.data() : nullptr;
        return event;
    }
};

Pattern pattern(std::mt19937_64& random, uint8_t bytes) {
    Pattern p;
    MemoryEvent& e = p.event;
    e.bytes = bytes;
    e.space = random() % 2 ? ptx::Space::shared : ptx::Space::global;
    e.mask = sim::all_lanes;
    e.first = 4096 + random() % 64 * bytes;
    switch (random() % 4) {
        case 0:
            e.shape = Shape::consecutive;
            break;
        case 1:
        case 2:
            e.shape = Shape::strided;
            e.stride = int64_t(2 + random() % 80) * (random() % 2 ? bytes : -int64_t{bytes});
            break;
        default:
            e.shape = Shape::scattered;
            for (uint64_t& a : p.addresses) a = 4096 + random() % 128 * bytes;
            if (random() % 2) e.mask = uint32_t(random()) | 1u;
    }
    return p;
}

TEST(AccessCosts, RepeatedAccessesCostTheSame) {
    std::mt19937_64 random(1);
    sim::Program program;
    program.instructions.resize(1);
    for (const uint8_t bytes : {4, 8, 16}) {
        program.instructions[0].bytes = bytes;
        program.instructions[0].space = ptx::Space::generic;
        AccessCosts costs(program);
        InstructionCounts sum;
        std::vector<Pattern> patterns;
        // More patterns than an AccessCosts remembers.
        for (int n = 0; n < 200; ++n) patterns.push_back(pattern(random, bytes));
        for (int n = 0; n < 20000; ++n) {
            // Most distances are multiples of 128 bytes, so the places of the addresses within
            // their lines stay the same.
            const uint64_t distance = random() % 4 ? random() % 4 * 128 : random() % 32 * bytes;
            const MemoryEvent e = patterns[random() % patterns.size()].moved(distance);
            AccessCosts one(program);
            ASSERT_EQ(costs.add(e), one.add(e));
            sum.add(one.of(0));
        }
        EXPECT_EQ(costs.of(0), sum);
    }
}

// An asynchronous copy has two events: the read, and the write with the addresses of the read.
struct Copy {
    std::array<uint64_t, sim::warp_size> from{}, to{};
    sim::LaneMask read = sim::all_lanes, written = sim::all_lanes, left_out = 0;

    uint32_t add_to(AccessCosts& costs, uint8_t bytes, const sim::Op& op, uint64_t distance) const {
        auto source = from, target = to;
        for (uint64_t& a : source) a += 3 * distance;
        for (uint64_t& a : target) a += distance;
        MemoryEvent e;
        e.access = sim::Access::async_copy;
        e.bytes = bytes;
        e.op = &op;
        e.shape = Shape::scattered;
        e.mask = read;
        e.addresses = source.data();
        costs.leave_out(left_out);
        if (read) costs.add(e);
        e.space = ptx::Space::shared;
        e.mask = written;
        e.addresses = target.data();
        e.sources = source.data();
        const bool consecutive = written == sim::all_lanes && to[1] == to[0] + bytes;
        if (consecutive) e.shape = Shape::consecutive;
        e.first = target[0];
        costs.leave_out(left_out);
        return costs.add(e);
    }
};

TEST(AccessCosts, RepeatedCopiesCostTheSame) {
    std::mt19937_64 random(3);
    sim::Program program;
    program.instructions.resize(1);
    sim::InstructionInfo& instruction = program.instructions[0];
    instruction.access = sim::Access::async_copy;
    sim::Op op;
    std::fill(std::begin(op.operand), std::end(op.operand), sim::no_operand);
    for (const auto& [bytes, bypasses] :
         {std::pair<uint8_t, bool>{4, false}, {8, false}, {16, false}, {16, true}}) {
        instruction.bytes = bytes;
        instruction.traits.bypasses_l1 = bypasses;
        std::vector<Copy> copies(100);
        for (Copy& c : copies) {
            const bool consecutive = random() % 3 == 0;
            for (size_t i = 0; i < c.to.size(); ++i) {
                c.from[i] = 4096 + (random() % 2 ? i : random() % 128) * bytes;
                c.to[i] = (consecutive ? i : random() % 128) * bytes;
            }
            if (random() % 3 == 0) c.read = uint32_t(random() & random());
            if (random() % 3 == 0) c.written = c.read | uint32_t(random()) | 1u;
            if (random() % 4 == 0) c.left_out = ~c.written;
        }
        for (size_t n = 1; n < copies.size();
             n += 10) {  // the same addresses, but fewer lanes read
            copies[n] = copies[n - 1];
            copies[n].left_out = 0;
            copies[n].read &= uint32_t(random());
        }
        AccessCosts costs(program);
        InstructionCounts sum;
        for (int n = 0; n < 10000; ++n) {
            const Copy& copy = copies[random() % copies.size()];
            const uint64_t distance = random() % 4 ? random() % 4 * 128 : random() % 32 * bytes;
            AccessCosts one(program);
            ASSERT_EQ(copy.add_to(costs, bytes, op, distance),
                      copy.add_to(one, bytes, op, distance));
            sum.add(one.of(0));
        }
        EXPECT_EQ(costs.of(0), sum);
    }
}

// If the stride is a multiple of the size of a line, only the number of the accesses is kept. Their
// cost must be the one that the addresses of all lanes have.
TEST(AccessCosts, LanesInDifferentLinesCostTheSameAtEveryAddress) {
    std::mt19937_64 random(2);
    sim::Program program;
    program.instructions.resize(1);
    for (const sim::Access access : {sim::Access::load, sim::Access::atomic}) {
        program.instructions[0].access = access;
        for (int n = 0; n < 300; ++n) {
            const auto bytes = uint8_t(4 << random() % 3);
            program.instructions[0].bytes = bytes;
            MemoryEvent e;
            e.access = access;
            e.bytes = bytes;
            e.mask = sim::all_lanes;
            e.shape = Shape::strided;
            e.stride = int64_t(1 + random() % 70) * (random() % 2 ? 128 : -128);
            e.first = (1 << 20) + random() % 4096 * bytes;
            std::array<uint64_t, sim::warp_size> addresses;
            for (int lane = 0; lane < sim::warp_size; ++lane)
                addresses[size_t(lane)] = e.address(lane);
            std::ranges::sort(addresses);
            const model::Footprint f = model::footprint_of(addresses.data(), sim::warp_size);
            AccessCosts costs(program);
            costs.add(e);
            const InstructionCounts c = costs.of(0);
            EXPECT_EQ(c.sectors, access == sim::Access::atomic ? f.repeated : f.sectors);
            EXPECT_EQ(c.theoretical_sectors, f.sectors);
            EXPECT_EQ(c.lines, f.lines);
            EXPECT_EQ(c.distinct_bytes, uint64_t(f.elements) * bytes);
            EXPECT_EQ(c.divided, model::may_be_divided(f, sim::warp_size) ? 1 : 0);
        }
    }
}

}  // namespace
}  // namespace coalesce::analysis
