// Tests the watchdog of the fuzz targets (fuzz_main.hpp), which stops the process if a text takes
// too long.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "fuzz/fuzz_main.hpp"

namespace coalesce::fuzz {
namespace {

int fuzz(const std::function<void(const std::string&)>& run) {
    char name[] = "fuzz", count[] = "2";
    char* arguments[] = {name, count};
    return main(
        "fuzz", "FUZZ_TEST_LAST", 2, arguments,
        [](std::mt19937&, long) { return std::string("text"); }, run, [] {}, 1);
}

TEST(Fuzzing, AWaitingTextEndsTheRun) {
    EXPECT_DEATH(
        fuzz([](const std::string&) { std::this_thread::sleep_for(std::chrono::hours(1)); }),
        "a text that does not end");
}

TEST(Fuzzing, FinishedTextsDoNotEndTheRun) {
    int runs = 0;
    EXPECT_EQ(fuzz([&](const std::string&) { ++runs; }), 0);
    EXPECT_EQ(runs, 2);
    // The watchdog was destroyed in time, so it must not end the process later.
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
}

}  // namespace
}  // namespace coalesce::fuzz
