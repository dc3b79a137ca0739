// Statistics of timed runs: the median, the spread, and whether there are enough runs.
#pragma once

#include <vector>

namespace coalesce::cuda {

struct Timing {
    double median_ms = 0;
    double spread = 0;  // (80th - 20th percentile) / median; 0 for a single run
    int runs = 0;
};

// Takes at least one time in milliseconds.
[[nodiscard]] Timing summarize(std::vector<double> times_ms);

// When to stop timing, if the caller does not specify the number of runs. At least 5 runs are made.
// Then timing stops if the spread is below 2 % after at least 10 runs, or after 0.2 s, or after 200
// runs.
[[nodiscard]] bool enough_runs(const std::vector<double>& times_ms);

}  // namespace coalesce::cuda
