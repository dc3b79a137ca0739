// Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision").

#include "sim/handlers/arithmetic/integer_functions.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

struct mul_lo {
    template <class T>
    static T of(T a, T b) {
        using U = std::conditional_t<sizeof(T) == 2, uint32_t, std::make_unsigned_t<T>>;
        return T(U(a) * U(b));
    }
};
struct mul_hi {
    template <class T>
    static T of(T a, T b) {
        return T((Wide<T>(a) * Wide<T>(b)) >> bits_of<T>);
    }
};
struct mul_wide {
    template <class T>
    static Wide<T> of(T a, T b) {
        return Wide<T>(a) * Wide<T>(b);
    }
};
struct mad_lo {
    template <class T>
    static T of(T a, T b, T c) {
        return T(mul_lo::of(a, b) + c);
    }
};
struct mad_hi {
    template <class T>
    static T of(T a, T b, T c) {
        return add::of(std::make_unsigned_t<T>(mul_hi::of(a, b)), std::make_unsigned_t<T>(c));
    }
};
struct mad_wide {
    template <class T>
    static auto of(T a, T b, std::make_unsigned_t<Wide<T>> c) {
        return std::make_unsigned_t<Wide<T>>(mul_wide::of(a, b)) + c;
    }
};
struct sad {
    template <class T>
    static T of(T a, T b, T c) {
        return T(c + (a < b ? std::make_unsigned_t<T>(b) - std::make_unsigned_t<T>(a)
                            : std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b)));
    }
};
// If the divisor is zero, the quotient and the remainder have all bits set, as in machine code. The
// ISA does not define them.
struct quotient {
    template <class T>
    static T of(T a, T b) {
        if (b == 0) return T(-1);
        if (std::is_signed_v<T> && b == T(-1)) return T(0 - std::make_unsigned_t<T>(a));
        return T(a / b);
    }
};
struct remainder {
    template <class T>
    static T of(T a, T b) {
        if (b == 0) return T(-1);
        if (std::is_signed_v<T> && b == T(-1)) return T(0);
        return T(a % b);
    }
};
struct absolute {
    template <class T>
    static T of(T a) {
        return a < 0 ? T(0 - std::make_unsigned_t<T>(a)) : a;
    }
};
struct negate {
    template <class T>
    static T of(T a) {
        return T(0 - std::make_unsigned_t<T>(a));
    }
};
struct relu_minimum {
    template <class T>
    static T of(T a, T b) {
        return maximum::of(minimum::of(a, b), T(0));
    }
};
struct relu_maximum {
    template <class T>
    static T of(T a, T b) {
        return maximum::of(maximum::of(a, b), T(0));
    }
};
template <class F>
struct saturating {
    static int32_t of(int32_t a, int32_t b) {
        return F::of(int64_t{a}, int64_t{b}) > INT32_MAX   ? INT32_MAX
               : F::of(int64_t{a}, int64_t{b}) < INT32_MIN ? INT32_MIN
                                                           : int32_t(F::of(int64_t{a}, int64_t{b}));
    }
};
struct mad_hi_sat {
    static int32_t of(int32_t a, int32_t b, int32_t c) {
        return saturating<add>::of(mul_hi::of(a, b), c);
    }
};

// 24-bit products: mul24 and mad24 multiply the low 24 bits of both operands. low24 returns the low
// 24 bits of an operand. The result is the low or the high 32 bits of the 48-bit product.
template <class T>
struct low24 {
    static Wide<T> of(T a) {
        return std::is_signed_v<T> ? Wide<T>(int32_t(uint32_t(a) << 8) >> 8)
                                   : Wide<T>(a & 0xffffff);
    }
};
struct mul24_lo {
    template <class T>
    static T of(T a, T b) {
        return T(low24<T>::of(a) * low24<T>::of(b));
    }
};
struct mul24_hi {
    template <class T>
    static T of(T a, T b) {
        return T((low24<T>::of(a) * low24<T>::of(b)) >> 16);
    }
};
struct mad24_lo {
    template <class T>
    static T of(T a, T b, T c) {
        return T(uint32_t(mul24_lo::of(a, b)) + uint32_t(c));
    }
};
struct mad24_hi {
    template <class T>
    static T of(T a, T b, T c) {
        return T(uint32_t(mul24_hi::of(a, b)) + uint32_t(c));
    }
};
struct mad24_hi_sat {
    static int32_t of(int32_t a, int32_t b, int32_t c) {
        return saturating<add>::of(mul24_hi::of(a, b), c);
    }
};

