// cvt between fp8 (e4m3, e5m2) and floats or halves, two at a time (PTX ISA, "cvt").
//
// Every fp8 number is also a half, so the conversion from fp8 is exact. Conversions to fp8 require
// .satfinite: values that are too large become the largest number, and a NaN becomes 0x7f.
#include <cmath>

#include "sim/floats.hpp"
#include "sim/lanewise.hpp"
#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

struct e4m3 {
    static constexpr int fraction = 3, exponent = 4, least = -6;
    static constexpr double largest = 448;
    static double round(double x) { return round_to_format<3, -6, 8>(x); }
    static bool is_nan(uint32_t bits) { return (bits & 0x7f) == 0x7f; }
    static bool is_infinite(uint32_t) { return false; }
};

struct e5m2 {
    static constexpr int fraction = 2, exponent = 5, least = -14;
    static constexpr double largest = 57344;
    static double round(double x) { return round_to_format<2, -14, 15>(x); }
    static bool is_nan(uint32_t bits) { return (bits & 0x7f) > 0x7c; }
    static bool is_infinite(uint32_t bits) { return (bits & 0x7f) == 0x7c; }
};

template <class Format, bool relu>
uint32_t to_fp8(float x) {
    if (x != x) return 0x7f;
    if (relu && x <= 0) return 0;
    const double rounded = std::min(std::abs(Format::round(double(x))), Format::largest);
    const uint32_t sign = std::signbit(x) ? 0x80 : 0;
    const int e = std::max(Format::least, rounded > 0 ? std::ilogb(rounded) : Format::least);
    const auto significand = uint32_t(std::ldexp(rounded, Format::fraction - e));
    return sign | ((uint32_t(e - Format::least) << Format::fraction) + significand);
}

template <class Format, bool relu>
uint32_t to_half(uint32_t bits) {
    if (Format::is_nan(bits)) return 0x7fff;
    const uint32_t sign = bits << 8 & 0x8000;
    if (relu && sign) return 0;
    if (Format::is_infinite(bits)) return sign | 0x7c00;
    const uint32_t fraction = bits & ((1u << Format::fraction) - 1);
    const int e = int(bits >> Format::fraction) & ((1 << Format::exponent) - 1);
    const uint32_t significand = fraction | (e ? 1u << Format::fraction : 0);
    const double x =
        std::ldexp(double(significand), (e ? e - 1 : 0) + Format::least - Format::fraction);
    return sign | half_format::narrow(x);
}

template <class Format, bool relu>
struct from_floats {
    static uint16_t of(float upper, float lower) {
        return uint16_t(to_fp8<Format, relu>(upper) << 8 | to_fp8<Format, relu>(lower));
    }
};
template <class Format, bool relu>
struct from_halves {
    static uint16_t of(uint32_t two) {
        return from_floats<Format, relu>::of(half_to_float(uint16_t(two >> 16)),
                                             half_to_float(uint16_t(two)));
    }
};
template <class Format, bool relu>
struct to_halves {
    static uint32_t of(uint16_t two) {
        return to_half<Format, relu>(two & 0xff) | to_half<Format, relu>(two >> 8) << 16;
    }
};

template <class Format, bool relu>
Selection select_format(Modifiers& m) {
    const bool saturates = m.take("satfinite");
    switch (m.take_type()) {
        case Type::f32:
            if (!saturates) return {};
            return selection(&lanewise<from_floats<Format, relu>, uint16_t, float, float>,
                             {Type::b16, Type::f32, Type::f32});
        case Type::f16x2:
            // select_fp8() has already taken the fp8 type from the list of modifiers. So f16x2 is
            // the type on the other side of the conversion. This is the source type if the result
            // is fp8 (with .satfinite), and the result type otherwise.
            return saturates ? selection(&lanewise<from_halves<Format, relu>, uint16_t, uint32_t>,
                                         {Type::b16, Type::b32})
                             : selection(&lanewise<to_halves<Format, relu>, uint32_t, uint16_t>,
                                         {Type::b32, Type::b16});
        default:
            return {};
    }
}

}  // namespace

Selection select_fp8(const InstructionForm&, Modifiers& m) {
    if (!m.take("rn")) return {};
    const bool relu = m.take("relu");
    if (m.take("e4m3x2"))
        return relu ? select_format<e4m3, true>(m) : select_format<e4m3, false>(m);
    if (m.take("e5m2x2"))
        return relu ? select_format<e5m2, true>(m) : select_format<e5m2, false>(m);
    return {};
}

}  // namespace coalesce::sim::COALESCE_ISA
