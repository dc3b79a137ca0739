// Small facts about floating-point formats: denormals to zero, half and bfloat16.
//
// A half (f16: 1 sign, 5 exponent, 10 fraction bits) and a bfloat16 (1, 8, 7) are kept as their 16
// bits. Arithmetic on them is done in a wider format and rounded once: float holds every product
// and sum of two of them exactly enough that the second rounding changes nothing (Figueroa, "When
// is double rounding innocuous?", 1995: p' >= 2p + 2), double does so for fma up to ties it cannot
// see.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/lanes.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Subnormals to zero of the same sign (.ftz).
inline float flush(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    return (b & 0x7f800000u) == 0 ? std::bit_cast<float>(b & 0x80000000u) : x;
}

inline float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16;
    const uint32_t magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00)
        return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
    // A subnormal half is a normal float: scaling by a power of two is exact.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

inline float bfloat_to_float(uint16_t b) { return std::bit_cast<float>(uint32_t{b} << 16); }

// Rounds to nearest, ties to even, in a format with `fraction` bits and the given exponent range.
template <int fraction, int min_exponent, int max_exponent>
inline double round_to_format(double x) {
    if (!(std::abs(x) <= std::numeric_limits<double>::max()) || x == 0) return x;
    int exponent = 0;
    std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
    const int e = exponent - 1 < min_exponent ? min_exponent : exponent - 1;
    const double unit = std::ldexp(1.0, e - fraction);
    const double r = std::nearbyint(x / unit) * unit;
    const double largest = std::ldexp(2.0 - std::ldexp(1.0, -fraction), max_exponent);
    return std::abs(r) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : r;
}

inline uint16_t half_bits(double exact_half) {
    if (std::isnan(exact_half)) return 0x7fff;
    const uint16_t sign = std::signbit(exact_half) ? 0x8000 : 0;
    const double a = std::abs(exact_half);
    if (std::isinf(a)) return sign | 0x7c00;
    if (a < 0x1p-14) return sign | uint16_t(a * 0x1p24);
    const uint64_t b = std::bit_cast<uint64_t>(a);
    return sign | uint16_t(((b >> 52) - 1023 + 15) << 10) | uint16_t(b >> 42 & 0x3ff);
}

inline uint16_t double_to_half(double x) { return half_bits(round_to_format<10, -14, 15>(x)); }

inline uint16_t float_to_half(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    const uint16_t sign = uint16_t(b >> 16 & 0x8000);
    const uint32_t a = b & 0x7fffffff;
    if (a > 0x7f800000) return 0x7fff;
    if (a >= 0x477ff000) return sign | 0x7c00;  // rounds to 2^16 or more
    if (a < 0x38800000) {                       // below 2^-14: adding 1/2 leaves units of 2^-24
        const float shifted = std::bit_cast<float>(a) + 0.5f;
        return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
    }
    return sign | uint16_t((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
}

inline uint16_t float_to_bfloat(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    if ((b & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

inline uint16_t double_to_bfloat(double x) {
    if (std::isnan(x)) return 0x7fff;
    return uint16_t(std::bit_cast<uint32_t>(float(round_to_format<7, -126, 127>(x))) >> 16);
}

struct half_format {
    static float widen(uint16_t h) { return half_to_float(h); }
    static uint16_t narrow(float x) { return float_to_half(x); }
    static uint16_t narrow(double x) { return double_to_half(x); }
};

struct bfloat_format {
    static float widen(uint16_t h) { return bfloat_to_float(h); }
    static uint16_t narrow(float x) { return float_to_bfloat(x); }
    static uint16_t narrow(double x) { return double_to_bfloat(x); }
};

}  // namespace coalesce::sim::COALESCE_ISA
