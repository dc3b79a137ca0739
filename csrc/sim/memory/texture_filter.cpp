// METHOD
// Integers that are read as fractions: the exact sum of the products is rounded to an integer of 16
// bits. This integer is then divided by the largest such integer.
//
// Floats: the significands of a slice are shifted to the largest exponent of the slice. Four more
// bits than the format's precision are kept, and lower bits are cut off. The sum of the products is
// exact. It is rounded once, to the format of the texels (float16 or float32). Ties are rounded
// away from zero.
#include "sim/memory/texture_filter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/memory/floats.hpp"
#include "sim/memory/texture.hpp"

namespace coalesce::sim {

// Properties of a floating-point format. `nan` has the bits of the NaN that a filter returns.
// Exponents are those of std::frexp().
struct FloatFormat {
    int precision;       // bits of a significand
    int least_exponent;  // the exponent of the smallest normal number
    bool subnormal;      // whether subnormal numbers are used, or count as zero
    double largest;
    uint32_t nan;
};

namespace {

constexpr FloatFormat float16{11, -13, true, 65504, 0x7fffe000};
constexpr FloatFormat float32{24, -125, false, std::numeric_limits<float>::max(), 0x7fffffff};

int exponent_of(double x) {
    int exponent;
    std::frexp(x, &exponent);
    return exponent;
}

// Returns sum * 2^unit, rounded to a format.
float rounded(int64_t sum, int unit, const FloatFormat& format) {
    const auto magnitude = uint64_t(sum < 0 ? -sum : sum);
    const int exponent = std::max(int(std::bit_width(magnitude)) + unit, format.least_exponent);
    const int dropped = exponent - format.precision - unit;  // bits
    const uint64_t kept = dropped <= 0   ? magnitude
                          : dropped > 63 ? 0
                                         : (magnitude + (uint64_t{1} << (dropped - 1))) >> dropped;
    double value = std::ldexp(double(kept), unit + std::max(dropped, 0));
    if (value > format.largest) value = std::numeric_limits<double>::infinity();
    if (!format.subnormal && value < std::ldexp(0.5, format.least_exponent)) value = 0;
    return float(sum < 0 ? -value : value);
}

}  // namespace

uint32_t FilterSum::bits() const {
    if (object_->kind != TexelKind::floating) return std::bit_cast<uint32_t>(sum_of_integers());
    const FloatFormat& format = object_->channel_bits == 16 ? float16 : float32;
    const float sum = sum_of_floats(format);
    return std::isnan(sum) ? format.nan : std::bit_cast<uint32_t>(sum);
}

float FilterSum::sum_of_integers() const {
    int64_t sum = 0;
    for (int s = 0; s < slices_; ++s)
        for (int n = 0; n < slice_[s].count; ++n)
            sum += int64_t{slice_[s].texel[n].stored} * slice_[s].texel[n].weight;
    const bool plus_minus = object_->kind == TexelKind::integer;
    // A sum of 8-bit integers is scaled to 16 bits: by 257, or by about 258 for signed integers.
    int64_t wide;
    if (object_->channel_bits == 16)
        wide = (sum + 128) >> 8;
    else if (plus_minus)
        wide = (sum * 129 + 64 + 16 * (sum >> 12)) >> 7;
    else
        wide = (sum * 257 + 128) >> 8;
    return plus_minus ? float(std::max<int64_t>(wide, -32767)) / 32767 : float(wide) / 65535;
}

float FilterSum::value_of(int32_t stored) const {
    if (object_->channel_bits == 16) return COALESCE_ISA::half_to_float(uint16_t(stored));
    const auto value = std::bit_cast<float>(stored);
    return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value)
                                                                : value;
}

float FilterSum::sum_of_floats(const FloatFormat& format) const {
    constexpr int more = 4;   // bits that are kept below the precision
    constexpr int guard = 3;  // bits that are kept below the last bit of the largest slice
    constexpr int zero_slice = std::numeric_limits<int>::min();
    int64_t sums[4] = {};
    int unit[4], top = zero_slice;
    double special = 0;  // the sum of infinities and NaNs
    bool all_negative_zero = true;
    for (int s = 0; s < slices_; ++s) {
        unit[s] = zero_slice;
        for (int n = 0; n < slice_[s].count; ++n) {
            const float value = value_of(slice_[s].texel[n].stored);
            if (!std::isfinite(value)) special += value;
            all_negative_zero &= value == 0 && std::signbit(value);
            if (value == 0 || !std::isfinite(value)) continue;
            const int exponent = std::max(exponent_of(value), format.least_exponent);
            unit[s] = std::max(unit[s], exponent - format.precision - more);
        }
        if (unit[s] == zero_slice) continue;
        top = std::max(top, unit[s]);
        for (int n = 0; n < slice_[s].count; ++n) {
            const auto [stored, weight] = slice_[s].texel[n];
            const double value = value_of(stored);
            if (std::isfinite(value)) sums[s] += int64_t(std::ldexp(value, -unit[s])) * weight;
        }
    }
    if (special != 0) return float(special);  // also true for NaN
    if (all_negative_zero) return -0.0f;
    if (top == zero_slice) return 0.0f;
    int64_t sum = 0;
    for (int s = 0; s < slices_; ++s)
        if (unit[s] != zero_slice) sum += (sums[s] << guard) >> std::min(top - unit[s], 63);
    return rounded(sum, top - guard - 8, format);  // the weights have 8 bits
}

}  // namespace coalesce::sim
