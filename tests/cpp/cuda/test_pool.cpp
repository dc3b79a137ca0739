// Tests the caching allocator. In place of a driver, a fake source of memory counts the calls.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cuda/memory/pool.hpp"

namespace coalesce::cuda {
namespace {

struct Counted {
    size_t limit = size_t{1} << 40;
    size_t used = 0;
    int allocations = 0;
    Address next = 4096;
    std::map<Address, size_t> live;

    Pool::Source source() {
        return {[this](Address* address, size_t bytes) -> Result {
                    if (used + bytes > limit) return out_of_memory;
                    *address = next;
                    next += bytes + 512;
                    used += bytes;
                    ++allocations;
                    live[*address] = bytes;
                    return success;
                },
                [this](Address address) {
                    used -= live.at(address);
                    live.erase(address);
                }};
    }
};

TEST(Pool, SizeClassesWasteAtMostAnEighth) {
    EXPECT_EQ(Pool::size_class(0), 512u);
    EXPECT_EQ(Pool::size_class(1), 512u);
    EXPECT_EQ(Pool::size_class(513), 1024u);
    for (size_t bytes :
         {size_t{5000}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{3000000001}}) {
        EXPECT_GE(Pool::size_class(bytes), bytes);
        EXPECT_LE(Pool::size_class(bytes), bytes + bytes / 8 + 512);
        EXPECT_EQ(Pool::size_class(Pool::size_class(bytes)), Pool::size_class(bytes));
    }
}

TEST(Pool, ReusesReturnedBlocks) {
    Counted memory;
    Pool pool(memory.source());
    Pool::Block a, b;
    ASSERT_EQ(pool.take(100000, a), success);
    pool.give_back(a);
    ASSERT_EQ(pool.take(99000, b), success);
    EXPECT_EQ(a.address, b.address);
    EXPECT_EQ(memory.allocations, 1);
    EXPECT_EQ(pool.usage().in_use, b.bytes);
    EXPECT_EQ(pool.usage().cached, 0u);
}

TEST(Pool, ReleasesTheCacheWhenMemoryRunsOut) {
    Counted memory;
    memory.limit = 10000;
    Pool pool(memory.source());
    Pool::Block small, large;
    ASSERT_EQ(pool.take(4096, small), success);
    pool.give_back(small);
    EXPECT_EQ(pool.take(8192, large), success);
    EXPECT_EQ(memory.used, large.bytes);
    Pool::Block more;
    EXPECT_EQ(pool.take(8192, more), out_of_memory);
}

TEST(Pool, ForgetsWithoutReleasing) {
    Counted memory;
    Pool pool(memory.source());
    Pool::Block block;
    ASSERT_EQ(pool.take(4096, block), success);
    pool.give_back(block);
    pool.forget();
    EXPECT_EQ(memory.used, block.bytes);
    EXPECT_EQ(pool.trim(), 0u);
}

TEST(Pool, BlocksInUseNeverOverlap) {
    Counted memory;
    Pool pool(memory.source());
    std::mt19937 random(3);
    std::vector<Pool::Block> held;
    for (int i = 0; i < 2000; ++i) {
        if (!held.empty() && random() % 2 == 0) {
            const size_t which = random() % held.size();
            pool.give_back(held[which]);
            held.erase(held.begin() + static_cast<ptrdiff_t>(which));
        } else {
            Pool::Block block;
            ASSERT_EQ(pool.take(random() % 5000, block), success);
            for (const Pool::Block& other : held) EXPECT_NE(other.address, block.address);
            held.push_back(block);
        }
    }
    size_t in_use = 0;
    for (const Pool::Block& block : held) in_use += block.bytes;
    EXPECT_EQ(pool.usage().in_use, in_use);
    EXPECT_EQ(pool.usage().in_use + pool.usage().cached, memory.used);
}

}  // namespace
}  // namespace coalesce::cuda
