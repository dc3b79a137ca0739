// The arithmetic of tensor cores on a tile: d = a b + c with 16 x 8 (or 8 x 8) elements.
//
// METHOD
// Tensor cores add several numbers in one step, and round only at the end:
// 1. The products are computed exactly. The products and the element of c are the terms of the sum.
// 2. The largest exponent of the terms is found. The exponent of a product is the sum of its
//   factors' exponents. Zeros have no exponent. Subnormal factors are not normalized.
// 3. All terms are aligned to the largest exponent. The bits of a term that are more than
//   `fraction_bits` places below the largest exponent are cut off.
// 4. The remaining bits are added exactly, and the sum is rounded: towards zero for a 32-bit
//   result, to nearest for a half. A sum that rounds to zero is +0.
//
// Sources: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021);
// Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores" (2025); Xie, Wang, Yang and Yang,
// "MMA-Sim" (2025). "MMA-Sim" says how many bits each generation of GPUs keeps. The bits of compute
// capability 9.0 and the sign of zeros were also recorded on an H200 (tests/data/mma_h200.npz).
//
// The inner loops go over the rows of a tile. Therefore the rows of a column are adjacent in
// memory: the arrays have the indices [k or column][row].
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/memory/floats.hpp"
#include "sim/program/matrix.hpp"