// Applies F to both 16-bit halves of a word.
template <class F, class H>
struct halves {
    static uint32_t of(uint32_t a, uint32_t b) {
        return uint16_t(F::of(H(a), H(b))) | uint32_t(uint16_t(F::of(H(a >> 16), H(b >> 16))))
                                                 << 16;
    }
};

template <class A, class B, int parts, bool high>
struct dot_product {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        constexpr int width = 32 / parts;
        for (int i = 0; i < parts; ++i) {
            const int64_t x =
                parts == 4 ? int64_t(A(a >> (8 * i)))
                           : int64_t(std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>(
                                 a >> (width * i)));
            c += uint32_t(x * int64_t(B(b >> (8 * (i + (high ? 2 : 0))))));
        }
        return c;
    }
};

// Executes add.cc and related instructions. The carry of each lane is a bit of Warp::carry.
template <class T, bool subtract, bool carry_in, bool carry_out>
void add_carry(Warp& w, const Op& op) {
    T* d = w.lanes<T>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    LaneMask carry = w.carry;
    for_each_lane(w.mask, [&](int i) {
        // Subtraction is computed as a + ~b + 1, as on the hardware. So the carry is 1 if there is
        // no borrow. Compiled code relies on this if an addition follows sub.cc.
        const T addend = subtract ? T(~b[i]) : b[i];
        const T in = carry_in ? T(has_lane(w.carry, i)) : T(subtract);
        const Wide<T> sum = Wide<T>(a[i]) + addend + in;
        d[i] = T(sum);
        if (carry_out) carry = (carry & ~(1u << i)) | uint32_t((sum >> bits_of<T>)&1) << i;
    });
    w.carry = carry;
}

template <class T, bool high, bool carry_in, bool carry_out>
void mad_carry(Warp& w, const Op& op) {
    using U = std::make_unsigned_t<T>;
    U* d = w.lanes<U>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    const U* c = w.lanes<const U>(op.operand[3]);
    LaneMask carry = w.carry;
    for_each_lane(w.mask, [&](int i) {
        const U product = U(high ? mul_hi::of(a[i], b[i]) : mul_lo::of(a[i], b[i]));
        const Wide<U> sum = Wide<U>(product) + c[i] + (carry_in && has_lane(w.carry, i) ? 1 : 0);
        d[i] = U(sum);
        if (carry_out) carry = (carry & ~(1u << i)) | uint32_t((sum >> bits_of<U>)&1) << i;
    });
    w.carry = carry;
}

template <bool subtract>
Selection select_carry(Type type, bool in, bool out) {
    const Handler run = with_type<Handler>(
        wrapping(type), TypeList<Type::u32, Type::u64>{}, [&](auto value) -> Handler {
            using T = decltype(value);
            if (in && out) return &add_carry<T, subtract, true, true>;
            return in ? &add_carry<T, subtract, true, false> : &add_carry<T, subtract, false, true>;
        });
    return selection(run, {type, type, type});
}

Selection select_mad_carry(Type type, bool high, bool in, bool out) {
    using carried = TypeList<Type::u32, Type::s32, Type::u64, Type::s64>;
    const Handler run = with_type<Handler>(type, carried{}, [&](auto value) -> Handler {
        using T = decltype(value);
        if (high) {
            if (in && out) return &mad_carry<T, true, true, true>;
            return in ? &mad_carry<T, true, true, false> : &mad_carry<T, true, false, true>;
        }
        if (in && out) return &mad_carry<T, false, true, true>;
        return in ? &mad_carry<T, false, true, false> : &mad_carry<T, false, false, true>;
    });
    return selection(run, {type, type, type, type});
}

