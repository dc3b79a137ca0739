// Statistics of timed runs: the median, the spread, and whether there are enough runs.
#pragma once

#include <vector>

namespace coalesce::cuda {

struct Timing {
    double median_ms = 0;
    double spread = 0;  // (80th - 20th percentile) / median; 0 for a single run
    int runs = 0;
};

// Returns the statistics of the times, of which there must be at least one.
[[nodiscard]] Timing summarize(std::vector<double> times_ms);

// Returns whether timing may stop, if the caller has not specified the number of runs. At least 5
// runs are made. Timing stops after 200 runs or 0.2 s. It stops earlier, after at least 10 runs, if
// the spread is below 2 %.
[[nodiscard]] bool enough_runs(const std::vector<double>& times_ms);

}  // namespace coalesce::cuda
