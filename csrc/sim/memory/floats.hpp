// Helpers for floating-point formats: flushing to zero, the canonical NaN, half and bfloat16.
//
// A half (f16: 1 sign, 5 exponent, 10 fraction bits) and a bfloat16 (1, 8, 7) are stored as 16
// bits. Arithmetic on them uses a wider format and rounds the result once more. So the result is
// rounded twice: to the wider format, and then to 16 bits. For a sum or a product of two such
// numbers, the result is the same as with a single rounding, because float is wide enough. The rule
// is p' >= 2p + 2, where the narrow format has p significant bits and the wide format has p'
// (Figueroa, "When is double rounding innocuous?", 1995). For half, p is 11 and p' is 24.
//
// For two other operations, two roundings could change the result: an fma, which is computed in
// double, and the conversion of a 64-bit integer by way of a double. If a double cannot hold the
// result of such an operation exactly, the result is rounded to odd. This means that, of the two
// neighbouring doubles, the one whose last bit is 1 is taken. A tie is a number exactly in the
// middle between two results of the second rounding. A double that was rounded to odd is a tie only
// if the exact result is one. So the second rounding gives the right result (Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
//
// All functions are free of branches, so that the compiler can vectorize loops over lanes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/memory/lanes.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Rounding modes: .rn (to nearest, ties to even), .rz, .rm, .rp.
enum class Rounding : uint8_t { nearest, zero, down, up };

// Replaces subnormals by zeros with the same sign (.ftz).
inline float flush(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    return (b & 0x7f800000u) == 0 ? std::bit_cast<float>(b & 0x80000000u) : x;
}
inline double flush(double x) {
    const uint64_t b = std::bit_cast<uint64_t>(x);
    return (b & 0x7ff0000000000000u) == 0 ? std::bit_cast<double>(b & 0x8000000000000000u) : x;
}

// Replaces any NaN by 0x7fffffff. A NaN has many possible bit patterns. On a GPU, single-precision
// arithmetic always returns the NaN 0x7fffffff (CUDA Programming Guide, "Floating-Point Standard").
// The host returns other NaNs.
inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }
inline double canonical(double x) { return x; }

// Applies F and returns the canonical NaN for any NaN. `computed` is not used for operations that
// only change a sign.
template <class F>
struct computed {
    template <class... T>
    static auto of(T... a) {
        return canonical(F::of(a...));
    }
};

