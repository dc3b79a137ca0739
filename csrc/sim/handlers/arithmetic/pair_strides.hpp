// Determines the stride of 64-bit addresses that are in pairs of 32-bit registers, as in machine
// code.
#pragma once

#include <cstdint>

#include "sim/memory/lanes.hpp"
#include "sim/warp/lane_strides.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Returns the stride of addresses that are in pairs of 32-bit registers. If the stride is not
// constant, or if the upper words of the addresses are not all equal, returns `irregular`.
inline int64_t stride_of_pairs(const uint32_t* a) {
    const uint32_t* const upper = a + warp_size;
    const uint32_t first = a[0], stride = a[1] - first, above = upper[0];
    uint32_t different = 0;
    if (stride == 0) {  // this case is frequent, and needs no multiplications
        for (int i = 0; i < warp_size; ++i) different |= (a[i] ^ first) | (upper[i] ^ above);
        return different ? LaneStrides::irregular : 0;
    }
    for (int i = 0; i < warp_size; ++i)
        different |= (a[i] ^ (first + uint32_t(i) * stride)) | (upper[i] ^ above);
    if (different) return LaneStrides::irregular;
    const int64_t last = first + int64_t{int32_t(stride)} * (warp_size - 1);
    return last >= 0 && last <= UINT32_MAX ? int32_t(stride) : LaneStrides::irregular;
}

}  // namespace coalesce::sim::COALESCE_ISA