Type widened(Type type) {
    switch (type) {
        case Type::u16:
            return Type::u32;
        case Type::s16:
            return Type::s32;
        case Type::u32:
            return Type::u64;
        default:
            return Type::s64;
    }
}

using narrow = TypeList<Type::u16, Type::s16, Type::u32, Type::s32>;
using words = TypeList<Type::u32, Type::s32>;

Selection select_wide_product(Type type, bool with_addend) {
    const Handler run = with_type<Handler>(type, narrow{}, [&](auto value) -> Handler {
        using T = decltype(value);
        using W = std::make_unsigned_t<Wide<T>>;
        return with_addend ? &lanewise<mad_wide, W, T, T, W> : &lanewise<mul_wide, Wide<T>, T, T>;
    });
    OperandTypes types{widened(type), type, type};
    if (with_addend) types.push_back(widened(type));
    return selection(run, types);
}

template <class F>
Selection select_halves(bool is_signed) {
    return selection(is_signed ? &lanewise<halves<F, int16_t>, uint32_t, uint32_t, uint32_t>
                               : &lanewise<halves<F, uint16_t>, uint32_t, uint32_t, uint32_t>,
                     {Type::b32, Type::b32, Type::b32});
}

template <class A, class B>
Selection select_dot(bool four, bool high) {
    using u32 = uint32_t;
    return selection(four   ? &lanewise<dot_product<A, B, 4, false>, u32, u32, u32, u32>
                     : high ? &lanewise<dot_product<A, B, 2, true>, u32, u32, u32, u32>
                            : &lanewise<dot_product<A, B, 2, false>, u32, u32, u32, u32>,
                     {Type::b32, Type::b32, Type::b32, Type::b32});
}

// Executes add, sub, min and max of two numbers of 16 bits in each register.
Selection select_packed(OpCode op, Modifiers& m) {
    const bool is_signed = m.take_one({"s16x2", "u16x2"}) == "s16x2";
    const bool relu = (op == OpCode::min || op == OpCode::max) && is_signed && m.take("relu");
    switch (op) {
        case OpCode::add:
            return select_halves<add>(is_signed);
        case OpCode::sub:
            return select_halves<sub>(is_signed);
        case OpCode::min:
            return relu ? select_halves<relu_minimum>(true) : select_halves<minimum>(is_signed);
        case OpCode::max:
            return relu ? select_halves<relu_maximum>(true) : select_halves<maximum>(is_signed);
        default:
            return {};
    }
}

// Chooses the handler of dp4a or dp2a. The first type is that of a, the second one that of b.
Selection select_dot_product(OpCode op, Modifiers& m) {
    const bool high = m.take_one({"hi", "lo"}) == "hi", four = op == OpCode::dp4a;
    const bool a_signed = m.take_type() == Type::s32, b_signed = m.take_type() == Type::s32;
    if (a_signed)
        return b_signed ? select_dot<int8_t, int8_t>(four, high)
                        : select_dot<int8_t, uint8_t>(four, high);
    return b_signed ? select_dot<uint8_t, int8_t>(four, high)
                    : select_dot<uint8_t, uint8_t>(four, high);
}

// Chooses the handler of add or sub.
Selection select_sum(OpCode op, Modifiers& m) {
    const bool adds = op == OpCode::add;
    if (m.take("sat")) {
        if (m.take_type() != Type::s32) return {};
        return adds ? select<saturating<add>, 2>(Type::s32, TypeList<Type::s32>{})
                    : select<saturating<sub>, 2>(Type::s32, TypeList<Type::s32>{});
    }
    if (m.take("cc"))
        return adds ? select_carry<false>(m.take_type(), false, true)
                    : select_carry<true>(m.take_type(), false, true);
    const Type t = wrapping(m.take_type());
    return adds ? select<add, 2>(t, unsigned_types{}) : select<sub, 2>(t, unsigned_types{});
}

