// Arithmetic with a directed rounding: .rz, .rm and .rp of add, sub, mul, fma, div, rcp and sqrt.
//
// The rounding mode of the host is changed before the loop over the lanes, and restored after the
// loop. This file is compiled with -frounding-math. Otherwise the compiler could move arithmetic to
// a place where the host has another rounding mode.
#include <cfenv>
#include <cmath>

#include "sim/handlers/lanewise.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

struct add {
    template <class T>
    static T of(T a, T b, T) {
        return a + b;
    }
};
struct sub {
    template <class T>
    static T of(T a, T b, T) {
        return a - b;
    }
};
struct mul {
    template <class T>
    static T of(T a, T b, T) {
        return a * b;
    }
};
struct divide {
    template <class T>
    static T of(T a, T b, T) {
        return a / b;
    }
};
struct fma {
    static float of(float a, float b, float c) { return std::fma(a, b, c); }
    static double of(double a, double b, double c) { return std::fma(a, b, c); }
};
struct reciprocal {
    template <class T>
    static T of(T a, T, T) {
        return T(1) / a;
    }
};
struct square_root {
    template <class T>
    static T of(T a, T, T) {
        return std::sqrt(a);
    }
};

// Computes d = F(a, b, c), rounded as the payload specifies. If the op has fewer than three source
// operands, operand a is passed to F in place of each missing one.
template <class F, class T>
void rounded(Warp& w, const Op& op) {
    const auto source = [&](int n) {
        return w.lanes<const T>(op.operand[op.operand[n] == no_operand ? 1 : n]);
    };
    T* d = w.lanes<T>(op.operand[0]);
    const T *a = source(1), *b = source(2), *c = source(3);
    const auto [round, ftz, saturates] = op.get<RoundingOperand>();
    const auto in = [ftz = ftz](T x) { return sizeof(T) == 4 && ftz ? flush(x) : x; };
    std::fesetround(round == Round::rz   ? FE_TOWARDZERO
                    : round == Round::rm ? FE_DOWNWARD
                                         : FE_UPWARD);
    for_each_lane(w.mask, [&, saturates = saturates](int i) {
        // The values are volatile, so that the compiler neither folds nor moves these operations.
        const volatile T x = in(a[i]), y = in(b[i]), z = in(c[i]);
        T r = in(F::of(T(x), T(y), T(z)));
        if (saturates) r = r > 0 ? (r < 1 ? r : T(1)) : T(0);
        d[i] = canonical(r);
    });
    std::fesetround(FE_TONEAREST);
}

}  // namespace

Selection select_rounding(const InstructionForm& in, Modifiers& m) {
    const Type type = m.type();
    if (type != Type::f32 && type != Type::f64) return {};
    const OpCode op = in.code;
    if (op != OpCode::add && op != OpCode::sub && op != OpCode::mul && op != OpCode::fma &&
        op != OpCode::mad && op != OpCode::div && op != OpCode::rcp && op != OpCode::sqrt) {
        return {};
    }
    const Modifier mode = m.take_one({"rz", "rm", "rp"});
    if (!mode) return {};
    Selection s;
    const Round round = mode == "rz" ? Round::rz : mode == "rm" ? Round::rm : Round::rp;
    s.payload = RoundingOperand{round, m.take("ftz"), m.take("sat")};
    m.take_type();
    s.run = with_type<Handler>(type, floats{}, [&](auto v) -> Handler {
        using T = decltype(v);
        if (op == OpCode::add) return &rounded<add, T>;
        if (op == OpCode::sub) return &rounded<sub, T>;
        if (op == OpCode::mul) return &rounded<mul, T>;
        if (op == OpCode::div) return &rounded<divide, T>;
        if (op == OpCode::rcp) return &rounded<reciprocal, T>;
        if (op == OpCode::sqrt) return &rounded<square_root, T>;
        return &rounded<fma, T>;
    });
    const bool one = op == OpCode::rcp || op == OpCode::sqrt;
    const bool three = op == OpCode::fma || op == OpCode::mad;
    s.types = OperandTypes::all(type, one ? 2 : three ? 4 : 3);
    return s;
}

}  // namespace coalesce::sim::COALESCE_ISA
