// A GPU with a small L2, so that tests can fill it.
#pragma once

#include <cstdint>

#include "model/gpu.hpp"
#include "model/units.hpp"

namespace coalesce::model {

// Returns an H200 whose L2 has this number of partitions, and this number of lines in all of them.
inline Gpu small(uint32_t partitions, uint32_t lines) {
    Gpu gpu = *find_gpu("h200");
    gpu.partitions = partitions;
    gpu.l2_mb = double(lines) * line_bytes / (1024 * 1024);
    return gpu;
}

}  // namespace coalesce::model
