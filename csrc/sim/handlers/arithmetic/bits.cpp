// Counting, finding and moving bits and bit fields (PTX ISA, "Integer Arithmetic Instructions",
// from popc to bmsk).
#include <algorithm>
#include <bit>

#include "sim/handlers/arithmetic/integer_functions.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

struct population {
    template <class T>
    static uint32_t of(T a) {
        return uint32_t(std::popcount(a));
    }
};
struct leading_zeros {
    template <class T>
    static uint32_t of(T a) {
        return uint32_t(std::countl_zero(a));
    }
};
struct reverse_bits {
    template <class T>
    static T of(T a) {
        T r = 0;
        for (int i = 0; i < bits_of<T>; ++i) r = T(r << 1 | ((a >> i) & 1));
        return r;
    }
};
// Returns the position of the highest bit that is 1, or for a negative number the highest bit that
// is 0. If there is no such bit, all bits of the result are set. With `shift_amount`, returns the
// shift that moves this bit to the highest position.
template <bool shift_amount>
struct find_leading {
    template <class T>
    static uint32_t of(T a) {
        using U = std::make_unsigned_t<T>;
        const U u = std::is_signed_v<T> && a < 0 ? U(~U(a)) : U(a);
        if (u == 0) return UINT32_MAX;
        const uint32_t zeros = uint32_t(std::countl_zero(u));
        return shift_amount ? zeros : bits_of<T> - 1 - zeros;
    }
};
// Finds the n-th set bit of the mask, counted from position `base`: upwards for n > 0, and
// downwards for n < 0. If n is 0, only the bit at `base` is tested.
struct find_nth_set {
    static uint32_t of(uint32_t mask, uint32_t base, int32_t n) {
        if (n == 0) return base < 32 && has_lane(mask, int(base)) ? base : UINT32_MAX;
        const int step = n > 0 ? 1 : -1;
        for (int64_t at = base, left = n > 0 ? n : -int64_t{n}; at >= 0 && at < 32; at += step) {
            if (has_lane(mask, int(at)) && --left == 0) return uint32_t(at);
        }
        return UINT32_MAX;
    }
};
// Returns the position or the length of a bit field of type T. PTX says that bfe and bfi use only
// the lowest 8 bits of these operands. But for fields of 64 bits, the assembler uses all bits.
template <class T>
uint32_t field_operand(uint32_t operand) {
    return bits_of<T> == 64 ? std::min(operand, 255u) : operand & 255;
}
struct extract_bits {
    template <class T>
    static T of(T a, uint32_t position, uint32_t length) {
        using U = std::make_unsigned_t<T>;
        const uint32_t p = field_operand<T>(position), n = field_operand<T>(length);
        const uint32_t width = bits_of<T>;
        if (n == 0) return 0;
        const bool sign = std::is_signed_v<T> && (U(a) >> std::min(p + n - 1, width - 1) & 1);
        const uint32_t from_source = p >= width ? 0 : std::min(n, width - p);
        const U keep = from_source >= width ? U(-1) : U((U(1) << from_source) - 1);
        return T((p >= width ? U(0) : U(U(a) >> p) & keep) | (sign ? U(~keep) : U(0)));
    }
};
struct insert_bits {
    template <class T>
    static T of(T a, T b, uint32_t position, uint32_t length) {
        const uint32_t p = field_operand<T>(position), n = field_operand<T>(length);
        const uint32_t width = bits_of<T>;
        if (p >= width || n == 0) return b;
        const T ones = n >= width ? T(-1) : T((T(1) << n) - 1);
        const T field = T(ones << p);
        return T((b & T(~field)) | (T(a << p) & field));
    }
};
template <bool wrap>
struct bit_mask {
    static uint32_t of(uint32_t a, uint32_t b) {
        const uint32_t p = wrap ? a & 31 : a, n = wrap ? b & 31 : b;
        if (p >= 32 || n == 0) return 0;
        return (n >= 32 ? UINT32_MAX : (1u << n) - 1) << p;
    }
};
// szext: returns the lowest n bits. A signed type is extended with the sign, another type with
// zeros.
template <bool wrap>
struct extend {
    template <class T>
    static T of(T a, uint32_t n) {
        const uint32_t width = wrap ? n & 31 : n;
        if (width == 0) return 0;
        if (width >= 32) return a;
        return T(T(uint32_t(a) << (32 - width)) >> (32 - width));
    }
};
}  // namespace

