// Lets the handler of a memory instruction count an access itself, without telling the observers.
//
// METHOD
// To count an access in an observer takes several times longer than to execute it. But most
// accesses repeat an earlier access of the same instruction. It costs the same if all lanes access
// words at the same stride, and, in global memory, at the same place in a line. So an observer can
// keep one Repetition for each instruction (Warp::repetitions). It describes the last access that
// was announced. If the next access of the instruction is a repetition, the handler only adds 1 to
// the counter of this access. Otherwise it announces the access, and the observer describes it
// instead.
//
// An observer that needs the address of every access to global memory listens to Hook::repeated.
#pragma once

#include <cstdint>

#include "sim/lane_strides.hpp"

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
