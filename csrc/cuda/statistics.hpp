// The figures of a timing: the median, how far the runs spread, and when there are enough of them.
#pragma once

#include <vector>

namespace coalesce::cuda {

struct Timing {
    double median_ms = 0;
    double spread = 0;  // (80th - 20th percentile) / median; 0 for a single run
    int runs = 0;
};

// Of at least one time, in milliseconds.
[[nodiscard]] Timing summarize(std::vector<double> times_ms);

// When to stop timing, where the caller names no number of runs: at least 5 runs; then when the
// spread is under 2 percent and 10 runs are done, or 0.2 s are spent; at most 200.
[[nodiscard]] bool enough_runs(const std::vector<double>& times_ms);

}  // namespace coalesce::cuda
