// Single and double precision arithmetic, rounded to nearest (PTX ISA, "Floating-Point
// Instructions").
//
// Approximate functions are computed at least as accurately as on the hardware. The C library
// computes them in float, with errors of at most 1 ulp. If a correctly rounded result takes no more
// time to compute, it is used instead.
#include <cmath>

#include "sim/handlers/lane_tests.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/predicates.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

struct add {
    template <class T>
    static T of(T a, T b) {
        return a + b;
    }
};
struct sub {
    template <class T>
    static T of(T a, T b) {
        return a - b;
    }
};
struct mul {
    template <class T>
    static T of(T a, T b) {
        return a * b;
    }
};
struct divide {
    template <class T>
    static T of(T a, T b) {
        return a / b;
    }
};
struct absolute {
    template <class T>
    static T of(T a) {
        return std::abs(a);
    }
};
struct negate {
    template <class T>
    static T of(T a) {
        return -a;
    }
};
struct reciprocal {
    template <class T>
    static T of(T a) {
        return T(1) / a;
    }
};
struct square_root {
    static float of(float a) { return __builtin_sqrtf(a); }
    static double of(double a) { return __builtin_sqrt(a); }
};
// Approximate functions. The assembler translates an approximate function of PTX, such as div.full,
// into several machine instructions. When the simulator runs PTX, it executes the same steps as
// these instructions. So PTX and machine code give the same results.
//
// MUFU.RCP, the reciprocal of the hardware, flushes subnormals to zero.
float hardware_reciprocal(float a) { return flush(1.0f / flush(a)); }
// Returns the factor by which a number is scaled before hardware_reciprocal() is called.
float scale_of_small(float a) { return std::abs(a) < 0x1p-126f ? 0x1p24f : 1.0f; }
float scale_of_large(float a) { return std::abs(a) > 0x1p126f ? 0.25f : 1.0f; }
// div.approx
struct quick_quotient {
    static float of(float a, float b) {
        const float scale = scale_of_small(b);
        return (a * scale) * hardware_reciprocal(b * scale);
    }
};
// div.full and div.full.ftz
struct full_quotient {
    static float of(float a, float b) {
        const float scale = scale_of_small(b) * scale_of_large(b);
        return (a * scale) * hardware_reciprocal(b * scale);
    }
};
struct full_quotient_ftz {
    static float of(float a, float b) {
        const float scale = scale_of_large(b);
        return flush(a * scale) * hardware_reciprocal(b * scale);
    }
};
// rcp.approx
struct quick_reciprocal {
    static float of(float a) {
        const float scale = scale_of_small(a) * scale_of_large(a);
        return hardware_reciprocal(a * scale) * scale;
    }
};
// The following approximate functions have only the upper word of a double as their operand and
// result (MUFU.RCP64H, MUFU.RSQ64H). upper_word() sets the lower word of a double to zero.
double upper_word(double a) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(a) & 0xffffffff00000000u);
}
struct upper_reciprocal {
    static double of(double a) { return upper_word(1.0 / upper_word(a)); }
};
struct upper_reciprocal_root {
    static double of(double a) { return upper_word(1.0 / __builtin_sqrt(upper_word(a))); }
};
struct reciprocal_root {
    static float of(float a) { return float(1.0 / __builtin_sqrt(double(a))); }
    // For double: one iteration of Halley's method, starting from upper_reciprocal_root.
    static double of(double a) {
        const bool ordinary = a >= 0x1p-1022 && a <= std::numeric_limits<double>::max();
        const bool small = a > 0 && a < 0x1p-1022;
        const double x = small ? a * 0x1p54 : a;
        const double y = upper_reciprocal_root::of(flush(x));
        const double error = __builtin_fma(x, -(y * y), 1.0);
        const double root = __builtin_fma(__builtin_fma(error, 0.375, 0.5), y * error, y);
        return ordinary ? root : small ? root * 0x1p27 : 1.0 / __builtin_sqrt(a);
    }
};
// turns() is the first step of the sine and the cosine. It converts an angle in radians to turns:
// it multiplies by 1 / (2 pi) and rounds towards zero.
float turns(float a) {
    const double product = double(a) * double(0.15915494f);
    const float nearest = float(product);
    return std::abs(nearest) > std::abs(product) ? std::nextafterf(nearest, 0.0f) : nearest;
}
struct sine {
    static float of(float a) { return sine_of_turns::of(turns(a)); }
};
struct cosine {
    static float of(float a) { return cosine_of_turns::of(turns(a)); }
};
struct log_2 {
    static float of(float a) {
        const bool small = std::abs(a) < 0x1p-126f;
        const float logarithm = std::log2(small ? a * 0x1p24f : a);
        return small ? logarithm - 24 : logarithm;
    }
};
// For ex2.approx without .ftz, the assembler computes a subnormal power as the square of a normal
// number. The result is not always the nearest number.
struct exp_2 {
    static float of(float a) {
        const bool small = a < -126;
        const float power = std::exp2(small ? a * 0.5f : a);
        return small ? power * power : power;
    }
};
struct hyperbolic_tangent {
    static float of(float a) { return std::tanh(a); }
};
// Returns the magnitude of b with the sign of a, which is the order of operands in PTX.
struct copy_sign {
    template <class T>
    static T of(T a, T b) {
        return std::copysign(b, a);
    }
};

