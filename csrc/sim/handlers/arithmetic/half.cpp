// Arithmetic of halves (f16) and bfloat16, with one value or two values in a register (PTX ISA,
// "Half Precision Floating-Point Instructions").
#include <cmath>

#include "sim/handlers/lanewise.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/ops.hpp"

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
    static double of(float a, float b, float c) { return fma_to_odd(a, b, c); }
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
struct negate {
    static float of(float a) { return -a; }
};
struct absolute {
    static float of(float a) { return std::abs(a); }
};
struct hyperbolic_tangent {
    static float of(float a) { return std::tanh(a); }
};
struct exp_2 {
    static float of(float a) { return std::exp2(a); }
};
template <class F>
struct nan_propagates {
    static float of(float a, float b) { return a != a || b != b ? NAN : F::of(a, b); }
};
// min.xorsign.abs and max.xorsign.abs: the smaller or larger magnitude of a and b. The result is
// negative if exactly one operand is negative.
template <class F>
struct xorsign_abs {
    static float of(float a, float b) {
        const float m = std::abs(F::of(std::abs(a), std::abs(b)));
        return std::signbit(a) != std::signbit(b) ? -m : m;
    }
};
// Clamps to [0, 1]. A NaN becomes 0.
template <class F>
struct saturated {
    template <class... T>
    static auto of(T... a) {
        const auto r = F::of(a...);
        using R = std::remove_const_t<decltype(r)>;
        return r > R(0) ? (r < R(1) ? r : R(1)) : R(0);
    }
};
// Negative results become 0. A NaN stays a NaN.
template <class F>
struct relu {
    template <class... T>
    static auto of(T... a) {
        const auto r = F::of(a...);
        using R = std::remove_const_t<decltype(r)>;
        return r != r || r > R(0) ? r : R(0);
    }
};

template <class F, class Format, class... H>
inline uint16_t one_value(H... h) {
    return Format::narrow(F::of(Format::widen(h)...));
}

// Operations that few kernels use. Their loops call a function for each value, because vectorized
// loops for all of them would take seconds to compile.
template <class FOrFormat>
constexpr bool rare = false;
template <class Format>
constexpr bool rare<flushed_format<Format>> = true;
template <class F>
constexpr bool rare<saturated<F>> = true;
template <class F>
constexpr bool rare<relu<F>> = true;
template <class F>
constexpr bool rare<nan_propagates<F>> = true;
template <class F>
constexpr bool rare<xorsign_abs<F>> = true;
template <class F, class Format, class... H>
[[gnu::noinline]] uint16_t one_rare_value(H... h) {
    return one_value<F, Format>(h...);
}

// Applies F to `groups` times 32 values. A register with two values per lane is an array of 64
// values. Therefore the loop is compiled only once for both kinds of registers.
template <class F, class Format, class... From>
[[gnu::noinline]] void on_groups(uint16_t* to, int groups, From... from) {
    for (int group = 0; group < groups; ++group) {
        const int at = group * warp_size;
#pragma GCC ivdep
        for (int i = 0; i < warp_size; ++i) {
            if constexpr (rare<F> || rare<Format>)
                to[at + i] = one_rare_value<F, Format>(from[at + i]...);
            else
                to[at + i] = one_value<F, Format>(from[at + i]...);
        }
    }
}

// `Lane` is uint16_t for registers with one value per lane, and uint32_t for two values per lane.
template <class F, class Format, class Lane, size_t... I>
void on_registers(Warp& w, const Op& op) {
    const LaneMask mask = w.mask;
    Lane* const d = w.lanes<Lane>(op.operand[0]);
    Lane* const results = reinterpret_cast<Lane*>(w.results);
    Lane* const to = mask == all_lanes ? d : results;
    on_groups<F, Format>(
        reinterpret_cast<uint16_t*>(to), sizeof(Lane) / sizeof(uint16_t),
        reinterpret_cast<const uint16_t*>(w.lanes<const Lane>(op.operand[1 + I]))...);
    if (mask != all_lanes) store_active(d, results, mask);
}

template <class F, class Format, class Lane, size_t... I>
Handler half_handler(std::index_sequence<I...>) {
    return &on_registers<F, Format, Lane, I...>;
}

template <class F, int N>
Selection on_format(Type type) {
    const auto sources = std::make_index_sequence<N>{};
    Selection s;
    switch (type) {
        case Type::f16:
            s.run = half_handler<F, half_format, uint16_t>(sources);
            break;
        case Type::bf16:
            s.run = half_handler<F, bfloat_format, uint16_t>(sources);
            break;
        case Type::f16x2:
            s.run = half_handler<F, half_format, uint32_t>(sources);
            break;
        case Type::bf16x2:
            s.run = half_handler<F, bfloat_format, uint32_t>(sources);
            break;
        default:
            return s;
    }
    s.types = OperandTypes::all(type, N + 1);
    return s;
}

