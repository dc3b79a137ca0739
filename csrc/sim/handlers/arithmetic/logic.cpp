// Logic and shifts (PTX ISA, "Logic and Shift Instructions"), on bits and on predicates.
#include "sim/handlers/arithmetic/integer_functions.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/predicates.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

struct bit_not {
    template <class T>
    static T of(T a) {
        return T(~a);
    }
};
struct logical_not {
    template <class T>
    static T of(T a) {
        return a == 0;
    }
};

// The shift count is not taken modulo the width. If it is the width or more, all bits are shifted
// out.
struct shift_left {
    template <class T>
    static T of(T a, uint32_t n) {
        return n >= 8 * sizeof(T) ? T(0) : T(a << n);
    }
};
struct shift_right {
    template <class T>
    static T of(T a, uint32_t n) {
        constexpr uint32_t width = 8 * sizeof(T);
        if (std::is_signed_v<T>) return T(a >> (n >= width ? width - 1 : n));
        return n >= width ? T(0) : T(a >> n);
    }
};
// Funnel shift: shifts the 64 bits b:a and returns the upper word (left) or the lower word (right).
template <bool wrap>
struct funnel_left {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        const uint32_t n = wrap ? c & 31 : (c > 32 ? 32 : c);
        return uint32_t((((uint64_t{b} << 32 | a) << (n & 32 ? 31 : n)) << (n & 32 ? 1 : 0)) >> 32);
    }
};
template <bool wrap>
struct funnel_right {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        const uint32_t n = wrap ? c & 31 : (c > 32 ? 32 : c);
        return uint32_t((uint64_t{b} << 32 | a) >> n);
    }
};

// lop3 computes any function of three bits. A truth table says which function.
void lop3(Warp& w, const Op& op) {
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    const auto term = [table = op.get<TruthTables>().first](int row) {
        return table >> row & 1 ? UINT32_MAX : 0u;
    };
    const uint32_t t0 = term(0), t1 = term(1), t2 = term(2), t3 = term(3);
    const uint32_t t4 = term(4), t5 = term(5), t6 = term(6), t7 = term(7);
    const LaneMask mask = w.mask;
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) {
        const uint32_t x = a[i], y = b[i], z = c[i];
        const uint32_t low = (~y & ((~z & t0) | (z & t1))) | (y & ((~z & t2) | (z & t3)));
        const uint32_t high = (~y & ((~z & t4) | (z & t5))) | (y & ((~z & t6) | (z & t7)));
        const uint32_t value = (~x & low) | (x & high);
        d[i] = has_lane(mask, i) ? value : d[i];
    }
}

// prmt: each nibble of c selects one byte of b:a.
template <int mode>
struct permute {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        const uint64_t bytes = uint64_t{b} << 32 | a;
        const auto byte = [&](uint32_t n) { return uint32_t(bytes >> (8 * (n & 7))) & 0xff; };
        uint32_t d = 0;
        for (uint32_t i = 0; i < 4; ++i) {
            uint32_t value = 0;
            const uint32_t s = c & 3;
            switch (mode) {
                case 0: {
                    const uint32_t nibble = c >> (4 * i) & 15;
                    value = byte(nibble);
                    if (nibble & 8) value = value & 0x80 ? 0xff : 0;
                    break;
                }
                case 1:
                    value = byte(s + i);
                    break;  // mode f4e: four bytes forwards
                case 2:
                    value = byte(s - i);
                    break;  // mode b4e: four bytes backwards
                case 3:
                    value = byte(s);
                    break;  // mode rc8: one byte in all places
                case 4:
                    value = byte(i < s ? s : i);
                    break;  // mode ecl: edge clamp to the left
                case 5:
                    value = byte(i < s ? i : s);
                    break;  // mode ecr: edge clamp to the right
                default:
                    value = byte((s & 1) * 2 + (i & 1));
                    break;  // mode rc16: one half in both places
            }
            d |= value << (8 * i);
        }
        return d;
    }
};

