#include "model/time.hpp"

#include <algorithm>

namespace coalesce::model {

double modelled_ms(const Gpu& gpu, const Work& work) {
    if (work.blocks == 0) return gpu.launch_us / 1e3;
    const double per_sm = double(work.blocks) / gpu.multiprocessors;
    // The busiest multiprocessor has a whole number of blocks.
    const double most = double((work.blocks + gpu.multiprocessors - 1) / gpu.multiprocessors);
    const double share = most / std::max(per_sm, 1e-9) / gpu.multiprocessors;
    const double issue = double(work.instructions) / gpu.schedulers;
    // Requests and wavefronts go through one data path.
    const double memory = double(work.first_level_cycles + work.shared_wavefronts);
    const double cycles = std::max(issue, memory) * share;
    const double compute_us = cycles / (gpu.clock_ghz * 1e3);
    const double dram_us = double(work.dram_bytes) / (gpu.dram_gbps * 1e3);
    return (gpu.launch_us + std::max(compute_us, dram_us)) / 1e3;
}

}  // namespace coalesce::model