// If one operand is a NaN, the result is the other operand. -0 is less than +0.
struct minimum {
    template <class T>
    static T of(T a, T b) {
        const T ordered = a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
        return a != a ? b : b != b ? a : ordered;
    }
};
struct maximum {
    template <class T>
    static T of(T a, T b) {
        const T ordered = a == b ? (std::signbit(a) ? b : a) : (a < b ? b : a);
        return a != a ? b : b != b ? a : ordered;
    }
};
// min.NaN and max.NaN: the result is a NaN if either operand is.
template <class F>
struct nan_propagates {
    template <class T>
    static T of(T a, T b) {
        return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : F::of(a, b);
    }
};
template <class F>
struct xorsign_abs {
    template <class T>
    static T of(T a, T b) {
        const T m = F::of(std::abs(a), std::abs(b));
        return std::signbit(a) != std::signbit(b) ? -std::abs(m) : std::abs(m);
    }
};
template <class F>
struct of_three {
    template <class T>
    static T of(T a, T b, T c) {
        return F::of(F::of(a, b), c);
    }
};
// Clamps to [0, 1]. A NaN becomes 0.
template <class F>
struct saturated {
    template <class... T>
    static auto of(T... a) {
        const auto r = F::of(a...);
        using R = decltype(r);
        return r > R(0) ? (r < R(1) ? r : R(1)) : R(0);
    }
};
template <class F>
struct flushed {
    template <class T, class... More>
    static T of(T a, More... more) {
        return flush(F::of(flush(a), flush(more)...));
    }
};
struct finite {
    template <class T>
    static bool of(T a) {
        return std::abs(a) <= std::numeric_limits<T>::max();
    }
};
struct infinite {
    template <class T>
    static bool of(T a) {
        return std::abs(a) == std::numeric_limits<T>::infinity();
    }
};
struct number {
    template <class T>
    static bool of(T a) {
        return a == a;
    }
};
struct not_a_number {
    template <class T>
    static bool of(T a) {
        return a != a;
    }
};
// testp.normal also counts zeros as normal numbers.
struct normal {
    template <class T>
    static bool of(T a) {
        return finite::of(a) && (a == 0 || std::abs(a) >= std::numeric_limits<T>::min());
    }
};
struct subnormal {
    template <class T>
    static bool of(T a) {
        return a != 0 && std::abs(a) < std::numeric_limits<T>::min();
    }
};

template <class F, class T>
void test(Warp& w, const Op& op) {
    const T* a = w.lanes<const T>(op.operand[1]);
    store(w, op.operand[0], lanes_that([=](int i) { return F::of(a[i]); }));
}

using single = TypeList<Type::f32>;

template <class F, int N>
Selection arithmetic(Type type, bool ftz, bool sat = false) {
    if (ftz && sat) return select<flushed<saturated<F>>, N>(type, single{});
    if (ftz) return select<flushed<computed<F>>, N>(type, single{});
    return sat ? select<saturated<F>, N>(type, single{}) : select<computed<F>, N>(type, floats{});
}

// abs and neg. The assembler translates them into FADD or DADD. If a is a NaN, FADD returns the
// canonical NaN, and DADD returns the NaN with its sign, as a quiet NaN (recorded on an H200).
template <class F>
struct changed_sign {
    static float of(float a) { return canonical(F::of(a)); }
    static double of(double a) {
        if (a == a) return F::of(a);
        return std::bit_cast<double>(std::bit_cast<uint64_t>(a) | uint64_t{1} << 51);
    }
};
template <class F>
Selection sign(Type type, bool ftz) {
    return ftz ? select<flushed<changed_sign<F>>, 1>(type, single{})
               : select<changed_sign<F>, 1>(type, floats{});
}

// Returns the handler of an approximate function for f64, which flushes subnormals.
template <class F>
Selection approximate_double() {
    return select<flushed<F>, 1>(Type::f64, TypeList<Type::f64>{});
}

template <class F>
Selection approximate(Modifiers& m) {
    m.take("approx");
    const bool ftz = m.take("ftz");
    if (m.take_type() != Type::f32) return {};
    return ftz ? select<flushed<computed<F>>, 1>(Type::f32, single{})
               : select<computed<F>, 1>(Type::f32, single{});
}

