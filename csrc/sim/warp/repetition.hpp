// Lets the handler of a memory instruction count an access itself, without telling the observers.
//
// METHOD
// Counting an access in an observer takes several times longer than executing the access. But most
// accesses cost the same as an earlier access of the same instruction. This is so if both accesses
// have the same stride between lanes, and if, in global memory, both begin at the same place in a
// cache line. So an observer can keep one Repetition for each instruction
// (Warp::global_repetitions). It describes the last access that was announced. If the next access
// of the instruction costs the same, the handler only adds 1 to the counter of this access.
// Otherwise the handler announces the access, and the observer changes the Repetition.
//
// An observer that needs the address of every access to global memory listens to Hook::repeated.
#pragma once

#include <cstdint>

#include "sim/warp/lane_strides.hpp"

namespace coalesce::sim {

struct Repetition {
    // The distance in bytes between the addresses of neighbouring lanes. No access has this stride
    // until one is described.
    int64_t stride = LaneStrides::irregular;
    // The bits of the first address that affect the cost of the access, and their values.
    uint64_t place_bits = 0, place = 0;
    uint64_t wavefronts = 0;    // of one access to shared memory
    uint64_t* times = nullptr;  // how often such an access was made

    [[nodiscard]] bool is_like(int64_t its_stride, uint64_t first) const {
        return its_stride == stride && (first & place_bits) == place;
    }
};

}  // namespace coalesce::sim
