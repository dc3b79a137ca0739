// cvt between floats or halves and pairs of fp8 (e4m3, e5m2), fp6 (e2m3, e3m2) or fp4 (e2m1)
// numbers (PTX ISA, "cvt").
//
// Every such number is also a half and a bfloat16, so conversions from these formats are exact.
// Conversions to them require .satfinite: values that are too large become the largest number. A
// NaN becomes 0x7f for fp8, and the largest number for fp6 and fp4, which have no NaN.
#include <cmath>
#include <type_traits>

#include "sim/handlers/lanewise.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

// A format with a sign, `exponent_bits` and `fraction_bits`. Normal numbers have exponents from
// `least_exponent` to `greatest_exponent`.
template <int exponent_bits, int fraction_bits, int least_exponent, int greatest_exponent>
struct SmallFormat {
    static constexpr int exponent = exponent_bits, fraction = fraction_bits, least = least_exponent;
    static constexpr int bits = 1 + exponent + fraction;
    static constexpr uint32_t sign = 1u << (bits - 1), mask = 2 * sign - 1;
    // The distance of the two numbers of a pair. Numbers of 6 bits are stored in bytes.
    static constexpr int distance = bits > 4 ? 8 : 4;
    static constexpr Type pair = bits > 4 ? Type::b16 : Type::b8;
    using Pair = std::conditional_t<(bits > 4), uint16_t, uint8_t>;
    template <Rounding mode>
    static double round(double x) {
        return round_to_format<fraction, least, greatest_exponent, mode>(x);
    }
    static bool is_nan(uint32_t) { return false; }
    static bool is_infinite(uint32_t) { return false; }
};

struct e4m3 : SmallFormat<4, 3, -6, 8> {
    static constexpr double largest = 448;
    static constexpr uint32_t of_nan = 0x7f;
    static bool is_nan(uint32_t bits) { return (bits & 0x7f) == 0x7f; }
};
struct e5m2 : SmallFormat<5, 2, -14, 15> {
    static constexpr double largest = 57344;
    static constexpr uint32_t of_nan = 0x7f;
    static bool is_nan(uint32_t bits) { return (bits & 0x7f) > 0x7c; }
    static bool is_infinite(uint32_t bits) { return (bits & 0x7f) == 0x7c; }
};
struct e2m3 : SmallFormat<2, 3, 0, 2> {
    static constexpr double largest = 7.5;
    static constexpr uint32_t of_nan = 0x1f;
};
struct e3m2 : SmallFormat<3, 2, -2, 4> {
    static constexpr double largest = 28;
    static constexpr uint32_t of_nan = 0x1f;
};
struct e2m1 : SmallFormat<2, 1, 0, 2> {
    static constexpr double largest = 6;
    static constexpr uint32_t of_nan = 0x7;
};

template <class Format, bool relu, Rounding mode>
uint32_t to_small(float x) {
    if (x != x) return Format::of_nan;
    if (relu && x <= 0) return 0;
    const double rounded =
        std::min(std::abs(Format::template round<mode>(double(x))), Format::largest);
    const uint32_t sign = std::signbit(x) ? Format::sign : 0;
    const int e = std::max(Format::least, rounded > 0 ? std::ilogb(rounded) : Format::least);
    const auto significand = uint32_t(std::ldexp(rounded, Format::fraction - e));
    return sign | ((uint32_t(e - Format::least) << Format::fraction) + significand);
}

// Converts to a half or to a bfloat16. `Wide` is half_format or bfloat_format.
template <class Format, class Wide, bool relu>
uint32_t to_wide(uint32_t bits) {
    if (Format::is_nan(bits)) return 0x7fff;
    const uint32_t sign = bits & Format::sign ? 0x8000 : 0;
    if (relu && sign) return 0;
    if (Format::is_infinite(bits)) return sign | Wide::exponent_bits;
    const uint32_t fraction = bits & ((1u << Format::fraction) - 1);
    const int e = int(bits >> Format::fraction) & ((1 << Format::exponent) - 1);
    const uint32_t significand = fraction | (e ? 1u << Format::fraction : 0);
    const double x =
        std::ldexp(double(significand), (e ? e - 1 : 0) + Format::least - Format::fraction);
    return sign | Wide::narrow(x);
}

template <class Format, bool relu, Rounding mode>
struct from_floats {
    static typename Format::Pair of(float upper, float lower) {
        return typename Format::Pair(to_small<Format, relu, mode>(upper) << Format::distance |
                                     to_small<Format, relu, mode>(lower));
    }
};
template <class Format, class Wide, bool relu, Rounding mode>
struct from_wide_pair {
    static typename Format::Pair of(uint32_t two) {
        return from_floats<Format, relu, mode>::of(Wide::widen(uint16_t(two >> 16)),
                                                   Wide::widen(uint16_t(two)));
    }
};
template <class Format, class Wide, bool relu>
struct to_wide_pair {
    static uint32_t of(typename Format::Pair two) {
        return to_wide<Format, Wide, relu>(two & Format::mask) |
               to_wide<Format, Wide, relu>(two >> Format::distance & Format::mask) << 16;
    }
};

// The modifiers without the small format, the rounding mode and .relu.
template <class Format, bool relu, Rounding mode>
Selection select_narrowing(Modifiers& m) {
    switch (m.take_type()) {
        case Type::f32:
            return selection(
                &lanewise<from_floats<Format, relu, mode>, typename Format::Pair, float, float>,
                {Format::pair, Type::f32, Type::f32});
        case Type::f16x2:
            return selection(&lanewise<from_wide_pair<Format, half_format, relu, mode>,
                                       typename Format::Pair, uint32_t>,
                             {Format::pair, Type::b32});
        case Type::bf16x2:
            return selection(&lanewise<from_wide_pair<Format, bfloat_format, relu, mode>,
                                       typename Format::Pair, uint32_t>,
                             {Format::pair, Type::b32});
        default:
            return {};
    }
}

template <class Format, bool relu>
Selection select_widening(Modifiers& m) {
    switch (m.take_type()) {
        case Type::f16x2:
            return selection(
                &lanewise<to_wide_pair<Format, half_format, relu>, uint32_t, typename Format::Pair>,
                {Type::b32, Format::pair});
        case Type::bf16x2:
            return selection(&lanewise<to_wide_pair<Format, bfloat_format, relu>, uint32_t,
                                       typename Format::Pair>,
                             {Type::b32, Format::pair});
        default:
            return {};
    }
}

template <class Format, bool relu>
Selection select_format(Modifiers& m) {
    const bool narrows = m.take("satfinite"), nearest = m.take("rn");
    if (narrows && nearest) return select_narrowing<Format, relu, Rounding::nearest>(m);
    // fp8 has no .rz.
    if constexpr (Format::bits < 8) {
        if (narrows && m.take("rz")) return select_narrowing<Format, relu, Rounding::zero>(m);
    }
    return nearest ? select_widening<Format, relu>(m) : Selection{};
}

template <class Format>
Selection select_format(Modifiers& m) {
    return m.take("relu") ? select_format<Format, true>(m) : select_format<Format, false>(m);
}

}  // namespace

Selection select_small_float(const InstructionForm&, Modifiers& m) {
    if (m.take("e4m3x2")) return select_format<e4m3>(m);
    if (m.take("e5m2x2")) return select_format<e5m2>(m);
    if (m.take("e2m3x2")) return select_format<e2m3>(m);
    if (m.take("e3m2x2")) return select_format<e3m2>(m);
    if (m.take("e2m1x2")) return select_format<e2m1>(m);
    return {};
}

}  // namespace coalesce::sim::COALESCE_ISA
