// Tests which blocks a launch runs, and in which order.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sim/fixture.hpp"
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

struct StartedBlocks {
    static constexpr Hooks hooks = Hook::start;
    void start(Block&) { ++count; }
    int count = 0;
};

// Each block waits until all blocks have started. So the first worker could start them all, and
// would then run them alone.
TEST(Launch, SharesWaitingBlocksBetweenThreads) {
    const ptx::Module module = ptx::parse(R"(.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 counter)
{
 .reg .pred %q; .reg .b64 %p; .reg .b32 %r;
 ld.param.u64 %p, [counter];
 red.global.add.u32 [%p], 1;
wait:
 ld.volatile.global.u32 %r, [%p];
 setp.lt.u32 %q, %r, 8;
 @%q bra wait;
 ret;
}
)");
    const Program program = decode(module, *module.find_function("k"), lay_out_memory(module),
                                   engine(watch_of<StartedBlocks>));
    for (const bool cooperative : {false, true}) {
        std::vector<std::byte> data(4);
        AddressSpace space;
        Buffer buffer;
        buffer.name = "counter";
        buffer.bytes = data.size();
        buffer.host = data.data();
        const uint64_t address = space.add(buffer);
        GridRun launch;
        launch.grid = {8, 1, 1};
        launch.cooperative = cooperative;
        if (cooperative) space.prepare_grid_workspace();
        launch.workers = 2;
        launch.parameters.resize(program.parameter_bytes);
        std::memcpy(launch.parameters.data(), &address, sizeof address);
        StartedBlocks started[2];
        StartedBlocks* const observers[] = {&started[0], &started[1]};
        run_grid<StartedBlocks>(program, launch, space, observers);
        EXPECT_EQ(started[0].count, 4);
        EXPECT_EQ(started[1].count, 4);
    }
}

}  // namespace
}  // namespace coalesce::sim
