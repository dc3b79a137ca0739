// cvt: conversions between all types, with rounding, saturation and flushing (PTX ISA, "cvt").
#include <cmath>

#include "sim/floats.hpp"
#include "sim/lanewise.hpp"
#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

enum class Round : uint8_t { none, rn, rz, rm, rp, rna };

// To an integer value in floating point.
template <Round r, class T>
inline T to_integral(T x) {
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

// Floating to integer: out of range clamps, a NaN is 0, or the highest bit alone if either side has
// 64 bits.
template <Round r, class D>
struct float_to_integer {
    template <class S>
    static D of(S x) {
        const S whole = to_integral<r>(x);
        constexpr S top = S(std::numeric_limits<D>::max() / 2 + 1) * S(2);  // 2^n, exact
        constexpr bool wide = sizeof(D) == 8 || sizeof(S) == 8;
        if (whole != whole) return wide ? D(uint64_t{1} << (8 * sizeof(D) - 1)) : D(0);
        if (whole >= top) return std::numeric_limits<D>::max();
        if (whole < S(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
        return D(whole);
    }
};

// The neighbour of a rounded-to-nearest result that the mode asks for; `exact` compares it with
// what was rounded: negative if the result is too small.
template <Round r, class D>
inline D redirect(D nearest, int exact) {
    constexpr D inf = std::numeric_limits<D>::infinity();
    if (exact == 0 || r == Round::rn || r == Round::none) return nearest;
    const bool too_large = exact > 0;
    if (r == Round::rm) return too_large ? std::nextafter(nearest, -inf) : nearest;
    if (r == Round::rp) return too_large ? nearest : std::nextafter(nearest, inf);
    if (nearest > 0) return too_large ? std::nextafter(nearest, D(0)) : nearest;
    return too_large ? nearest : std::nextafter(nearest, D(0));
}

template <Round r, class D>
struct integer_to_float {
    template <class S>
    static D of(S x) {
        const D nearest = D(x);
        if (r == Round::rn || r == Round::none) return nearest;
        const __int128 back = __int128(nearest), exact = x;
        return redirect<r>(nearest, back > exact ? 1 : back < exact ? -1 : 0);
    }
};

template <Round r>
struct double_to_float {
    static float of(double x) {
        const float nearest = canonical(float(x));
        if (r == Round::rn || r == Round::none || x != x) return nearest;
        return redirect<r>(nearest, double(nearest) > x ? 1 : double(nearest) < x ? -1 : 0);
    }
};

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
template <class D>
struct clamp_integer {
    template <class S>
    static D of(S x) {
        const __int128 wide = x;
        constexpr __int128 low = std::numeric_limits<D>::min(),
                           high = std::numeric_limits<D>::max();
        return D(wide < low ? low : wide > high ? high : wide);
    }
};
template <Round r>
struct integral {
    template <class T>
    static T of(T x) {
        return to_integral<r>(x);
    }
};
template <class F>
struct saturated {
    template <class S>
    static auto of(S x) {
        const auto v = F::of(x);
        using D = std::remove_const_t<decltype(v)>;
        return v > D(0) ? (v < D(1) ? v : D(1)) : D(0);
    }
};
template <class F>
struct flushed_source {
    static auto of(float x) { return F::of(flush(x)); }
};
template <class F>
struct flushed_result {
    template <class S>
    static float of(S x) {
        return flush(F::of(x));
    }
};

// What a conversion to a half does to a value before it is rounded.
enum class Clip : uint8_t { none, relu, sat };

constexpr Rounding rounding_of(Round r) {
    return r == Round::rz   ? Rounding::zero
           : r == Round::rm ? Rounding::down
           : r == Round::rp ? Rounding::up
                            : Rounding::nearest;
}

template <class Format, Round r, Clip clip = Clip::none>
struct narrow {
    template <class S>
    static uint16_t of(S x) {
        if (clip == Clip::relu) x = x <= 0 ? S(0) : x;  // of a -0, too
        if (clip == Clip::sat) x = x > 0 ? (x < 1 ? x : S(1)) : S(0);
        if constexpr (rounding_of(r) == Rounding::nearest)
            return Format::narrow(x);
        else
            return Format::template round<rounding_of(r)>(x);
    }
};
template <class Format>
struct widen {
    static float of(uint16_t x) { return Format::widen(x); }
};
// Through float (or double, where float could round twice).
template <class Format, class F>
struct after_widening {
    static auto of(uint16_t x) { return F::of(Format::widen(x)); }
};
template <class Format, Round r, Clip clip = Clip::none>
struct integer_to_half {
    template <class S>
    static uint16_t of(S x) {
        return narrow<Format, r, clip>::of(integer_to_odd(x));
    }
};
// d = {a, b}: the first source is the upper half.
template <class F>
struct packed {
    static uint32_t of(float a, float b) { return uint32_t(F::of(a)) << 16 | F::of(b); }
};
// tf32: 10 fraction bits of a float, ties away from zero (.rna) or to even.
template <bool away>
struct to_tf32 {
    static uint32_t of(float x) {
        const uint32_t b = std::bit_cast<uint32_t>(x);
        if ((b & 0x7f800000) == 0x7f800000) return b;
        return (b + (away ? 0x1000 : 0xfff + (b >> 13 & 1))) & ~0x1fffu;
    }
};

using integer_lanes =
    TypeList<Type::u8, Type::s8, Type::u16, Type::s16, Type::u32, Type::s32, Type::u64, Type::s64>;

bool is_integer(Type t) {
    return with_type<bool>(t, integer_lanes{}, [](auto) { return true; });
}
bool is_float(Type t) { return t == Type::f32 || t == Type::f64; }
bool is_half(Type t) { return t == Type::f16 || t == Type::bf16; }

template <class Pick>
Handler by_round(Round r, Pick pick) {
    switch (r) {
        case Round::rz:
            return pick(std::integral_constant<Round, Round::rz>{});
        case Round::rm:
            return pick(std::integral_constant<Round, Round::rm>{});
        case Round::rp:
            return pick(std::integral_constant<Round, Round::rp>{});
        default:
            return pick(std::integral_constant<Round, Round::rn>{});
    }
}

// The result types of a 64-bit-or-less integer conversion.
template <class Pick>
Handler by_integer(Type t, Pick pick) {
    return with_type<Handler>(t, integer_lanes{}, pick);
}
template <class Pick>
Handler by_float(Type t, Pick pick) {
    return with_type<Handler>(t, floats{}, pick);
}

template <class Format, class S>
Handler from_integer_to_half(Round r, bool sat) {
    if (sat) return &lanewise<integer_to_half<Format, Round::rn, Clip::sat>, uint16_t, S>;
    return by_round(r, [](auto mode) -> Handler {
        return &lanewise<integer_to_half<Format, decltype(mode)::value>, uint16_t, S>;
    });
}

Handler from_integer(Type d, Type s, Round r, bool sat) {
    return by_integer(s, [&](auto source) -> Handler {
        using S = decltype(source);
        if (is_integer(d)) {
            return by_integer(d, [&](auto result) -> Handler {
                using D = decltype(result);
                return sat ? &lanewise<clamp_integer<D>, D, S> : &lanewise<cast<D>, D, S>;
            });
        }
        if (d == Type::f16) return from_integer_to_half<half_format, S>(r, sat);
        if (d == Type::bf16) return from_integer_to_half<bfloat_format, S>(r, sat);
        return by_float(d, [&](auto result) -> Handler {
            using D = decltype(result);
            return by_round(r, [&](auto mode) -> Handler {
                using F = integer_to_float<decltype(mode)::value, D>;
                return sat ? &lanewise<saturated<F>, D, S> : &lanewise<F, D, S>;
            });
        });
    });
}

Handler float_to_integers(Type d, Type s, Round r, bool ftz) {
    return by_integer(d, [&](auto result) -> Handler {
        using D = decltype(result);
        return by_round(r, [&](auto mode) -> Handler {
            using F = float_to_integer<decltype(mode)::value, D>;
            if (s == Type::f64) return &lanewise<F, D, double>;
            if (s == Type::f16) return &lanewise<after_widening<half_format, F>, D, uint16_t>;
            if (s == Type::bf16) return &lanewise<after_widening<bfloat_format, F>, D, uint16_t>;
            return ftz ? &lanewise<flushed_source<F>, D, float> : &lanewise<F, D, float>;
        });
    });
}

Handler float_to_float(Type d, Type s, Round r, bool integral_result, bool ftz, bool sat) {
    if (d == Type::f64 && s == Type::f32) {
        using F = cast<double>;
        if (sat) return &lanewise<saturated<F>, double, float>;
        return ftz ? &lanewise<flushed_source<F>, double, float> : &lanewise<F, double, float>;
    }
    if (d == Type::f32 && s == Type::f64) {
        return by_round(r, [&](auto mode) -> Handler {
            using F = double_to_float<decltype(mode)::value>;
            if (sat) return &lanewise<saturated<F>, float, double>;
            return ftz ? &lanewise<flushed_result<F>, float, double> : &lanewise<F, float, double>;
        });
    }
    return by_float(d, [&](auto value) -> Handler {
        using T = decltype(value);
        if (!integral_result) {
            if constexpr (sizeof(T) == 4) {
                if (ftz)
                    return sat ? &lanewise<saturated<flushed_source<same>>, float, float>
                               : &lanewise<flushed_source<same>, float, float>;
            }
            return sat ? &lanewise<saturated<same>, T, T> : &lanewise<same, T, T>;
        }
        return by_round(r, [&](auto mode) -> Handler {
            using F = integral<decltype(mode)::value>;
            if constexpr (sizeof(T) == 4) {
                if (ftz) return &lanewise<flushed_source<F>, float, float>;
            }
            return sat ? &lanewise<saturated<F>, T, T> : &lanewise<F, T, T>;
        });
    });
}

template <class Format>
Handler to_half(Type s, Round r, bool relu, bool sat) {
    return by_round(r, [&](auto mode) -> Handler {
        constexpr Round R = decltype(mode)::value;
        if (s == Type::f64)
            return relu || sat ? nullptr : &lanewise<narrow<Format, R>, uint16_t, double>;
        return relu  ? &lanewise<narrow<Format, R, Clip::relu>, uint16_t, float>
               : sat ? &lanewise<narrow<Format, R, Clip::sat>, uint16_t, float>
                     : &lanewise<narrow<Format, R>, uint16_t, float>;
    });
}

template <class Format>
Handler to_packed(Round r, bool relu) {
    return by_round(r, [&](auto mode) -> Handler {
        constexpr Round R = decltype(mode)::value;
        return relu ? &lanewise<packed<narrow<Format, R, Clip::relu>>, uint32_t, float, float>
                    : &lanewise<packed<narrow<Format, R>>, uint32_t, float, float>;
    });
}

// Half to half: rounding to an integral value, or no change at all.
template <class Format, Round r>
struct half_integral {
    static uint16_t of(uint16_t x) { return Format::narrow(to_integral<r>(Format::widen(x))); }
};
template <class Format>
struct half_saturated {
    static uint16_t of(uint16_t x) {
        return narrow<Format, Round::rn, Clip::sat>::of(Format::widen(x));
    }
};
template <class From, class To, Round r>
struct half_to_other {
    static uint16_t of(uint16_t x) { return narrow<To, r>::of(From::widen(x)); }
};

template <class Format>
Handler half_to_same(Round r, bool integral_result, bool sat) {
    if (sat && integral_result) return nullptr;
    if (sat) return &lanewise<half_saturated<Format>, uint16_t, uint16_t>;
    if (!integral_result) return &lanewise<same, uint16_t, uint16_t>;
    return by_round(r, [](auto mode) -> Handler {
        return &lanewise<half_integral<Format, decltype(mode)::value>, uint16_t, uint16_t>;
    });
}

template <class From, class To>
Handler half_to_half(Round r, bool sat) {
    if (sat) return nullptr;
    return by_round(r, [](auto mode) -> Handler {
        return &lanewise<half_to_other<From, To, decltype(mode)::value>, uint16_t, uint16_t>;
    });
}

// cvt.pack: two integers clamped to D, the first above the second; narrow pairs go below c.
template <class D>
struct clamped_pair {
    static uint32_t of(int32_t a, int32_t b) {
        using U = std::make_unsigned_t<D>;
        return uint32_t(U(clamp_integer<D>::of(a))) << (8 * sizeof(D)) | U(clamp_integer<D>::of(b));
    }
    static uint32_t of(int32_t a, int32_t b, uint32_t c) { return of(a, b) | c << 16; }
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

Selection select_convert(const ptx::Instruction& in, Modifiers& m) {
    if (in.opcode != "cvt") return {};
    if (m.take("pack")) return select_pack(m);
    Round r = Round::none;
    bool integral_result = false;
    const std::string_view mode =
        m.take_one({"rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rna"});
    if (mode == "rna")
        r = Round::rna;
    else if (!mode.empty()) {
        r = mode[1] == 'n'   ? Round::rn
            : mode[1] == 'z' ? Round::rz
            : mode[1] == 'm' ? Round::rm
                             : Round::rp;
        integral_result = mode.size() == 3;
    }
    const bool relu = m.take("relu"), ftz = m.take("ftz"), sat = m.take("sat");
    if (m.take("tf32")) {
        if (m.take_type() != Type::f32 || relu || (r != Round::rna && r != Round::rn)) return {};
        return selection(r == Round::rna ? &lanewise<to_tf32<true>, uint32_t, float>
                                         : &lanewise<to_tf32<false>, uint32_t, float>,
                         {Type::b32, Type::f32});
    }
    const Type d = m.take_type(), s = m.take_type();

    if (d == Type::f16x2 || d == Type::bf16x2) {
        if (s != Type::f32 || in.operands.size() != 3) return {};
        return selection(
            d == Type::f16x2 ? to_packed<half_format>(r, relu) : to_packed<bfloat_format>(r, relu),
            {d, s, s});
    }
    Handler run = nullptr;
    if (relu && !is_half(d)) return {};
    if (is_integer(s))
        run = from_integer(d, s, r, sat);
    else if (is_integer(d))
        run = float_to_integers(d, s, r, ftz);
    else if (is_float(d) && is_float(s))
        run = float_to_float(d, s, r, integral_result, ftz, sat);
    else if (is_half(d) && is_float(s))
        run = d == Type::f16 ? to_half<half_format>(s, r, relu, sat)
                             : to_half<bfloat_format>(s, r, relu, sat);
    else if (is_float(d) && is_half(s)) {
        const bool half = s == Type::f16;
        if (d == Type::f64)
            run = half ? &lanewise<after_widening<half_format, cast<double>>, double, uint16_t>
                       : &lanewise<after_widening<bfloat_format, cast<double>>, double, uint16_t>;
        else if (sat)
            run = half ? &lanewise<saturated<widen<half_format>>, float, uint16_t>
                       : &lanewise<saturated<widen<bfloat_format>>, float, uint16_t>;
        else
            run = half ? &lanewise<widen<half_format>, float, uint16_t>
                       : &lanewise<widen<bfloat_format>, float, uint16_t>;
    } else if (is_half(d) && is_half(s)) {
        if (d == s)
            run = d == Type::f16 ? half_to_same<half_format>(r, integral_result, sat)
                                 : half_to_same<bfloat_format>(r, integral_result, sat);
        else
            run = d == Type::f16 ? half_to_half<bfloat_format, half_format>(r, sat)
                                 : half_to_half<half_format, bfloat_format>(r, sat);
    }
    return selection(run, {d, s});
}

}  // namespace coalesce::sim::COALESCE_ISA