Selection select_bit_count(const InstructionForm& in, Modifiers& m) {
    const bool count = in.code == OpCode::popc;
    const Type t = m.take_type();
    if (t == Type::b32)
        return selection(count ? &lanewise<population, uint32_t, uint32_t>
                               : &lanewise<leading_zeros, uint32_t, uint32_t>,
                         {Type::u32, t});
    if (t == Type::b64)
        return selection(count ? &lanewise<population, uint32_t, uint64_t>
                               : &lanewise<leading_zeros, uint32_t, uint64_t>,
                         {Type::u32, t});
    return {};
}

Selection select_bfind(const InstructionForm&, Modifiers& m) {
    const bool shift = m.take("shiftamt");
    const Type t = m.take_type();
    using types = TypeList<Type::u32, Type::s32, Type::u64, Type::s64>;
    const Handler run = with_type<Handler>(t, types{}, [&](auto v) -> Handler {
        using T = decltype(v);
        return shift ? &lanewise<find_leading<true>, uint32_t, T>
                     : &lanewise<find_leading<false>, uint32_t, T>;
    });
    return selection(run, {Type::u32, t});
}

Selection select_brev(const InstructionForm&, Modifiers& m) {
    return select<reverse_bits, 1>(m.take_type(), TypeList<Type::b32, Type::b64>{});
}

Selection select_fns(const InstructionForm&, Modifiers& m) {
    m.take_type();
    return selection(&lanewise<find_nth_set, uint32_t, uint32_t, uint32_t, int32_t>,
                     {Type::b32, Type::b32, Type::b32, Type::s32});
}

Selection select_bfe(const InstructionForm&, Modifiers& m) {
    const Type t = m.take_type();
    using fields = TypeList<Type::u32, Type::s32, Type::u64, Type::s64>;
    const Handler run = with_type<Handler>(t, fields{}, [](auto v) -> Handler {
        using T = decltype(v);
        return &lanewise<extract_bits, T, T, uint32_t, uint32_t>;
    });
    return selection(run, {t, t, Type::u32, Type::u32});
}

Selection select_bfi(const InstructionForm&, Modifiers& m) {
    const Type t = m.take_type();
    const Handler run =
        with_type<Handler>(t, TypeList<Type::b32, Type::b64>{}, [](auto v) -> Handler {
            using T = decltype(v);
            return &lanewise<insert_bits, T, T, T, uint32_t, uint32_t>;
        });
    return selection(run, {t, t, t, Type::u32, Type::u32});
}

Selection select_szext(const InstructionForm&, Modifiers& m) {
    const bool wrap = m.take_one({"wrap", "clamp"}) == "wrap";
    const Type t = m.take_type();
    const Handler run =
        with_type<Handler>(t, TypeList<Type::u32, Type::s32>{}, [&](auto v) -> Handler {
            using T = decltype(v);
            return wrap ? &lanewise<extend<true>, T, T, uint32_t>
                        : &lanewise<extend<false>, T, T, uint32_t>;
        });
    return selection(run, {t, t, Type::u32});
}

Selection select_bmsk(const InstructionForm&, Modifiers& m) {
    const bool wrap = m.take_one({"wrap", "clamp"}) == "wrap";
    m.take_type();
    return selection(wrap ? &lanewise<bit_mask<true>, uint32_t, uint32_t, uint32_t>
                          : &lanewise<bit_mask<false>, uint32_t, uint32_t, uint32_t>,
                     {Type::b32, Type::b32, Type::b32});
}

}  // namespace coalesce::sim::COALESCE_ISA