// Returns the selection for an instruction with .ftz, which exists only for f16.
template <class F, int N>
Selection flushed(Type type) {
    const auto sources = std::make_index_sequence<N>{};
    using Format = flushed_format<half_format>;
    Selection s;
    if (type == Type::f16) s.run = half_handler<F, Format, uint16_t>(sources);
    if (type == Type::f16x2) s.run = half_handler<F, Format, uint32_t>(sources);
    s.types = OperandTypes::all(type, N + 1);
    return s;
}

// Returns the handler and the operand types of ex2.approx.ftz. No other instruction has .ftz for
// bfloat16.
Selection flushed_exp_2(Type type) {
    using Format = flushed_format<bfloat_format>;
    return selection(type == Type::bf16 ? &on_registers<exp_2, Format, uint16_t, 0>
                                        : &on_registers<exp_2, Format, uint32_t, 0>,
                     {type, type});
}

// The modifiers that an instruction has.
struct HalfModifiers {
    bool ftz, sat, relu;
};

template <class F, int N>
Selection arithmetic(Type type, HalfModifiers how) {
    if (how.ftz) {
        if (how.sat) return flushed<saturated<F>, N>(type);
        return how.relu ? flushed<relu<F>, N>(type) : flushed<F, N>(type);
    }
    if (how.sat) return on_format<saturated<F>, N>(type);
    return how.relu ? on_format<relu<F>, N>(type) : on_format<F, N>(type);
}

template <class F>
Selection min_max(Type type, bool ftz) {
    return ftz ? flushed<F, 2>(type) : on_format<F, 2>(type);
}

template <class F>
Selection min_max(Type type, bool ftz, bool nan, bool xorsign) {
    if (xorsign)
        return nan ? min_max<xorsign_abs<nan_propagates<F>>>(type, ftz)
                   : min_max<xorsign_abs<F>>(type, ftz);
    return nan ? min_max<nan_propagates<F>>(type, ftz) : min_max<F>(type, ftz);
}

}  // namespace

Selection select_half(const InstructionForm& in, Modifiers& m) {
    const Type type = m.type();
    const bool packed = type == Type::f16x2 || type == Type::bf16x2;
    if (!packed && type != Type::f16 && type != Type::bf16) return {};
    const OpCode op = in.code;
    if (op == OpCode::add || op == OpCode::sub || op == OpCode::mul || op == OpCode::fma) {
        m.take("rn");
        HalfModifiers how;
        how.ftz = m.take("ftz");
        how.sat = m.take("sat");
        how.relu = m.take("relu");
        m.take_type();
        if (op == OpCode::add) return arithmetic<add, 2>(type, how);
        if (op == OpCode::sub) return arithmetic<sub, 2>(type, how);
        if (op == OpCode::mul) return arithmetic<mul, 2>(type, how);
        return arithmetic<fma, 3>(type, how);
    }
    if (op == OpCode::min || op == OpCode::max) {
        const bool ftz = m.take("ftz"), nan = m.take("NaN"),
                   xorsign = m.take("xorsign") && m.take("abs");
        m.take_type();
        return op == OpCode::min ? min_max<minimum>(type, ftz, nan, xorsign)
                                 : min_max<maximum>(type, ftz, nan, xorsign);
    }
    if (op == OpCode::neg || op == OpCode::abs) {
        const bool ftz = m.take("ftz");
        m.take_type();
        // The assembler translates abs and neg into HADD2 or HFMA2, which return the canonical NaN.
        if (ftz) return op == OpCode::neg ? flushed<negate, 1>(type) : flushed<absolute, 1>(type);
        return op == OpCode::neg ? on_format<negate, 1>(type) : on_format<absolute, 1>(type);
    }
    if (op == OpCode::tanh || op == OpCode::ex2) {
        m.take("approx");
        const bool ftz = m.take("ftz");
        m.take_type();
        if (ftz && op == OpCode::ex2 && (type == Type::bf16 || type == Type::bf16x2))
            return flushed_exp_2(type);
        if (ftz) return {};
        return op == OpCode::tanh ? on_format<hyperbolic_tangent, 1>(type)
                                  : on_format<exp_2, 1>(type);
    }
    return {};
}

}  // namespace coalesce::sim::COALESCE_ISA