// Chooses the handler of mul, mad or madc.
Selection select_product(OpCode op, Modifiers& m) {
    const Modifier part = m.take_one({"lo", "hi", "wide"});
    const bool high = part == "hi", mad = op != OpCode::mul;
    if (op == OpCode::madc) {
        const bool out = m.take("cc");
        return select_mad_carry(m.take_type(), high, true, out);
    }
    if (mad && m.take("cc")) return select_mad_carry(m.take_type(), high, false, true);
    if (part == "wide") return select_wide_product(m.take_type(), mad);
    if (!high) {
        const Type t = wrapping(m.take_type());
        return mad ? select<mad_lo, 3>(t, unsigned_types{})
                   : select<mul_lo, 2>(t, unsigned_types{});
    }
    const bool saturates = mad && m.take("sat");
    const Type t = m.take_type();
    if (saturates && t != Type::s32) return {};
    return saturates ? select<mad_hi_sat, 3>(t, TypeList<Type::s32>{})
           : mad     ? select<mad_hi, 3>(t, integers{})
                     : select<mul_hi, 2>(t, integers{});
}

// Chooses the handler of mul24 or mad24.
Selection select_product_24(OpCode op, Modifiers& m) {
    const bool high = m.take_one({"lo", "hi"}) == "hi";
    const bool saturates = op == OpCode::mad24 && high && m.take("sat");
    const Type t = m.take_type();
    if (op == OpCode::mul24)
        return high ? select<mul24_hi, 2>(t, words{}) : select<mul24_lo, 2>(t, words{});
    return !high       ? select<mad24_lo, 3>(t, words{})
           : saturates ? select<mad24_hi_sat, 3>(t, TypeList<Type::s32>{})
                       : select<mad24_hi, 3>(t, words{});
}

// Chooses the handler of min or max.
Selection select_min_max(OpCode op, Modifiers& m) {
    const bool least = op == OpCode::min;
    if (m.take("relu")) {
        const Type t = m.take_type();
        return least ? select<relu_minimum, 2>(t, TypeList<Type::s32>{})
                     : select<relu_maximum, 2>(t, TypeList<Type::s32>{});
    }
    const Type t = m.take_type();
    return least ? select<minimum, 2>(t, integers{}) : select<maximum, 2>(t, integers{});
}

}  // namespace

Selection select_integer(const InstructionForm& in, Modifiers& m) {
    const OpCode op = in.code;
    if (m.has("u16x2") || m.has("s16x2")) return select_packed(op, m);
    if (op == OpCode::dp4a || op == OpCode::dp2a) return select_dot_product(op, m);
    switch (m.type()) {
        case Type::none:
        // Other functions handle floating-point types.
        case Type::f32:
        case Type::f64:
        case Type::f16:
        case Type::f16x2:
        case Type::bf16:
        case Type::bf16x2:
            return {};
        default:
            break;
    }
    const bool carries_out = (op == OpCode::addc || op == OpCode::subc) && m.take("cc");
    switch (op) {
        case OpCode::add:
        case OpCode::sub:
            return select_sum(op, m);
        case OpCode::addc:
            return select_carry<false>(m.take_type(), true, carries_out);
        case OpCode::subc:
            return select_carry<true>(m.take_type(), true, carries_out);
        case OpCode::mul:
        case OpCode::mad:
        case OpCode::madc:
            return select_product(op, m);
        case OpCode::mul24:
        case OpCode::mad24:
            return select_product_24(op, m);
        case OpCode::min:
        case OpCode::max:
            return select_min_max(op, m);
        case OpCode::sad:
            return select<sad, 3>(m.take_type(), integers{});
        case OpCode::div:
            return select<quotient, 2>(m.take_type(), integers{});
        case OpCode::rem:
            return select<remainder, 2>(m.take_type(), integers{});
        case OpCode::abs:
            return select<absolute, 1>(m.take_type(), signed_types{});
        case OpCode::neg:
            return select<negate, 1>(m.take_type(), signed_types{});
        default:
            return {};
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
