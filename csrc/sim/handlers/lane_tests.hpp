// Tests a condition for all lanes of a warp, and returns a mask of the lanes that fulfil it.
//
// METHOD
// The host has an instruction that collects the highest bits of several words. GCC (12) does not
// use it: it shifts the bit of each lane to its place and combines the results, which takes several
// times longer. So a word is computed for each lane, with all bits set or none.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "sim/memory/lanes.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Returns the mask of the lanes i for which the highest bit of words[i] is set. `words` has an
// element for each lane, and is aligned to 64 bytes.
inline LaneMask lanes_with_highest_bit(const uint32_t* words) {
    LaneMask lanes = 0;
#if defined(__AVX512DQ__)
    for (int i = 0; i < warp_size; i += 16)
        lanes |= LaneMask(_mm512_movepi32_mask(_mm512_load_si512(words + i))) << i;
#elif defined(__AVX__)
    for (int i = 0; i < warp_size; i += 8) {
        const __m256 some = _mm256_load_ps(reinterpret_cast<const float*>(words + i));
        lanes |= LaneMask(_mm256_movemask_ps(some)) << i;
    }
#elif defined(__SSE2__)
    for (int i = 0; i < warp_size; i += 4) {
        const __m128 some = _mm_load_ps(reinterpret_cast<const float*>(words + i));
        lanes |= LaneMask(_mm_movemask_ps(some)) << i;
    }
#else
    for (int i = 0; i < warp_size; ++i) lanes |= LaneMask(words[i] >> 31) << i;
#endif
    return lanes;
}

// Returns the mask of the lanes i for which test(i) returns true. All 32 lanes are tested.
template <class Test>
inline LaneMask lanes_that(Test&& test) {
    alignas(64) uint32_t words[warp_size];
    for (int i = 0; i < warp_size; ++i) words[i] = test(i) ? ~uint32_t{0} : 0;
    return lanes_with_highest_bit(words);
}

}  // namespace coalesce::sim::COALESCE_ISA