struct fused_multiply_add {
    static float of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
    static double of(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

// The sine and cosine of an angle in turns (1 is a full circle), as the hardware computes them
// approximately. Whole turns are removed first: a large angle, which has no fraction bits, is 0.
inline double part_of_turn(float a) { return double(a) - std::nearbyint(double(a)); }
struct sine_of_turns {
    static float of(float a) {
        const double sine = std::sin(6.283185307179586 * part_of_turn(a));
        return flush(canonical(float(std::copysign(sine, sine == 0 ? double(a) : sine))));
    }
};
struct cosine_of_turns {
    static float of(float a) {
        return canonical(float(std::cos(6.283185307179586 * part_of_turn(a))));
    }
};

inline float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16;
    const uint32_t magnitude = h & 0x7fff;
    // A subnormal half is a normal number as a float. Scaling by a power of two is exact.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const uint32_t special = 0x7f800000u | (magnitude & 0x3ff) << 13;
    return std::bit_cast<float>(sign |
                                (magnitude >= 0x7c00 ? special : std::bit_cast<uint32_t>(scaled)));
}

inline float bfloat_to_float(uint16_t b) { return std::bit_cast<float>(uint32_t{b} << 16); }

inline uint16_t float_to_half(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    const uint32_t sign = b >> 16 & 0x8000;
    const uint32_t a = b & 0x7fffffff;
    // `small` is the result for values below 2^-14, which become subnormal halves. These are
    // multiples of 2^-24. The lowest bit of a float from 1/2 to 1 is also 2^-24. So adding 1/2
    // rounds the value to a multiple of 2^-24.
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    const uint32_t small = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
    const uint32_t normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
    // Values from 0x477ff000 on round to 2^16 or more, which is infinity.
    const uint32_t magnitude = a < 0x38800000 ? small : a >= 0x477ff000 ? 0x7c00 : normal;
    return uint16_t(a > 0x7f800000 ? 0x7fff : sign | magnitude);
}

inline uint16_t float_to_bfloat(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    return uint16_t((b & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

// Rounds to a format with `fraction` fraction bits. The exponents of its normal numbers are from
// `min_exponent` to `max_exponent`.
template <int fraction, int min_exponent, int max_exponent, Rounding mode = Rounding::nearest>
inline double round_to_format(double x) {
    const uint64_t biased = std::bit_cast<uint64_t>(x) >> 52 & 0x7ff;
    constexpr uint64_t least = uint64_t(min_exponent + 1023);
    // Values with a larger exponent than `most` overflow in any case. The exponent is limited so
    // that the exponents computed from it stay in the range of a double.
    constexpr uint64_t most = uint64_t(max_exponent + 1 + 1023);
    const uint64_t e = biased < least ? least : biased > most ? most : biased;
    // Adding and subtracting 1.5 * 2^(e + 52 - fraction) rounds to multiples of 2^(e - fraction).
    const double magic = std::bit_cast<double>((e + 52 - fraction) << 52 | uint64_t{1} << 51);
    double r = (x + magic) - magic;
    if constexpr (mode != Rounding::nearest) {
        const double unit = std::bit_cast<double>((e - fraction) << 52);
        const bool negative = std::signbit(x);
        const bool shrink = mode == Rounding::zero || (mode == Rounding::down) != negative;
        const double away = negative ? -unit : unit;
        if (shrink && std::abs(r) > std::abs(x)) r -= away;
        if (!shrink && std::abs(r) < std::abs(x)) r += away;
    }
    // The largest number of the format is 2^max_exponent * (2 - 2^-fraction). A value is rounded to
    // infinity if it exceeds this number by half a unit of the last bit, or by more.
    constexpr double top = max_exponent < 64 ? double(uint64_t{1} << max_exponent) : 0x1p127;
    constexpr double unit_of_top = top / double(uint64_t{1} << fraction);
    constexpr double largest = 2 * top - unit_of_top;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double a = std::abs(x);
    if constexpr (mode == Rounding::nearest) {
        r = a >= largest + unit_of_top / 2 ? infinity : r;
    } else {
        const bool outwards = mode != Rounding::zero && (mode == Rounding::down) == std::signbit(x);
        if (a > largest) r = a == infinity || outwards ? infinity : largest;
    }
    r = std::copysign(r, x);
    return x == x ? r : x;
}

// The two 16-bit formats as C++ types. widen() converts from 16 bits to float, and narrow() and
// round() convert to 16 bits.
struct half_format {
    static constexpr uint16_t exponent_bits = 0x7c00;
    static float widen(uint16_t h) { return half_to_float(h); }
    static uint16_t narrow(float x) { return float_to_half(x); }
    static uint16_t narrow(double x) { return round<Rounding::nearest>(x); }
    template <Rounding mode>
    static uint16_t round(double x) {
        return float_to_half(float(round_to_format<10, -14, 15, mode>(x)));
    }
};

struct bfloat_format {
    static constexpr uint16_t exponent_bits = 0x7f80;
    static float widen(uint16_t h) { return bfloat_to_float(h); }
    static uint16_t narrow(float x) { return float_to_bfloat(x); }
    static uint16_t narrow(double x) { return round<Rounding::nearest>(x); }
    template <Rounding mode>
    static uint16_t round(double x) {
        return float_to_bfloat(float(round_to_format<7, -126, 127, mode>(x)));
    }
};

// A format whose subnormals are read and written as zeros (.ftz).
template <class Format>
struct flushed_format {
    static uint16_t flush_bits(uint16_t h) {
        return uint16_t((h & Format::exponent_bits) == 0 ? h & 0x8000 : h);
    }
    static float widen(uint16_t h) { return Format::widen(flush_bits(h)); }
    template <class T>
    static uint16_t narrow(T x) {
        return flush_bits(Format::narrow(x));
    }
};

// Returns a * b + c, rounded to odd. A double must be able to hold the product of a and b exactly.
inline double fma_to_odd(double a, double b, double c) {
    const double product = a * b;
    const double sum = product + c;
    // Knuth's two-sum algorithm computes the rounding error of a sum: `sum` + `error` is exactly
    // product + c.
    const double virtual_c = sum - product;
    const double error = (product - (sum - virtual_c)) + (c - virtual_c);
    const int64_t bits = std::bit_cast<int64_t>(sum);
    // If the sum is not finite, `error` is a NaN, and `inexact` is false.
    const bool inexact = error > 0 || error < 0;
    const int64_t step = (error > 0) == (sum > 0) ? 1 : -1;
    return std::bit_cast<double>(inexact && (bits & 1) == 0 ? bits + step : bits);
}

// Converts an integer to a double, rounded to odd.
template <class T>
inline double integer_to_odd(T x) {
    if constexpr (sizeof(T) < 8) {
        return double(x);
    } else {
        // A double has 53 significant bits. From 2^53 on, an integer may need more. Then its lowest
        // 12 bits are cleared. If any of them was set, the lowest remaining bit is set: this is
        // rounding to odd.
        const bool negative = x < T(0);
        uint64_t a = negative ? 0 - uint64_t(x) : uint64_t(x);
        const uint64_t kept = (a & ~uint64_t{0xfff}) | uint64_t((a & 0xfff) != 0) << 12;
        a = a >> 53 ? kept : a;
        return negative ? -double(a) : double(a);
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
