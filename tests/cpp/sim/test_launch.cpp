// Tests which blocks a launch runs, and in which order.
#include <gtest/gtest.h>

#include <vector>

#include "sim/program/launch.hpp"

namespace coalesce::sim {
namespace {

std::vector<uint64_t> blocks_of(const GridRun& launch) {
    std::vector<uint64_t> blocks;
    for (uint64_t n = 0; n < launch.block_count(); ++n) blocks.push_back(launch.block_at(n));
    return blocks;
}

TEST(Launch, RunsTheBlocksFromTheFirstBlockOn) {
    GridRun launch;
    launch.grid = {3, 2, 1};
    EXPECT_EQ(blocks_of(launch), (std::vector<uint64_t>{0, 1, 2, 3, 4, 5}));
    launch.first_block = 4;
    EXPECT_EQ(blocks_of(launch), (std::vector<uint64_t>{4, 5}));
    launch.first_block = 6;
    EXPECT_EQ(launch.block_count(), 0u);
}

TEST(Launch, RunsTheBlocksOfAList) {
    GridRun launch;
    launch.grid = {8, 1, 1};
    launch.blocks = {5, 2};
    EXPECT_EQ(blocks_of(launch), (std::vector<uint64_t>{5, 2}));
}

TEST(Launch, RunsTheBlocksOfAClusterOneAfterTheOther) {
    GridRun launch;
    launch.grid = {4, 2, 1};
    launch.cluster = {2, 2, 1};
    EXPECT_EQ(blocks_of(launch), (std::vector<uint64_t>{0, 1, 4, 5, 2, 3, 6, 7}));
    launch.first_block = 4;
    EXPECT_EQ(blocks_of(launch), (std::vector<uint64_t>{2, 3, 6, 7}));
}

}  // namespace
}  // namespace coalesce::sim
