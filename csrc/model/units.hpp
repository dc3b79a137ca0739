// The units in which a GPU moves data. They are the same on all simulated GPUs.
#pragma once

#include <cstdint>

namespace coalesce::model {

inline constexpr uint32_t sector_bytes = 32;  // the caches fetch and evict data in sectors
inline constexpr uint32_t line_bytes = 128;   // a tag of a cache stands for a line of four sectors
inline constexpr uint32_t word_bytes = 4;     // a bank delivers one word per cycle

}  // namespace coalesce::model