template <int (*f)(int, int)>
void predicate_binary(Warp& w, const Op& op) {
    store(w, op.operand[0],
          LaneMask(f(int(w.predicate(op.operand[1])), int(w.predicate(op.operand[2])))));
}

int mask_and(int a, int b) { return a & b; }
int mask_or(int a, int b) { return a | b; }
int mask_xor(int a, int b) { return a ^ b; }

}  // namespace

void predicate_not(Warp& w, const Op& op) { store(w, op.operand[0], ~w.predicate(op.operand[1])); }

Selection select_logic(const InstructionForm& in, Modifiers& m) {
    const OpCode op = in.code;
    const Type t = m.take_type();
    if (t == Type::pred) {
        return selection(op == OpCode::and_  ? &predicate_binary<mask_and>
                         : op == OpCode::or_ ? &predicate_binary<mask_or>
                                             : &predicate_binary<mask_xor>,
                         {t, t, t});
    }
    if (op == OpCode::and_) return select<bit_and, 2>(t, bits{});
    return op == OpCode::or_ ? select<bit_or, 2>(t, bits{}) : select<bit_xor, 2>(t, bits{});
}

Selection select_not(const InstructionForm&, Modifiers& m) {
    const Type t = m.take_type();
    return t == Type::pred ? selection(&predicate_not, {t, t}) : select<bit_not, 1>(t, bits{});
}

Selection select_cnot(const InstructionForm&, Modifiers& m) {
    return select<logical_not, 1>(m.take_type(), bits{});
}

Selection select_shift(const InstructionForm& in, Modifiers& m) {
    const bool left = in.code == OpCode::shl;
    const Type t = m.take_type();
    using shifted = TypeList<Type::b16, Type::b32, Type::b64, Type::u16, Type::u32, Type::u64,
                             Type::s16, Type::s32, Type::s64>;
    const Handler run = with_type<Handler>(t, shifted{}, [&](auto v) -> Handler {
        using T = decltype(v);
        return left ? &lanewise<shift_left, T, T, uint32_t>
                    : &lanewise<shift_right, T, T, uint32_t>;
    });
    return selection(run, {t, t, Type::u32});
}

Selection select_shf(const InstructionForm&, Modifiers& m) {
    const bool left = m.take_one({"l", "r"}) == "l";
    const bool wrap = m.take_one({"wrap", "clamp"}) == "wrap";
    const Type t = m.take_type();
    if (left)
        return wrap ? select<funnel_left<true>, 3>(t, TypeList<Type::b32>{})
                    : select<funnel_left<false>, 3>(t, TypeList<Type::b32>{});
    return wrap ? select<funnel_right<true>, 3>(t, TypeList<Type::b32>{})
                : select<funnel_right<false>, 3>(t, TypeList<Type::b32>{});
}

Selection select_lop3(const InstructionForm& in, Modifiers& m) {
    if (in.operands.size() != 5 || in.operands[4].kind != ptx::Operand::Kind::integer) return {};
    m.take_type();
    Selection s = selection(&lop3, {Type::b32, Type::b32, Type::b32, Type::b32});
    s.payload = TruthTables{.first = uint8_t(in.operands[4].bits)};
    return s;
}

Selection select_prmt(const InstructionForm&, Modifiers& m) {
    m.take_type();
    using any = TypeList<Type::b32>;
    const Modifier mode = m.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
    if (mode == "f4e") return select<permute<1>, 3>(Type::b32, any{});
    if (mode == "b4e") return select<permute<2>, 3>(Type::b32, any{});
    if (mode == "rc8") return select<permute<3>, 3>(Type::b32, any{});
    if (mode == "ecl") return select<permute<4>, 3>(Type::b32, any{});
    if (mode == "ecr") return select<permute<5>, 3>(Type::b32, any{});
    if (mode == "rc16") return select<permute<6>, 3>(Type::b32, any{});
    return select<permute<0>, 3>(Type::b32, any{});
}

}  // namespace coalesce::sim::COALESCE_ISA
