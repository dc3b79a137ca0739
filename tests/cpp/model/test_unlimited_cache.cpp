// Tests of the cache that never evicts a line.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "model/caches/unlimited_cache.hpp"

namespace coalesce::model {
namespace {

using Kind = Traffic::Kind;

TEST(UnlimitedCache, ReadsMissingHalfLines) {
    UnlimitedCache cache;
    const auto handle = [&](Kind kind, uint8_t sectors) {
        const auto [fetched, is_new] = cache.handle(kind, 1234567, sectors);
        return std::pair(fetched, is_new);
    };
    EXPECT_EQ(handle(Kind::write, 0b0001), std::pair(uint64_t{0}, true));
    EXPECT_EQ(handle(Kind::read, 0b0001), std::pair(uint64_t{0}, false));
    EXPECT_EQ(handle(Kind::read, 0b0010), std::pair(uint64_t{0b0010}, false));
    EXPECT_EQ(handle(Kind::atomic, 0b1000), std::pair(uint64_t{0b1100}, false));
    EXPECT_EQ(handle(Kind::read, 0b1111), std::pair(uint64_t{0}, false));
    EXPECT_TRUE(cache.handle(Kind::read, 1234568, 0b0001).is_new);
}

struct Request {
    Kind kind;
    uint64_t line;
    uint8_t sectors;
};

// Returns requests for random lines. A block reads no sector of a half line that it has written.
std::vector<Request> block(std::mt19937_64& random) {
    std::vector<Request> all;
    std::set<uint64_t> written;
    while (all.size() < 300) {
        const uint64_t half = random() % 400;
        const auto sectors = uint8_t((1 + random() % 3) << half % 2 * 2);
        const Kind kind = Kind(random() % 3);
        if (kind == Kind::write)
            written.insert(half);
        else if (written.contains(half))
            continue;
        all.push_back({kind, half / 2 * (random() % 8 ? 1 : 1000), sectors});
        if (all.back().line != half / 2 && kind != Kind::write) all.pop_back();
    }
    return all;
}

TEST(UnlimitedCache, HandlesAListOfSectorsLikeTheRequests) {
    std::mt19937_64 random(3);
    UnlimitedCache by_request, by_list;
    for (int n = 0; n < 100; ++n) {
        const uint64_t origin = random() % 3000;
        BlockSectorList list;
        std::set<uint64_t> lines;
        uint64_t fetched = 0, of_list = 0;
        for (const Request& r : block(random)) {
            EXPECT_EQ(list.add(r.kind, r.line, r.sectors), lines.insert(r.line).second);
            fetched +=
                sectors_in(uint32_t(by_request.handle(r.kind, origin + r.line, r.sectors).fetched));
        }
        const auto sectors = list.get();
        for (const BlockSectors& s : *sectors) of_list += by_list.handle(s, origin);
        ASSERT_EQ(of_list, fetched) << n;
    }
}

TEST(UnlimitedCache, AListForgetsTheOrderInAHalfLine) {
    BlockSectorList list;
    list.add(Kind::write, 5, 0b0001);
    list.add(Kind::read, 5, 0b0010);
    UnlimitedCache cache;
    uint64_t fetched = 0;
    const auto sectors = list.get();
    for (const BlockSectors& s : *sectors) fetched += cache.handle(s, 0);
    EXPECT_EQ(fetched, 2u);  // one by one, the requests need only one sector from DRAM
}

}  // namespace
}  // namespace coalesce::model
