// Half precision and bfloat16 arithmetic, one value or two packed ones (PTX ISA, "Half Precision
// Floating-Point Instructions").
#include <cmath>

#include "sim/floats.hpp"
#include "sim/lanewise.hpp"
#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

struct add {
    static float of(float a, float b) { return a + b; }
};
struct sub {
    static float of(float a, float b) { return a - b; }
};
struct mul {
    static float of(float a, float b) { return a * b; }
};
struct fma {
    static double of(float a, float b, float c) {
        return std::fma(double(a), double(b), double(c));
    }
};
struct minimum {
    static float of(float a, float b) {
        return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
    }
};
struct maximum {
    static float of(float a, float b) {
        return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a < b ? b : a;
    }
};
struct hyperbolic_tangent {
    static float of(float a) { return std::tanh(a); }
};
struct exp_2 {
    static float of(float a) { return std::exp2(a); }
};
template <class F>
struct nan_wins {
    static float of(float a, float b) { return a != a || b != b ? NAN : F::of(a, b); }
};
template <class F>
struct saturated {
    template <class... T>
    static auto of(T... a) {
        const auto r = F::of(a...);
        return r > 0 ? (r < 1 ? r : 1) : decltype(r)(0);
    }
};
template <class F>
struct relu {
    template <class... T>
    static auto of(T... a) {
        const auto r = F::of(a...);
        return r != r || r > 0 ? r : decltype(r)(0);
    }
};

template <class F, class Format>
struct one {
    template <class... H>
    static uint16_t of(H... h) {
        return Format::narrow(F::of(Format::widen(h)...));
    }
};
template <class F, class Format>
struct two {
    template <class... P>
    static uint32_t of(P... p) {
        return one<F, Format>::of(uint16_t(p)...) |
               uint32_t(one<F, Format>::of(uint16_t(p >> 16)...)) << 16;
    }
};
// Signs are changed on the bits: a NaN keeps its payload.
template <uint32_t mask>
struct clear_bits {
    template <class T>
    static T of(T a) {
        return T(a & ~T(mask));
    }
};
template <uint32_t mask>
struct flip_bits {
    template <class T>
    static T of(T a) {
        return T(a ^ T(mask));
    }
};

template <class F, int N>
Selection on_format(Type type) {
    const auto sources = std::make_index_sequence<N>{};
    Selection s;
    switch (type) {
        case Type::f16:
            s.run = uniform_handler<one<F, half_format>, uint16_t>(sources);
            break;
        case Type::bf16:
            s.run = uniform_handler<one<F, bfloat_format>, uint16_t>(sources);
            break;
        case Type::f16x2:
            s.run = uniform_handler<two<F, half_format>, uint32_t>(sources);
            break;
        case Type::bf16x2:
            s.run = uniform_handler<two<F, bfloat_format>, uint32_t>(sources);
            break;
        default:
            return s;
    }
    s.types.assign(N + 1, type);
    return s;
}

template <class F, int N>
Selection arithmetic(Type type, bool sat, bool with_relu) {
    if (sat) return on_format<saturated<F>, N>(type);
    return with_relu ? on_format<relu<F>, N>(type) : on_format<F, N>(type);
}

}  // namespace

Selection select_half(const ptx::Instruction& in, Modifiers& m) {
    const Type type = Modifiers(m).take_type();
    const bool packed = type == Type::f16x2 || type == Type::bf16x2;
    if (!packed && type != Type::f16 && type != Type::bf16) return {};
    const std::string_view op = in.opcode;
    if (op == "add" || op == "sub" || op == "mul" || op == "fma" || op == "min" || op == "max") {
        m.take("rn");
        m.take("ftz");  // half subnormals that float holds exactly stay exact
        const bool sat = m.take("sat"), with_relu = m.take("relu"), nan = m.take("NaN");
        m.take_type();
        if (op == "add") return arithmetic<add, 2>(type, sat, with_relu);
        if (op == "sub") return arithmetic<sub, 2>(type, sat, with_relu);
        if (op == "mul") return arithmetic<mul, 2>(type, sat, with_relu);
        if (op == "fma") return arithmetic<fma, 3>(type, sat, with_relu);
        if (op == "min")
            return nan ? arithmetic<nan_wins<minimum>, 2>(type, sat, with_relu)
                       : arithmetic<minimum, 2>(type, sat, with_relu);
        return nan ? arithmetic<nan_wins<maximum>, 2>(type, sat, with_relu)
                   : arithmetic<maximum, 2>(type, sat, with_relu);
    }
    if (op == "neg" || op == "abs") {
        m.take("ftz");
        m.take_type();
        Selection s;
        if (packed)
            s.run = op == "neg" ? &lanewise<flip_bits<0x80008000u>, uint32_t, uint32_t>
                                : &lanewise<clear_bits<0x80008000u>, uint32_t, uint32_t>;
        else
            s.run = op == "neg" ? &lanewise<flip_bits<0x8000u>, uint16_t, uint16_t>
                                : &lanewise<clear_bits<0x8000u>, uint16_t, uint16_t>;
        s.types = {type, type};
        return s;
    }
    if (op == "tanh" || op == "ex2") {
        m.take("approx");
        m.take("ftz");
        m.take_type();
        return op == "tanh" ? on_format<hyperbolic_tangent, 1>(type) : on_format<exp_2, 1>(type);
    }
    return {};
}

}  // namespace coalesce::sim::COALESCE_ISA
