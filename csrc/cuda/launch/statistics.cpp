#include "cuda/launch/statistics.hpp"

#include <algorithm>
#include <numeric>

namespace coalesce::cuda {

namespace {

// Returns a quantile of a sorted list. Interpolates between two values, as numpy.quantile does.
double quantile(const std::vector<double>& sorted, double fraction) {
    const double place = fraction * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Timing summarize(std::vector<double> times_ms) {
    std::sort(times_ms.begin(), times_ms.end());
    Timing timing;
    timing.runs = static_cast<int>(times_ms.size());
    timing.median_ms = quantile(times_ms, 0.5);
    if (timing.median_ms > 0)
        timing.spread = (quantile(times_ms, 0.8) - quantile(times_ms, 0.2)) / timing.median_ms;
    return timing;
}

bool enough_runs(const std::vector<double>& times_ms) {
    constexpr size_t at_least = 5, steady = 10, at_most = 200;
    constexpr double budget_ms = 200, calm = 0.02;
    if (times_ms.size() < at_least) return false;
    if (times_ms.size() >= at_most) return true;
    if (std::accumulate(times_ms.begin(), times_ms.end(), 0.0) >= budget_ms) return true;
    return times_ms.size() >= steady && summarize(times_ms).spread < calm;
}

}  // namespace coalesce::cuda
