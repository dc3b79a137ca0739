// Computes the lines that a request with a constant stride touches.
#pragma once

#include <cstdint>

#include "model/units.hpp"

namespace coalesce::analysis {

// Returns true if lanes with this stride touch all sectors of a range of addresses.
[[nodiscard]] inline bool is_dense(int64_t stride) {
    return stride >= 0 && stride <= int64_t{model::sector_bytes};
}
// Returns true if each lane accesses a line of its own.
[[nodiscard]] inline bool is_apart(int64_t stride) {
    return stride >= int64_t{model::line_bytes} || stride <= -int64_t{model::line_bytes};
}

// Returns those of the line's sectors whose numbers are at least `begin` and less than `end`.
//
// EXAMPLE
// Floats from address 208 on, with a stride of 4 bytes: the bytes 208 to 335. They are in the
// sectors 6 to 10: the sectors 0b1100 of line 1, and 0b0111 of line 2.
[[nodiscard]] inline uint8_t sectors_of_line(uint64_t line, uint64_t begin, uint64_t end) {
    const uint64_t first = line * 4;
    const uint64_t skipped = begin > first ? begin - first : 0;
    const uint64_t until = end < first + 4 ? end - first : 4;
    return uint8_t((15u << skipped) & 15 & ~(~0u << until));
}

}  // namespace coalesce::analysis
