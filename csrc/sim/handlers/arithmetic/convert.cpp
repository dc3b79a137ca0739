// Executes cvt: conversions between all types, with rounding, saturation and flushing of subnormals
// (PTX ISA, "cvt").
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sim/handlers/lanewise.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

// METHOD
// A conversion reads a number, rounds it, clips it and writes it. Common conversions have their own
// loops, which the compiler vectorizes. These are conversions between integers of all widths,
// between integers and floats with the usual rounding, between floats, and between halves and
// floats. All other conversions (with directed rounding, .sat, .relu, .ftz, or a rare pair of
// types) are executed by one function, convert(). It converts one lane after another, in the steps
// that ConversionOperand specifies.

// Rounds to an integer value in a floating-point type.
template <class T>
inline T to_integral(Round r, T x) {
    switch (r) {
        case Round::rz:
            return std::trunc(x);
        case Round::rm:
            return std::floor(x);
        case Round::rp:
            return std::ceil(x);
        default:
            return std::nearbyint(x);
    }
}

// Converts a floating-point number to an integer. Values out of range are clamped. If both types
// have at most 32 bits, a NaN becomes 0. If the source or the result has 64 bits, a NaN becomes an
// integer in which only the highest bit is set.
template <class D, class S>
inline D clamp_to_integer(S whole, bool wide_source) {
    // `top` is the largest value of D plus 1. It is a power of two, and therefore exact in S.
    constexpr S top = S(std::numeric_limits<D>::max() / 2 + 1) * S(2);
    const bool wide = sizeof(D) == 8 || wide_source;
    if (whole != whole) return wide ? D(uint64_t{1} << (8 * sizeof(D) - 1)) : D(0);
    if (whole >= top) return std::numeric_limits<D>::max();
    if (whole < S(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    return D(whole);
}

template <Round r, class D>
struct float_to_integer {
    template <class S>
    static D of(S x) {
        return clamp_to_integer<D>(to_integral(r, x), sizeof(S) == 8);
    }
};

// Corrects a result for instructions with a rounding mode other than "to nearest". `nearest` is the
// result rounded to nearest. `exact` is the sign of the error of `nearest`: negative if it is too
// small, positive if it is too large, and 0 if it is exact. Returns `nearest`, or the next smaller
// or larger number.
template <class D>
inline D redirect(Round r, D nearest, int exact) {
    constexpr D inf = std::numeric_limits<D>::infinity();
    if (exact == 0 || r == Round::rn || r == Round::none) return nearest;
    const bool too_large = exact > 0;
    if (r == Round::rm) return too_large ? std::nextafter(nearest, -inf) : nearest;
    if (r == Round::rp) return too_large ? nearest : std::nextafter(nearest, inf);
    if (nearest > 0) return too_large ? std::nextafter(nearest, D(0)) : nearest;
    return too_large ? nearest : std::nextafter(nearest, D(0));
}

struct same {
    template <class T>
    static T of(T x) {
        return x;
    }
};
template <class D>
struct cast {
    template <class S>
    static D of(S x) {
        return D(x);
    }
};
// Converts an integer of 32 bits to a float, with a rounding mode other than "to nearest". The
// machine code of every integer division has such a conversion.
template <Round r>
struct directed {
    template <class S>
    static float of(S x) {
        static_assert(sizeof(S) == 4);
        const float nearest = float(x);
        const double error = double(nearest) - double(x);  // both numbers are exact in double
        const bool too_small = error < 0, too_large = error > 0, negative = x < 0;
        // The bits of a float are a number that grows with the absolute value of the float.
        int32_t step = 0;
        if (r == Round::rp) step = too_small ? (negative ? -1 : 1) : 0;
        if (r == Round::rm) step = too_large ? (negative ? 1 : -1) : 0;
        if (r == Round::rz) step = (negative ? too_small : too_large) ? -1 : 0;
        return std::bit_cast<float>(std::bit_cast<int32_t>(nearest) + step);
    }
};
struct double_to_float {
    static float of(double x) { return float(x); }  // a NaN keeps its sign and its upper bits
};
template <Round r>
struct integral {
    template <class T>
    static T of(T x) {
        return canonical(to_integral(r, x));
    }
};
struct flushed {
    static float of(float x) { return canonical(flush(x)); }
};

constexpr Rounding rounding_of(Round r) {
    return r == Round::rz   ? Rounding::zero
           : r == Round::rm ? Rounding::down
           : r == Round::rp ? Rounding::up
                            : Rounding::nearest;
}

template <class T>
inline T clipped(Clip clip, T x) {
    if (clip == Clip::relu) return x <= 0 ? T(0) : x;  // -0 also becomes +0
    if (clip == Clip::sat) return x > 0 ? (x < 1 ? x : T(1)) : T(0);
    return x;
}

template <class Format>
struct narrow {
    template <class S>
    static uint16_t of(S x) {
        return Format::narrow(x);
    }
};
template <class Format>
struct widen {
    static float of(uint16_t x) { return Format::widen(x); }
};
template <class Format>
struct widen_to_double {
    static double of(uint16_t x) { return Format::widen(x); }
};
// cvt.f16.f16 is HADD2 in machine code, which returns the canonical NaN.
struct same_half {
    static uint16_t of(uint16_t x) { return half_format::narrow(half_format::widen(x)); }
};
// Packs two floats as halves: d = {a, b}. a becomes the upper half.
template <class Format>
struct packed {
    static uint32_t of(float a, float b) {
        return uint32_t(Format::narrow(a)) << 16 | Format::narrow(b);
    }
};

// Converts to a half with any rounding and clipping.
template <class Format>
uint16_t to_half(Round r, Clip clip, double x) {
    x = clipped(clip, x);
    switch (rounding_of(r)) {
        case Rounding::zero:
            return Format::template round<Rounding::zero>(x);
        case Rounding::down:
            return Format::template round<Rounding::down>(x);
        case Rounding::up:
            return Format::template round<Rounding::up>(x);
        default:
            return Format::narrow(x);
    }
}

bool is_integer(Type t) { return t >= Type::u8 && t <= Type::s64; }
using ptx::is_float;
bool is_half(Type t) { return t == Type::f16 || t == Type::bf16; }

template <class T>
inline T read(const std::byte* lanes, int i) {
    T value;
    std::memcpy(&value, lanes + size_t(i) * sizeof(T), sizeof(T));
    return value;
}
template <class T>
inline void write(std::byte* lanes, int i, T value) {
    std::memcpy(lanes + size_t(i) * sizeof(T), &value, sizeof(T));
}

__int128 read_integer(const std::byte* lanes, int i, Type type) {
    __int128 value = 0;
    with_type<bool>(type, integers_of_all_widths{}, [&](auto v) {
        value = read<decltype(v)>(lanes, i);
        return true;
    });
    return value;
}

double read_float(const std::byte* lanes, int i, Type type) {
    switch (type) {
        case Type::f64:
            return read<double>(lanes, i);
        case Type::f16:
            return half_format::widen(read<uint16_t>(lanes, i));
        case Type::bf16:
            return bfloat_format::widen(read<uint16_t>(lanes, i));
        default:
            return read<float>(lanes, i);
    }
}

template <class D>
D integer_to_float(const ConversionOperand& steps, __int128 x) {
    const bool is_signed = ptx::is_signed(steps.from);
    const D nearest = is_signed ? D(int64_t(x)) : D(uint64_t(x));
    const __int128 back = __int128(nearest);
    return clipped(steps.clip, redirect(steps.round, nearest, back > x ? 1 : back < x ? -1 : 0));
}

void convert_integer(const ConversionOperand& steps, const std::byte* from, std::byte* to, int i) {
    const __int128 x = read_integer(from, i, steps.from);
    const auto as_double = [&] {
        return ptx::is_signed(steps.from) ? integer_to_odd(int64_t(x))
                                          : integer_to_odd(uint64_t(x));
    };
    switch (steps.to) {
        case Type::f16:
            return write(to, i, to_half<half_format>(steps.round, steps.clip, as_double()));
        case Type::bf16:
            return write(to, i, to_half<bfloat_format>(steps.round, steps.clip, as_double()));
        case Type::f32:
            return write(to, i, integer_to_float<float>(steps, x));
        case Type::f64:
            return write(to, i, integer_to_float<double>(steps, x));
        default:
            break;
    }
    with_type<bool>(steps.to, integers_of_all_widths{}, [&](auto v) {
        using D = decltype(v);
        constexpr __int128 low = std::numeric_limits<D>::min(),
                           high = std::numeric_limits<D>::max();
        write(to, i, D(x < low ? low : x > high ? high : x));
        return true;
    });
}

void convert_float(const ConversionOperand& steps, const std::byte* from, std::byte* to, int i) {
    double x = read_float(from, i, steps.from);
    if (steps.ftz && steps.from == Type::f32) x = canonical(flush(float(x)));
    if (steps.integral || is_integer(steps.to)) x = to_integral(steps.round, x);
    if (steps.integral && steps.from == Type::f32) x = canonical(float(x));
    switch (steps.to) {
        case Type::f64:
            return write(to, i, clipped(steps.clip, x));
        case Type::f16:
            return write(to, i, to_half<half_format>(steps.round, steps.clip, x));
        case Type::bf16:
            return write(to, i, to_half<bfloat_format>(steps.round, steps.clip, x));
        case Type::f32: {
            if (steps.from != Type::f64) return write(to, i, clipped(steps.clip, float(x)));
            const float nearest = canonical(float(x));
            const int exact = double(nearest) > x ? 1 : double(nearest) < x ? -1 : 0;
            const float rounded = x != x ? nearest : redirect(steps.round, nearest, exact);
            return write(to, i, clipped(steps.clip, steps.ftz ? flush(rounded) : rounded));
        }
        default:
            break;
    }
    with_type<bool>(steps.to, integers_of_all_widths{}, [&](auto v) {
        write(to, i, clamp_to_integer<decltype(v)>(x, steps.from == Type::f64));
        return true;
    });
}

// Executes any conversion, lane by lane.
void convert(Warp& w, const Op& op) {
    const ConversionOperand steps = op.get<ConversionOperand>();
    const std::byte* from = w.lanes<const std::byte>(op.operand[1]);
    std::byte* to = w.lanes<std::byte>(op.operand[0]);
    const bool integer = is_integer(steps.from);
    for_each_lane(w.mask, [&](int i) {
        integer ? convert_integer(steps, from, to, i) : convert_float(steps, from, to, i);
    });
}

// Converts two floats to a packed pair of halves.
template <class Format>
void convert_pair(Warp& w, const Op& op) {
    const ConversionOperand steps = op.get<ConversionOperand>();
    const float* a = w.lanes<const float>(op.operand[1]);
    const float* b = w.lanes<const float>(op.operand[2]);
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    for_each_lane(w.mask, [&](int i) {
        const uint32_t upper = to_half<Format>(steps.round, steps.clip, a[i]);
        d[i] = upper << 16 | to_half<Format>(steps.round, steps.clip, b[i]);
    });
}

// Returns the loop for a common conversion, or null.
Handler common_conversion(const ConversionOperand& steps) {
    const Type d = steps.to, s = steps.from;
    if (steps.clip != Clip::none) return nullptr;
    const Round r = steps.round == Round::none ? Round::rn : steps.round;
    if (is_integer(s)) {
        if (is_integer(d)) return select_resize(s, ptx::size_of(d));
        if (d == Type::f32 && (s == Type::u32 || s == Type::s32)) {
            const bool is_signed = s == Type::s32;
            if (r == Round::rp)
                return is_signed ? &lanewise<directed<Round::rp>, float, int32_t>
                                 : &lanewise<directed<Round::rp>, float, uint32_t>;
            if (r == Round::rm)
                return is_signed ? &lanewise<directed<Round::rm>, float, int32_t>
                                 : &lanewise<directed<Round::rm>, float, uint32_t>;
            if (r == Round::rz)
                return is_signed ? &lanewise<directed<Round::rz>, float, int32_t>
                                 : &lanewise<directed<Round::rz>, float, uint32_t>;
        }
        if (!is_float(d) || r != Round::rn) return nullptr;
        return with_type<Handler>(s, integers_of_all_widths{}, [&](auto v) -> Handler {
            using S = decltype(v);
            return d == Type::f64 ? &lanewise<cast<double>, double, S>
                                  : &lanewise<cast<float>, float, S>;
        });
    }
    if (is_integer(d)) {
        if (s == Type::f32 && d == Type::s32 && !steps.ftz) {
            if (r == Round::rn) return &lanewise<float_to_integer<Round::rn, int>, int, float>;
            if (r == Round::rm) return &lanewise<float_to_integer<Round::rm, int>, int, float>;
            if (r == Round::rp) return &lanewise<float_to_integer<Round::rp, int>, int, float>;
        }
        if (!is_float(s) || r != Round::rz)
            return nullptr;  // the result of rounding towards zero does not depend on .ftz
        return with_type<Handler>(d, integers_of_all_widths{}, [&](auto v) -> Handler {
            using D = decltype(v);
            using F = float_to_integer<Round::rz, D>;
            return s == Type::f64 ? &lanewise<F, D, double> : &lanewise<F, D, float>;
        });
    }
    if (steps.integral) {
        if (d != s || !is_float(d) || steps.ftz) return nullptr;
        return with_type<Handler>(d, floats{}, [&](auto v) -> Handler {
            using T = decltype(v);
            return r == Round::rz   ? &lanewise<integral<Round::rz>, T, T>
                   : r == Round::rm ? &lanewise<integral<Round::rm>, T, T>
                   : r == Round::rp ? &lanewise<integral<Round::rp>, T, T>
                                    : &lanewise<integral<Round::rn>, T, T>;
        });
    }
    if (d == s) {
        return d == Type::f64   ? &lanewise<same, uint64_t, uint64_t>
               : d == Type::f16 ? &lanewise<same_half, uint16_t, uint16_t>
               : d != Type::f32 ? &lanewise<same, uint16_t, uint16_t>
               : steps.ftz      ? &lanewise<flushed, float, float>
                                : &lanewise<same, uint32_t, uint32_t>;
    }
    if (s == Type::f16 && d == Type::f32) return &lanewise<widen<half_format>, float, uint16_t>;
    if (s == Type::bf16 && d == Type::f32) return &lanewise<widen<bfloat_format>, float, uint16_t>;
    if (steps.ftz || r != Round::rn) return nullptr;
    if (s == Type::f16 && d == Type::f64)
        return &lanewise<widen_to_double<half_format>, double, uint16_t>;
    if (s == Type::bf16 && d == Type::f64)
        return &lanewise<widen_to_double<bfloat_format>, double, uint16_t>;
    if (s == Type::f32 && d == Type::f64) return &lanewise<cast<double>, double, float>;
    if (s == Type::f64 && d == Type::f32) return &lanewise<double_to_float, float, double>;
    if (s == Type::f32 && d == Type::f16) return &lanewise<narrow<half_format>, uint16_t, float>;
    if (s == Type::f32 && d == Type::bf16) return &lanewise<narrow<bfloat_format>, uint16_t, float>;
    return nullptr;
}

// Returns true if PTX has this conversion. Other conversions are refused.
bool exists(const ConversionOperand& steps) {
    const Type d = steps.to, s = steps.from;
    const auto known = [](Type t) { return is_integer(t) || is_float(t) || is_half(t); };
    if (!known(d) || !known(s)) return false;
    if (steps.clip == Clip::relu && (!is_half(d) || s != Type::f32)) return false;
    if (steps.clip == Clip::sat) {
        if (is_half(d) && is_half(s) && d != s) return false;
        if (d == Type::bf16 && (s == Type::f64 || is_half(s))) return false;
    }
    return true;
}

// Converts a float to tf32, which has 10 fraction bits. Ties are rounded away from zero (.rna) or
// to even (.rn). A NaN becomes 0x7fffe000. With .rna, it only loses its lower bits, as in the
// instructions that the assembler makes of .rna.
template <Round mode, bool relu>
struct to_tf32 {
    static uint32_t of(float x) {
        if (relu && x <= 0) return 0;
        const uint32_t b = std::bit_cast<uint32_t>(x);
        const bool special = (b & 0x7f800000) == 0x7f800000;
        if (special && mode != Round::rna) return x == x ? b : 0x7fffe000;
        const uint32_t up = special || mode == Round::rz ? 0
                            : mode == Round::rna         ? 0x1000
                                                         : 0xfff + (b >> 13 & 1);
        return (b + up) & ~0x1fffu;
    }
};
template <Round mode>
constexpr Handler tf32(bool relu) {
    return relu ? &lanewise<to_tf32<mode, true>, uint32_t, float>
                : &lanewise<to_tf32<mode, false>, uint32_t, float>;
}

// cvt.pack clamps two integers, a and b, to type D and packs them. The first integer becomes the
// upper one. The packed pair may have fewer than 32 bits. It is then the lower part of the result,
// and operand c provides the upper bits.
template <class D>
struct clamped_pair {
    static uint32_t of(int32_t a, int32_t b) {
        using U = std::make_unsigned_t<D>;
        return uint32_t(U(clamped(a))) << (8 * sizeof(D)) | U(clamped(b));
    }
    static uint32_t of(int32_t a, int32_t b, uint32_t c) { return of(a, b) | c << 16; }
    static D clamped(int32_t x) {
        return D(
            std::clamp<int32_t>(x, std::numeric_limits<D>::min(), std::numeric_limits<D>::max()));
    }
};

Selection select_pack(Modifiers& m) {
    if (!m.take("sat")) return {};
    const Type d = m.take_type();
    if (m.take_type() != Type::s32) return {};
    const Type c = m.take_type();
    if (c == Type::none) {
        return selection(d == Type::u16   ? &lanewise<clamped_pair<uint16_t>, uint32_t, int, int>
                         : d == Type::s16 ? &lanewise<clamped_pair<int16_t>, uint32_t, int, int>
                                          : nullptr,
                         {Type::b32, Type::s32, Type::s32});
    }
    return selection(d == Type::u8 ? &lanewise<clamped_pair<uint8_t>, uint32_t, int, int, uint32_t>
                     : d == Type::s8 ? &lanewise<clamped_pair<int8_t>, uint32_t, int, int, uint32_t>
                                     : nullptr,
                     {Type::b32, Type::s32, Type::s32, Type::b32});
}

}  // namespace

Selection select_convert(const InstructionForm& in, Modifiers& m) {
    if (m.take("pack")) return select_pack(m);
    for (const Modifier format : {Modifier("e4m3x2"), Modifier("e5m2x2"), Modifier("e2m3x2"),
                                  Modifier("e3m2x2"), Modifier("e2m1x2")}) {
        if (m.has(format)) return select_small_float(in, m);
    }
    Round r = Round::none;
    const Modifier mode = m.take_one({"rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rna"});
    if (mode == "rna") r = Round::rna;
    if (mode == "rn" || mode == "rni") r = Round::rn;
    if (mode == "rz" || mode == "rzi") r = Round::rz;
    if (mode == "rm" || mode == "rmi") r = Round::rm;
    if (mode == "rp" || mode == "rpi") r = Round::rp;
    const bool integral_result = mode == "rni" || mode == "rzi" || mode == "rmi" || mode == "rpi";
    const bool relu = m.take("relu"), ftz = m.take("ftz"), sat = m.take("sat");
    if (m.take("tf32")) {
        if (m.take_type() != Type::f32 || ftz || sat) return {};
        const Handler run = r == Round::rn             ? tf32<Round::rn>(relu)
                            : r == Round::rz           ? tf32<Round::rz>(relu)
                            : r == Round::rna && !relu ? tf32<Round::rna>(false)
                                                       : nullptr;
        return selection(run, {Type::b32, Type::f32});
    }
    const Type d = m.take_type(), s = m.take_type();

    const Clip clip = relu ? Clip::relu : sat ? Clip::sat : Clip::none;
    const ConversionOperand steps{d, s, r, clip, integral_result, ftz};
    if (d == Type::f16x2 || d == Type::bf16x2) {
        if (s != Type::f32 || in.operands.size() != 3 || sat) return {};
        const bool half = d == Type::f16x2, common = !relu && rounding_of(r) == Rounding::nearest;
        Selection pair =
            selection(common ? (half ? &lanewise<packed<half_format>, uint32_t, float, float>
                                     : &lanewise<packed<bfloat_format>, uint32_t, float, float>)
                             : (half ? &convert_pair<half_format> : &convert_pair<bfloat_format>),
                      {d, s, s});
        pair.payload = steps;
        return pair;
    }
    if (!exists(steps)) return {};
    const Handler common = common_conversion(steps);
    Selection one = selection(common ? common : &convert, {d, s});
    one.payload = steps;
    return one;
}

}  // namespace coalesce::sim::COALESCE_ISA
