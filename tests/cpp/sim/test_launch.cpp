// Tests which blocks a launch runs, and in which order.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sim/program/launch.hpp"
#include "sim/run/worker.hpp"

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

TEST(Launch, RunsSmallGridsInTheCallersThread) {
    GridRun launch;
    launch.grid = {8, 1, 1};
    launch.workers = 4;
    GridState grid;
    std::vector<std::thread::id> threads;
    run_workers(launch, grid, [&](uint32_t n) {
        EXPECT_EQ(n, 0u);
        threads.push_back(std::this_thread::get_id());
    });
    EXPECT_EQ(threads, std::vector{std::this_thread::get_id()});
}

TEST(Launch, StartsThreadsForLargerGridsAndPolls) {
    using Clock = std::chrono::steady_clock;
    GridRun launch;
    launch.grid = {8, 1, 1};
    launch.workers = 3;
    std::atomic<int> polls{0}, started{0};
    launch.poll = [&](uint64_t) { ++polls; };
    GridState grid;
    run_workers(launch, grid, [&](uint32_t n) {
        ++started;
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (n == 0 && (started < 3 || polls == 0) && Clock::now() < end) grid.after_slice();
    });
    EXPECT_EQ(started, 3);
    EXPECT_GE(polls, 1);
}

TEST(Launch, EndsWithTheExceptionOfAPoll) {
    GridRun launch;
    launch.grid = {8, 1, 1};
    launch.workers = 1;
    launch.poll = [](uint64_t) { throw std::runtime_error("interrupted"); };
    GridState grid;
    const auto run = [&] {
        run_workers(launch, grid, [&](uint32_t) {
            while (!grid.stop) grid.after_slice();
        });
    };
    EXPECT_THROW(run(), std::runtime_error);
}

}  // namespace
}  // namespace coalesce::sim
