#include <gtest/gtest.h>

#include <map>

#include "sim/memory/address_range.hpp"

using coalesce::sim::AddressRange;

TEST(AddressRange, NewAddressesComeFirstAndThenTheSmallestFreedMemoryThatIsLargeEnough) {
    struct Freed {
        uint64_t bytes;
    };
    std::map<uint64_t, Freed> freed{{50, {90}}, {5000, {90}}};  // of other ranges
    AddressRange range{1000, 2000, 100, 100};
    EXPECT_EQ(range.take(250, freed), 1000);  // and a gap to 1400
    EXPECT_EQ(range.take(0, freed), 1400);
    EXPECT_EQ(range.take(401, freed), std::nullopt);
    EXPECT_EQ(range.take(400, freed), 1500);  // a failure has taken nothing
    EXPECT_EQ(range.take(1, freed), std::nullopt);
    freed[1000] = {250};
    freed[1400] = {0};
    EXPECT_EQ(range.take(100, freed), 1400);
    EXPECT_EQ(range.take(100, freed, 400), std::nullopt);  // 1000 is no multiple of 400
    EXPECT_EQ(range.take(300, freed), 1000);
    EXPECT_EQ(freed.size(), 2);
}
