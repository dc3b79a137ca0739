// Tests the addresses of device arrays, the messages about freed arrays, and the heap of kernels.
#include <gtest/gtest.h>

#include <cstring>

#include "errors.hpp"
#include "sim/memory/device_arrays.hpp"
#include "sim/run/device_heap.hpp"

namespace coalesce::sim {
namespace {

TEST(DeviceArrays, AddressesAreNotReused) {
    uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        const auto array = allocate_array({100, 3}, 4, "float32");
        EXPECT_EQ(array->buffer().address % 256, 0u);
        EXPECT_GE(array->buffer().address, last + guard_gap);
        EXPECT_EQ(array->buffer().bytes, 1200u);
        last = array->buffer().address;
        std::memset(array->buffer().host, 0, 1200);
    }
}

TEST(DeviceArrays, FreedArraysAreRemembered) {
    auto array = allocate_array({8}, 4, "float32");
    const uint64_t address = array->buffer().address;
    EXPECT_FALSE(freed_at(address));
    const auto live = live_arrays();
    EXPECT_EQ(live.back(), array);
    array.reset();
    EXPECT_FALSE(freed_at(address)) << "someone still has it";
}

TEST(DeviceArrays, FreedArraysAreFoundByAnyByte) {
    auto array = allocate_array({8}, 4, "float32");
    const uint64_t address = array->buffer().address;
    array.reset();
    ASSERT_TRUE(freed_at(address + 31));
    EXPECT_EQ(freed_at(address + 31)->shape, std::vector<int64_t>{8});
    EXPECT_EQ(freed_at(address)->host, nullptr);
    EXPECT_FALSE(freed_at(address + 32));
    EXPECT_FALSE(freed_at(device_array_base - 1));
}

TEST(DeviceArrays, EmptyAndImpossibleSizes) {
    EXPECT_EQ(allocate_array({0, 5}, 8, "float64")->buffer().bytes, 0u);
    EXPECT_THROW((void)allocate_array({int64_t{1} << 62, 1 << 20}, 8, "float64"), LaunchError);
}

TEST(DeviceHeap, AnAllocationOfNothingTakesSpaceToo) {
    DeviceHeap heap;
    AddressSpace memory;
    heap.set_limit(64);
    uint64_t last = 0;
    for (int i = 0; i < 4; ++i) {
        const uint64_t address = heap.allocate(memory, 0, {});
        EXPECT_GT(address, last);
        last = address;
    }
    EXPECT_EQ(heap.allocate(memory, 0, {}), 0u) << "the heap is full";
    EXPECT_FALSE(heap.release(memory, last + 1, {}));
    EXPECT_TRUE(heap.release(memory, last, {}));
    EXPECT_FALSE(heap.release(memory, last, {}));
    EXPECT_TRUE(heap.freed(last));
    EXPECT_GT(heap.allocate(memory, 16, {}), last);
}

TEST(DeviceHeap, LaunchesAtTheSameTimeKeepTheirAllocations) {
    DeviceHeap heap;
    AddressSpace first, second, third;
    heap.map_into(first);
    const uint64_t old = heap.allocate(first, 16, {});
    heap.map_into(second);
    const uint64_t young = heap.allocate(first, 16, {});
    EXPECT_TRUE(heap.lost(second).empty()) << "the allocations belong to the first launch";
    EXPECT_EQ(heap.lost(first).size(), 2u);
    EXPECT_FALSE(heap.release(second, young, {})) << "it is not in the memory of this launch";
    EXPECT_TRUE(heap.release(second, old, {}));
    uint16_t hint = 0;
    const Buffer* const held = first.find(old, 16, hint);
    ASSERT_NE(held, nullptr) << "the first launch may still access it";
    EXPECT_EQ(held->host[15], std::byte{0xff});
    heap.map_into(third);
    EXPECT_EQ(third.find(old, 16, hint), nullptr);
    EXPECT_NE(third.find(young, 16, hint), nullptr);
}

}  // namespace
}  // namespace coalesce::sim
