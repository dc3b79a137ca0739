// Computes the lane from which a shuffle reads (PTX ISA, "shfl.sync"). The shuffle operation and
// the checker use this function.
#pragma once

#include <cstdint>

namespace coalesce::sim {

enum class ShuffleMode : uint8_t { up, down, butterfly, index };

struct ShuffleSource {
    // The lane whose value is read. If there is no such lane, the lane reads its own value.
    int lane;
    bool is_valid;  // true if the lane that the operands select is in the reading lane's segment
};

// Returns the lane from which `lane` reads. `b` and `c` are the operands of shfl.sync in this lane.
// `b` is an offset or the number of a lane. Bits 0 to 4 of `c` are the clamp (a limit for the lane
// that is read), and bits 8 to 12 are the segment mask.
[[gnu::always_inline]] inline ShuffleSource shuffle_source(ShuffleMode mode, int lane, uint32_t b,
                                                           uint32_t c) {
    const int by = int(b & 31), clamp = int(c & 31), segment = int(c >> 8 & 31);
    const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    const int from = mode == ShuffleMode::up          ? lane - by
                     : mode == ShuffleMode::down      ? lane + by
                     : mode == ShuffleMode::butterfly ? lane ^ by
                                                      : least | (by & ~segment);
    const bool valid = mode == ShuffleMode::up ? from >= most : from <= most;
    return {valid ? from : lane, valid};
}

}  // namespace coalesce::sim
