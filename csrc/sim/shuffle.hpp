// The lane from which a shuffle reads (PTX ISA, "shfl.sync"). The operation and the checker use
// this rule.
#pragma once

#include <cstdint>

namespace coalesce::sim {

enum class ShuffleMode : uint8_t { up, down, butterfly, index };

struct ShuffleSource {
    // The lane that provides the value. If the source is not valid, this is the reading lane
    // itself.
    int lane;
    bool is_valid;  // true if the lane that the operands name is in the segment
};

// `b` and `c` are operands of the reading lane. `b` is the offset or the number of a lane. Bits 0
// to 4 of `c` are the clamp, and bits 8 to 12 the segment mask.
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
