// The 32 lanes of a warp, and how an operation is applied to all of them.
//
// METHOD
// A register is an array of 32 values, one per lane. The code of an operation says what happens in
// one lane, and `lanewise` applies it to all active lanes in a loop. Such a loop always has 32
// iterations, which do not depend on each other. So the compiler can translate it into vector
// instructions. Code with such loops is compiled once for each instruction set, in the namespace
// COALESCE_ISA. When the program starts, it chooses one of these versions; see isa.hpp.
#pragma once

#include <bit>
#include <cstdint>

#ifndef COALESCE_ISA
#define COALESCE_ISA generic
#endif

namespace coalesce::sim {

inline constexpr int warp_size = 32;

// Bit i of a mask stands for lane i.
using LaneMask = uint32_t;
inline constexpr LaneMask all_lanes = 0xffffffffu;

// Returns 1 if the mask has the lane, and otherwise 0. The type is not bool, because then GCC (12)
// does not vectorize loops such as d[i] = has_lane(mask, i) ? x[i] : d[i] (check_vectors.cmake).
[[nodiscard]] constexpr LaneMask has_lane(LaneMask mask, int lane) { return (mask >> lane) & 1u; }

// Calls f(lane) for each lane of the mask, in order.
template <class F>
inline void for_each_lane(LaneMask mask, F&& f) {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace coalesce::sim
