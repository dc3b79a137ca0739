// Tests the statistics of a timing: the median, the spread, and how many runs are needed.
#include <gtest/gtest.h>

#include "cuda/explain.hpp"
#include "cuda/launch/statistics.hpp"

namespace coalesce::cuda {
namespace {

TEST(Statistics, OneRunHasNoSpread) {
    const Timing timing = summarize({3.0});
    EXPECT_DOUBLE_EQ(timing.median_ms, 3.0);
    EXPECT_DOUBLE_EQ(timing.spread, 0.0);
    EXPECT_EQ(timing.runs, 1);
}

TEST(Statistics, MedianAndSpreadAreThoseOfTheSortedTimes) {
    const Timing timing = summarize({5, 1, 4, 2, 3, 6});
    EXPECT_DOUBLE_EQ(timing.median_ms, 3.5);
    // The 80th and 20th percentiles by numpy.quantile.
    EXPECT_DOUBLE_EQ(timing.spread, (5.0 - 2.0) / 3.5);
}

TEST(Statistics, AnOutlierDoesNotMoveThem) {
    const Timing timing = summarize({1, 1, 1, 1, 1, 1, 1, 1, 1, 900});
    EXPECT_DOUBLE_EQ(timing.median_ms, 1.0);
    EXPECT_DOUBLE_EQ(timing.spread, 0.0);
}

TEST(Statistics, EnoughRuns) {
    EXPECT_FALSE(enough_runs({}));
    EXPECT_FALSE(enough_runs(std::vector<double>(4, 1000.0)));  // at least 5 runs are needed
    EXPECT_TRUE(enough_runs(std::vector<double>(5, 1000.0)));   // 0.2 s have passed
    EXPECT_FALSE(enough_runs(std::vector<double>(9, 0.01)));
    EXPECT_TRUE(enough_runs(std::vector<double>(10, 0.01)));  // the spread is small
    std::vector<double> noisy;
    for (int i = 0; i < 199; ++i) noisy.push_back(0.01 + 0.001 * (i % 10));
    EXPECT_FALSE(enough_runs(noisy));
    noisy.push_back(0.02);
    EXPECT_TRUE(enough_runs(noisy));  // there are at most 200 runs
}

TEST(Explain, FaultsAreSticky) {
    for (const Result fault : {700, 710, 715, 716, 719}) EXPECT_TRUE(is_sticky(fault)) << fault;
    for (const Result other : {0, 1, 2, 209, 701}) EXPECT_FALSE(is_sticky(other)) << other;
}

TEST(Explain, Versions) {
    EXPECT_EQ(cuda_version(13000), "13.0");
    EXPECT_EQ(cuda_version(12040), "12.4");
    EXPECT_EQ(needed_driver(13), "580");
    EXPECT_EQ(needed_driver(12), "525");
    EXPECT_EQ(needed_driver(99), "");
}

}  // namespace
}  // namespace coalesce::cuda