template <class F>
Selection min_max(const InstructionForm& in, Modifiers& m) {
    const bool ftz = m.take("ftz"), nan = m.take("NaN"),
               xorsign = m.take("xorsign") && m.take("abs");
    const Type t = m.take_type();
    if (in.operands.size() == 4) {
        if (xorsign) return {};
        return nan ? arithmetic<of_three<nan_propagates<F>>, 3>(t, ftz)
                   : arithmetic<of_three<F>, 3>(t, ftz);
    }
    if (xorsign)
        return nan ? arithmetic<xorsign_abs<nan_propagates<F>>, 2>(t, ftz)
                   : arithmetic<xorsign_abs<F>, 2>(t, ftz);
    return nan ? arithmetic<nan_propagates<F>, 2>(t, ftz) : arithmetic<F, 2>(t, ftz);
}

}  // namespace

Selection select_floating(const InstructionForm& in, Modifiers& m) {
    const OpCode op = in.code;
    const Type type = m.type();
    if (type != Type::f32 && type != Type::f64) return {};
    // directed rounding is handled in rounding.cpp
    if (m.has("rz") || m.has("rm") || m.has("rp")) return {};

    if (op == OpCode::add || op == OpCode::sub || op == OpCode::mul || op == OpCode::fma ||
        op == OpCode::mad) {
        m.take("rn");
        const bool ftz = m.take("ftz"), sat = m.take("sat");
        m.take_type();
        if (op == OpCode::add) return arithmetic<add, 2>(type, ftz, sat);
        if (op == OpCode::sub) return arithmetic<sub, 2>(type, ftz, sat);
        if (op == OpCode::mul) return arithmetic<mul, 2>(type, ftz, sat);
        return arithmetic<fused_multiply_add, 3>(type, ftz, sat);
    }
    if (op == OpCode::div || op == OpCode::rcp || op == OpCode::sqrt) {
        const Modifier how = m.take_one({"rn", "approx", "full"});
        const bool ftz = m.take("ftz");
        m.take_type();
        if (op == OpCode::div && how == "approx")
            return ftz ? select<flushed<computed<quick_quotient>>, 2>(type, single{})
                       : select<computed<quick_quotient>, 2>(type, single{});
        if (op == OpCode::div && how == "full")
            return ftz ? select<flushed<computed<full_quotient_ftz>>, 2>(type, single{})
                       : select<computed<full_quotient>, 2>(type, single{});
        if (op == OpCode::rcp && how == "approx" && type == Type::f32 && !ftz)
            return select<computed<quick_reciprocal>, 1>(type, single{});
        if (op == OpCode::div) return arithmetic<divide, 2>(type, ftz);
        if (op == OpCode::sqrt) return arithmetic<square_root, 1>(type, ftz);
        return ftz && type == Type::f64 ? approximate_double<upper_reciprocal>()
                                        : arithmetic<reciprocal, 1>(type, ftz);
    }
    if (op == OpCode::rsqrt) {
        m.take("approx");
        const bool ftz = m.take("ftz");
        m.take_type();
        return ftz && type == Type::f64 ? approximate_double<upper_reciprocal_root>()
                                        : arithmetic<reciprocal_root, 1>(type, ftz);
    }
    if (op == OpCode::sin) return approximate<sine>(m);
    if (op == OpCode::cos) return approximate<cosine>(m);
    if (op == OpCode::lg2) return approximate<log_2>(m);
    if (op == OpCode::ex2) return approximate<exp_2>(m);
    if (op == OpCode::tanh) return approximate<hyperbolic_tangent>(m);
    if (op == OpCode::abs || op == OpCode::neg) {
        const bool ftz = m.take("ftz");
        m.take_type();
        return op == OpCode::abs ? sign<absolute>(type, ftz) : sign<negate>(type, ftz);
    }
    if (op == OpCode::min) return min_max<minimum>(in, m);
    if (op == OpCode::max) return min_max<maximum>(in, m);
    if (op == OpCode::copysign) {
        m.take_type();
        return select<copy_sign, 2>(type, floats{});
    }
    if (op == OpCode::testp) {
        const Modifier what =
            m.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
        m.take_type();
        const Handler run = with_type<Handler>(type, floats{}, [&](auto v) -> Handler {
            using T = decltype(v);
            if (what == "finite") return &test<finite, T>;
            if (what == "infinite") return &test<infinite, T>;
            if (what == "number") return &test<number, T>;
            if (what == "notanumber") return &test<not_a_number, T>;
            return what == "normal" ? &test<normal, T> : &test<subnormal, T>;
        });
        return selection(run, {Type::pred, type});
    }
    return {};
}

}  // namespace coalesce::sim::COALESCE_ISA