namespace coalesce::sim::COALESCE_ISA {

inline constexpr int tile_rows = 16, tile_columns = 8;
// The largest number of elements along k, the dimension over which the product sums. Elements of
// one bit are counted in words of 32 elements.
inline constexpr int max_k = 64;

// The widths of the fields of a floating-point format.
struct Fields {
    int exponent, fraction;
    int unused = 0;  // the number of lowest bits that are not used
    // True if the format has infinities. Otherwise its largest exponent is used for numbers.
    bool infinite = true;
    [[nodiscard]] constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
};

constexpr Fields fields_of(Element e) {
    switch (e) {
        case Element::bf16:
            return {8, 7};
        case Element::tf32:
            return {8, 10, 13};
        case Element::f32:
            return {8, 23};
        case Element::e4m3:
            return {4, 3, 0, false};
        case Element::e5m2:
            return {5, 2};
        default:
            return {5, 10};  // the format f16
    }
}

// Numbers, split into sign (0 or -1), significand and exponent. The value is (-1)^sign *
// significand * 2^(exponent - fraction).
template <int rows, int columns>
struct Numbers {
    alignas(64) int32_t sign[columns][rows];
    alignas(64) int32_t significand[columns][rows];
    alignas(64) int32_t exponent[columns][rows];
};

inline constexpr int32_t no_exponent = -10000;  // the exponent of a zero

// Splits numbers into their fields. Returns true if one of them is infinite or a NaN.
template <int rows, int columns>
bool split_numbers(Fields f, const uint32_t (*bits)[rows], int count, Numbers<rows, columns>& out) {
    const int32_t most = (1 << f.exponent) - 1, bias = f.bias();
    const uint32_t fraction = (1u << f.fraction) - 1;
    const uint32_t nan = (1u << (f.exponent + f.fraction)) - 1;
    int32_t special = 0;
    for (int k = 0; k < count; ++k) {
        for (int i = 0; i < rows; ++i) {
            const uint32_t x = bits[k][i] >> f.unused;
            const int32_t e = int32_t(x >> f.fraction) & most;
            const int32_t s = int32_t(x & fraction) | (e != 0 ? 1 << f.fraction : 0);
            out.sign[k][i] = -int32_t(x >> (f.exponent + f.fraction) & 1);
            out.significand[k][i] = s;
            out.exponent[k][i] = s == 0 ? no_exponent : (e != 0 ? e : 1) - bias;
            special |= f.infinite ? e == most : (x & nan) == nan;
        }
    }
    return special != 0;
}

// Returns the value of a number in any of these formats.
inline double value_of(Fields f, uint32_t bits) {
    const uint32_t x = bits >> f.unused;
    const uint32_t fraction = x & ((1u << f.fraction) - 1);
    const int e = int(x >> f.fraction) & ((1 << f.exponent) - 1), most = (1 << f.exponent) - 1;
    const double sign = x >> (f.exponent + f.fraction) & 1 ? -1.0 : 1.0;
    if (f.infinite && e == most)
        return fraction ? std::numeric_limits<double>::quiet_NaN()
                        : sign * std::numeric_limits<double>::infinity();
    if (!f.infinite && e == most && fraction == (1u << f.fraction) - 1)
        return std::numeric_limits<double>::quiet_NaN();
    const uint32_t s = fraction | (e ? 1u << f.fraction : 0);
    return sign * std::ldexp(double(s), (e ? e : 1) - f.bias() - f.fraction);
}

// Rounds a sum to 32 bits, towards zero. A sum that is too large becomes infinite.
inline uint32_t to_float_bits(double v, uint32_t kept) {
    const float f = float(v);
    uint32_t bits = std::bit_cast<uint32_t>(f);
    bits -= std::abs(double(f)) > std::abs(v) ? 1u : 0u;
    const uint32_t sign = bits & 0x80000000u;
    bits = std::abs(v) >= 0x1p128 ? sign | 0x7f800000u : bits & kept;
    return (bits & 0x7fffffffu) == 0 ? 0 : bits;
}

inline uint32_t to_half_bits(double v) {
    const uint32_t bits = half_format::narrow(v);
    return (bits & 0x7fffu) == 0 ? 0 : bits;
}

// The operands and results of one tile. Each entry has the bits of one element, or 32 elements of
// one bit each.
struct Tile {
    alignas(64) uint32_t a[max_k][tile_rows];
    alignas(64) uint32_t b[max_k][tile_columns];
    alignas(64) uint32_t c[tile_columns][tile_rows];
    alignas(64) uint32_t d[tile_columns][tile_rows];
};

// The operands, split into fields. This is a separate struct so that its memory is reused for the
// next tile.
struct SplitOperands {
    Numbers<tile_rows, max_k> a;
    Numbers<tile_columns, max_k> b;
    Numbers<tile_rows, tile_columns> c;
};

// Computes d = c + the products for k from `first` to `last` - 1. c and these products are added in
// one step, as METHOD describes.
inline void add_fused(const Matrices& x, const SplitOperands& n, int first, int last, Tile& t) {
    const Fields fa = fields_of(x.a_type), fb = fields_of(x.b_type), fc = fields_of(x.c_type);
    const int bits = x.fraction_bits;
    const int up = bits - fa.fraction - fb.fraction;
    const int c_up = std::max(0, bits - fc.fraction), c_down = std::max(0, fc.fraction - bits);
    const uint32_t kept = ~0u << (23 - x.result_bits);
    const bool to_half = x.d_type == Element::f16;
    for (int j = 0; j < tile_columns; ++j) {
        alignas(64) int32_t largest[tile_rows];
        alignas(64) int64_t sum[tile_rows];
        for (int i = 0; i < tile_rows; ++i) largest[i] = n.c.exponent[j][i];
        for (int k = first; k < last; ++k) {
            const int32_t eb = n.b.exponent[k][j];
            for (int i = 0; i < tile_rows; ++i)
                largest[i] = std::max(largest[i], n.a.exponent[k][i] + eb);
        }
        for (int i = 0; i < tile_rows; ++i) {
            const int32_t by = std::min(31, largest[i] - n.c.exponent[j][i] + c_down);
            const int32_t term = (n.c.significand[j][i] << c_up) >> by;
            sum[i] = (term ^ n.c.sign[j][i]) - n.c.sign[j][i];
        }
        for (int start = first; start < last; start += 8) {
            // The sum of 8 terms below 2^27 fits in 31 bits.
            alignas(64) int32_t part[tile_rows] = {};
            for (int k = start; k < std::min(last, start + 8); ++k) {
                const int32_t sb = n.b.significand[k][j], eb = n.b.exponent[k][j];
                const int32_t sign_b = n.b.sign[k][j];
                for (int i = 0; i < tile_rows; ++i) {
                    const int32_t by = std::min(31, largest[i] - n.a.exponent[k][i] - eb);
                    const int32_t term = ((n.a.significand[k][i] * sb) << up) >> by;
                    const int32_t sign = n.a.sign[k][i] ^ sign_b;
                    part[i] += (term ^ sign) - sign;
                }
            }
            for (int i = 0; i < tile_rows; ++i) sum[i] += part[i];
        }
        for (int i = 0; i < tile_rows; ++i) {
            const int64_t exponent = std::max(-500, largest[i]) - bits;
            const double v =
                double(sum[i]) * std::bit_cast<double>(uint64_t(exponent + 1023) << 52);
            t.d[j][i] = to_half ? to_half_bits(v) : to_float_bits(v, kept);
        }
    }
}

// Replaces those results that must be infinite or NaN. add_fused() does not compute them.
inline void set_infinities_and_nans(const Matrices& x, int first, int last, Tile& t) {
    const Fields fa = fields_of(x.a_type), fb = fields_of(x.b_type), fc = fields_of(x.c_type);
    const bool to_half = x.d_type == Element::f16;
    for (int j = 0; j < tile_columns; ++j) {
        for (int i = 0; i < tile_rows; ++i) {
            double v = value_of(fc, t.c[j][i]);
            for (int k = first; k < last; ++k)
                v += value_of(fa, t.a[k][i]) * value_of(fb, t.b[k][j]);
            if (v - v == 0) continue;  // the sum is finite
            const uint32_t infinite = to_half ? 0x7c00 : 0x7f800000,
                           nan = to_half ? 0x7fff : 0x7fffffff;
            const uint32_t sign = to_half ? 0x8000 : 0x80000000;
            t.d[j][i] = v != v ? nan : infinite | (v < 0 ? sign : 0);
        }
    }
}

inline void multiply_fused(const Matrices& product, Tile& t) {
    Matrices x = product;
    SplitOperands n;
    const int k = x.k;
    const bool special_a = split_numbers(fields_of(x.a_type), t.a, k, n.a);
    const bool special_b = split_numbers(fields_of(x.b_type), t.b, k, n.b);
    for (int first = 0; first < k; first += x.step) {
        const bool special_c = split_numbers(fields_of(x.c_type), t.c, tile_columns, n.c);
        const int last = std::min<int>(k, first + x.step);
        add_fused(x, n, first, last, t);
        if (special_a || special_b || special_c) set_infinities_and_nans(x, first, last, t);
        if (last == k) break;
        std::copy_n(&t.d[0][0], tile_rows * tile_columns, &t.c[0][0]);
        x.c_type = x.d_type;
    }
}

// Multiplies matrices of fp8 in the same way as GPUs whose tensor cores do not support fp8. For
// these GPUs, ptxas converts a and b to halves, and makes two products. The first product takes the
// first two of every four elements along k. The second product takes the last two of the four, and
// adds its terms to the result of the first product. Then c is added.
inline void multiply_in_halves(const Matrices& product, Tile& t) {
    Matrices x = product;
    const Fields fa = fields_of(x.a_type), fb = fields_of(x.b_type);
    x.a_type = x.b_type = Element::f16;
    x.c_type = x.d_type;
    x.k = x.step = uint8_t(product.k / 2);
    Tile part;
    const auto to_half = [](double v) { return uint32_t(half_format::narrow(v)); };
    for (int half = 0; half < 2; ++half) {
        for (int k = 0; k < x.k; ++k) {
            const int from = k / 2 * 4 + k % 2 + 2 * half;
            for (int i = 0; i < tile_rows; ++i) part.a[k][i] = to_half(value_of(fa, t.a[from][i]));
            for (int j = 0; j < tile_columns; ++j)
                part.b[k][j] = to_half(value_of(fb, t.b[from][j]));
        }
        if (half == 0)
            std::fill_n(&part.c[0][0], tile_rows * tile_columns, 0u);
        else
            std::copy_n(&part.d[0][0], tile_rows * tile_columns, &part.c[0][0]);
        multiply_fused(x, part);
    }
    for (int j = 0; j < tile_columns; ++j) {
        for (int i = 0; i < tile_rows; ++i) {
            const uint32_t s = part.d[j][i], c = t.c[j][i];
            t.d[j][i] = x.d_type == Element::f16
                            ? float_to_half(half_to_float(uint16_t(c)) + half_to_float(uint16_t(s)))
                            : std::bit_cast<uint32_t>(
                                  canonical(std::bit_cast<float>(c) + std::bit_cast<float>(s)));
        }
    }
}

template <Element e>
inline int32_t integer_of(uint32_t bits) {
    if constexpr (e == Element::s8) return int8_t(bits);
    if constexpr (e == Element::s4) return int32_t(bits << 28) >> 28;
    return int32_t(bits);
}

template <Element a, Element b>
void multiply_integers_of(const Matrices& x, Tile& t) {
    for (int j = 0; j < tile_columns; ++j) {
        alignas(64) int32_t sum[tile_rows] = {};
        for (int k = 0; k < x.k; ++k) {
            const int32_t y = integer_of<b>(t.b[k][j]);
            for (int i = 0; i < tile_rows; ++i) sum[i] += integer_of<a>(t.a[k][i]) * y;
        }
        for (int i = 0; i < tile_rows; ++i) {
            const int64_t whole = int64_t{int32_t(t.c[j][i])} + sum[i];
            t.d[j][i] =
                uint32_t(x.saturates ? std::clamp<int64_t>(whole, INT32_MIN, INT32_MAX) : whole);
        }
    }
}

template <Element a>
void multiply_integers_by(const Matrices& x, Tile& t) {
    switch (x.b_type) {
        case Element::s8:
            return multiply_integers_of<a, Element::s8>(x, t);
        case Element::s4:
            return multiply_integers_of<a, Element::s4>(x, t);
        default:
            return multiply_integers_of<a, Element::u8>(x, t);
    }
}

inline void multiply_integers(const Matrices& x, Tile& t) {
    switch (x.a_type) {
        case Element::s8:
            return multiply_integers_by<Element::s8>(x, t);
        case Element::s4:
            return multiply_integers_by<Element::s4>(x, t);
        default:
            return multiply_integers_by<Element::u8>(x, t);
    }
}

// Multiplies matrices of single bits. Each element of a and b is a word of 32 bits.
inline void multiply_bits(const Matrices& x, Tile& t) {
    const bool exclusive = x.arithmetic == Arithmetic::bits_xor;
    for (int j = 0; j < tile_columns; ++j) {
        for (int i = 0; i < tile_rows; ++i) {
            uint32_t sum = t.c[j][i];
            for (int k = 0; k < x.k / 32; ++k) {
                const uint32_t p = t.a[k][i], q = t.b[k][j];
                sum += uint32_t(std::popcount(exclusive ? p ^ q : p & q));
            }
            t.d[j][i] = sum;
        }
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
