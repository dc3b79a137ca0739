// SIMD video instructions: two 16-bit or four 8-bit operations in a register (PTX ISA, "SIMD Video
// Instructions"). CUDA's __vabsdiffu4, __vsadu2 and similar functions use these. In PTX, selectors
// and masks can choose which elements are used, and in which order. Only the default is simulated:
// all elements, in their order.
#include <limits>

#include "sim/comparison.hpp"
#include "sim/integer_functions.hpp"
#include "sim/lanewise.hpp"
#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

// Functions of two elements, besides those of integer_functions.hpp. The elements and the result
// are of type int32_t, which is always large enough.
struct average {
    // A result that ends in .5 is rounded away from zero.
    static int32_t of(int32_t a, int32_t b) { return (a + b + (a + b >= 0)) >> 1; }
};
struct difference {
    static int32_t of(int32_t a, int32_t b) { return a < b ? b - a : a - b; }
};

enum class Then : uint8_t { merge, saturate, accumulate };

// Applies F to each pair of elements of type S. The results have type D. `then` says what happens
// to the results: they are packed, or clamped and then packed, or added to c.
template <class F, class D, class S, Then then>
struct elements {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        constexpr int width = 8 * sizeof(D);
        constexpr int32_t low = std::numeric_limits<D>::min(), high = std::numeric_limits<D>::max();
        uint32_t packed = 0, sum = c;
        for (int at = 0; at < 32; at += width) {
            int32_t r = F::of(int32_t{S(a >> at)}, int32_t{S(b >> at)});
            if (then == Then::saturate) r = r < low ? low : r > high ? high : r;
            packed |= uint32_t(std::make_unsigned_t<D>(r)) << at;
            sum += uint32_t(r);
        }
        return then == Then::accumulate ? sum : packed;
    }
};

template <class F, class D, class S, Then then>
constexpr Handler handler =
    &lanewise<elements<F, D, S, then>, uint32_t, uint32_t, uint32_t, uint32_t>;

template <class F, class Signed, class Unsigned, class S>
Handler by_result(Type d, Then then) {
    if (then == Then::merge) return handler<F, S, S, Then::merge>;
    if (then == Then::accumulate) return handler<F, S, S, Then::accumulate>;
    return d == Type::s32 ? handler<F, Signed, S, Then::saturate>
                          : handler<F, Unsigned, S, Then::saturate>;
}

template <class F, class Signed, class Unsigned>
Handler by_signs(Type d, Type a, Type b, Then then) {
    if (a != b) return nullptr;
    return a == Type::s32 ? by_result<F, Signed, Unsigned, Signed>(d, then)
                          : by_result<F, Signed, Unsigned, Unsigned>(d, then);
}

// vset2 and vset4: the result is 1 for each pair of elements for which the comparison is true. The
// results are packed or added to c.
template <class A, class B, bool accumulate>
void compare_elements(Warp& w, const Op& op) {
    const uint8_t relations = op.get<ComparisonOperand>().relations;
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    for_each_lane(w.mask, [&](int i) {
        uint32_t packed = 0, sum = c[i];
        for (size_t at = 0; at < 32; at += 8 * sizeof(A)) {
            const int32_t x = A(a[i] >> at), y = B(b[i] >> at);
            const uint8_t relation = x < y    ? relation::less
                                     : x == y ? relation::equal
                                              : relation::greater;
            const uint32_t truth = (relations & relation) != 0;
            packed |= truth << at;
            sum += truth;
        }
        d[i] = accumulate ? sum : packed;
    });
}

template <class Signed, class Unsigned>
Handler comparison(Type a, Type b, bool accumulate) {
    const auto chosen = [accumulate](auto x, auto y) -> Handler {
        using A = decltype(x);
        using B = decltype(y);
        return accumulate ? &compare_elements<A, B, true> : &compare_elements<A, B, false>;
    };
    if (a == Type::s32)
        return b == Type::s32 ? chosen(Signed{}, Signed{}) : chosen(Signed{}, Unsigned{});
    return b == Type::s32 ? chosen(Unsigned{}, Signed{}) : chosen(Unsigned{}, Unsigned{});
}

bool is_word(Type type) { return type == Type::s32 || type == Type::u32; }

}  // namespace

Selection select_vset(const InstructionForm& in, Modifiers& m) {
    const Type a = m.take_type(), b = m.take_type();
    const bool plain =
        m.has("eq") || m.has("ne") || m.has("lt") || m.has("le") || m.has("gt") || m.has("ge");
    if (!plain || !is_word(a) || !is_word(b)) return {};
    const uint8_t relations = take_comparison(m);
    const bool accumulate = m.take("add");
    Selection s =
        selection(in.code == OpCode::vset4 ? comparison<int8_t, uint8_t>(a, b, accumulate)
                                           : comparison<int16_t, uint16_t>(a, b, accumulate),
                  {Type::b32, Type::b32, Type::b32, Type::b32});
    s.payload = ComparisonOperand{.relations = relations};
    return s;
}

Selection select_video(const InstructionForm& in, Modifiers& m) {
    if (in.operands.size() != 4) return {};
    const Type d = m.take_type(), a = m.take_type(), b = m.take_type();
    const Then then = m.take("sat")   ? Then::saturate
                      : m.take("add") ? Then::accumulate
                                      : Then::merge;
    const auto halves = [&](auto f) {
        return by_signs<decltype(f), int16_t, uint16_t>(d, a, b, then);
    };
    const auto bytes = [&](auto f) {
        return by_signs<decltype(f), int8_t, uint8_t>(d, a, b, then);
    };
    const Handler run = [&]() -> Handler {
        switch (in.code) {
            case OpCode::vadd2:
                return halves(add{});
            case OpCode::vadd4:
                return bytes(add{});
            case OpCode::vsub2:
                return halves(sub{});
            case OpCode::vsub4:
                return bytes(sub{});
            case OpCode::vavrg2:
                return halves(average{});
            case OpCode::vavrg4:
                return bytes(average{});
            case OpCode::vabsdiff2:
                return halves(difference{});
            case OpCode::vabsdiff4:
                return bytes(difference{});
            case OpCode::vmin2:
                return halves(minimum{});
            case OpCode::vmin4:
                return bytes(minimum{});
            case OpCode::vmax2:
                return halves(maximum{});
            case OpCode::vmax4:
                return bytes(maximum{});
            default:
                return nullptr;
        }
    }();
    return selection(run, {Type::b32, Type::b32, Type::b32, Type::b32});
}

}  // namespace coalesce::sim::COALESCE_ISA
