// Comparisons and selections (PTX ISA, "Comparison and Selection Instructions").
#include <cmath>

#include "sim/floats.hpp"
#include "sim/lanewise.hpp"
#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

// Ordered comparisons are false, unordered ones (the u of equ, ...) true if an operand is a NaN.
struct eq {
    template <class T>
    static bool of(T a, T b) {
        return a == b;
    }
};
struct ne {
    template <class T>
    static bool of(T a, T b) {
        return a < b || a > b;
    }
};
struct lt {
    template <class T>
    static bool of(T a, T b) {
        return a < b;
    }
};
struct le {
    template <class T>
    static bool of(T a, T b) {
        return a <= b;
    }
};
struct gt {
    template <class T>
    static bool of(T a, T b) {
        return a > b;
    }
};
struct ge {
    template <class T>
    static bool of(T a, T b) {
        return a >= b;
    }
};
struct equ {
    template <class T>
    static bool of(T a, T b) {
        return !(a < b || a > b);
    }
};
struct neu {
    template <class T>
    static bool of(T a, T b) {
        return a != b;
    }
};
struct ltu {
    template <class T>
    static bool of(T a, T b) {
        return !(a >= b);
    }
};
struct leu {
    template <class T>
    static bool of(T a, T b) {
        return !(a > b);
    }
};
struct gtu {
    template <class T>
    static bool of(T a, T b) {
        return !(a <= b);
    }
};
struct geu {
    template <class T>
    static bool of(T a, T b) {
        return !(a < b);
    }
};
struct num {
    template <class T>
    static bool of(T a, T b) {
        return a == a && b == b;
    }
};
struct nan {
    template <class T>
    static bool of(T a, T b) {
        return a != a || b != b;
    }
};

// How a lane's bits become the value that is compared.
template <class T>
struct as_is {
    using lane = T;
    static T value(T a) { return a; }
};
struct as_flushed {
    using lane = float;
    static float value(float a) { return flush(a); }
};
template <class Format>
struct as_wide {
    using lane = uint16_t;
    static float value(uint16_t a) { return Format::widen(a); }
};

template <class F, class Read>
inline LaneMask compare(Warp& w, const Op& op) {
    const auto* a = w.lanes<const typename Read::lane>(op.operand[2]);
    const auto* b = w.lanes<const typename Read::lane>(op.operand[3]);
    LaneMask m = 0;
    for (int i = 0; i < warp_size; ++i)
        m |= LaneMask(F::of(Read::value(a[i]), Read::value(b[i]))) << i;
    return m;
}

// Two packed halves: the lower half's truth in the first mask, the upper's in the second.
template <class F, class Format>
inline std::pair<LaneMask, LaneMask> compare_packed(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[3]);
    LaneMask low = 0, high = 0;
    for (int i = 0; i < warp_size; ++i) {
        low |= LaneMask(F::of(Format::widen(uint16_t(a[i])), Format::widen(uint16_t(b[i])))) << i;
        high |= LaneMask(
                    F::of(Format::widen(uint16_t(a[i] >> 16)), Format::widen(uint16_t(b[i] >> 16))))
                << i;
    }
    return {low, high};
}

enum Combine : uint8_t { keep, and_with, or_with, xor_with };

inline LaneMask combine(uint8_t how, LaneMask m, LaneMask with) {
    switch (how) {
        case and_with:
            return m & with;
        case or_with:
            return m | with;
        case xor_with:
            return m ^ with;
        default:
            return m;
    }
}

inline void store(Warp& w, Locator at, LaneMask value) {
    if (at == no_operand) return;
    LaneMask& d = w.predicate(at);
    d = (d & ~w.mask) | (value & w.mask);
}

// setp p|q, a, b[, c]: operands p, q, a, b, c; the boolean operator in `extra`, bit 7: c negated.
template <class F, class Read>
void set_predicate(Warp& w, const Op& op) {
    const LaneMask m = compare<F, Read>(w, op);
    if (op.operand[4] == no_operand) {
        store(w, op.operand[0], m);
        store(w, op.operand[1], ~m);
        return;
    }
    const LaneMask c = w.predicate(op.operand[4]) ^ (op.extra & 0x80 ? all_lanes : 0u);
    store(w, op.operand[0], combine(op.extra & 3, m, c));
    store(w, op.operand[1], combine(op.extra & 3, ~m, c));
}

template <class F, class Format>
void set_predicate_packed(Warp& w, const Op& op) {
    const auto [low, high] = compare_packed<F, Format>(w, op);
    const LaneMask c = op.operand[4] == no_operand
                           ? 0
                           : w.predicate(op.operand[4]) ^ (op.extra & 0x80 ? all_lanes : 0u);
    store(w, op.operand[0], combine(op.extra & 3, low, c));
    store(w, op.operand[1], combine(op.extra & 3, high, c));
}

// set d, -, a, b[, c]: true is all ones for an integer d, 1.0 for a floating one (op.immediate).
template <class D, class F, class Read>
void set_value(Warp& w, const Op& op) {
    LaneMask m = compare<F, Read>(w, op);
    if (op.operand[4] != no_operand)
        m = combine(op.extra & 3, m,
                    w.predicate(op.operand[4]) ^ (op.extra & 0x80 ? all_lanes : 0u));
    D* d = w.lanes<D>(op.operand[0]);
    for_each_lane(w.mask, [&](int i) { d[i] = has_lane(m, i) ? D(op.immediate) : D(0); });
}

template <class F, class Format>
void set_value_packed(Warp& w, const Op& op) {
    auto [low, high] = compare_packed<F, Format>(w, op);
    if (op.operand[4] != no_operand) {
        const LaneMask c = w.predicate(op.operand[4]) ^ (op.extra & 0x80 ? all_lanes : 0u);
        low = combine(op.extra & 3, low, c);
        high = combine(op.extra & 3, high, c);
    }
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t truth = uint32_t(op.immediate) & 0xffff;
    for_each_lane(w.mask, [&, low = low, high = high](int i) {
        d[i] = (has_lane(low, i) ? truth : 0) | (has_lane(high, i) ? truth << 16 : 0);
    });
}

template <class T>
void select_by_predicate(Warp& w, const Op& op) {
    T* d = w.lanes<T>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    const LaneMask p = w.predicate(op.operand[3]), mask = w.mask;
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) {
        const T value = has_lane(p, i) ? a[i] : b[i];
        d[i] = has_lane(mask, i) ? value : d[i];
    }
}

template <class C, bool ftz>
struct select_by_sign {
    template <class T>
    static T of(T a, T b, C c) {
        if constexpr (ftz) c = flush(c);
        return c >= 0 ? a : b;
    }
};

// slct a, b, c for the width of a and b.
template <class C, bool ftz = false>
Handler by_sign(size_t width) {
    using F = select_by_sign<C, ftz>;
    return width == 2   ? &lanewise<F, uint16_t, uint16_t, uint16_t, C>
           : width == 4 ? &lanewise<F, uint32_t, uint32_t, uint32_t, C>
           : width == 8 ? &lanewise<F, uint64_t, uint64_t, uint64_t, C>
                        : nullptr;
}

// Which handlers a comparison has, for a set or setp of some types.
template <class Pick>
Handler by_comparison(std::string_view cmp, Pick pick) {
    if (cmp == "eq") return pick(eq{});
    if (cmp == "ne") return pick(ne{});
    if (cmp == "lt" || cmp == "lo") return pick(lt{});
    if (cmp == "le" || cmp == "ls") return pick(le{});
    if (cmp == "gt" || cmp == "hi") return pick(gt{});
    if (cmp == "ge" || cmp == "hs") return pick(ge{});
    if (cmp == "equ") return pick(equ{});
    if (cmp == "neu") return pick(neu{});
    if (cmp == "ltu") return pick(ltu{});
    if (cmp == "leu") return pick(leu{});
    if (cmp == "gtu") return pick(gtu{});
    if (cmp == "geu") return pick(geu{});
    if (cmp == "num") return pick(num{});
    if (cmp == "nan") return pick(nan{});
    return nullptr;
}

template <class F, template <class, class> class Make>
Handler by_type(Type type, bool ftz) {
    switch (type) {
        case Type::u16:
        case Type::b16:
            return Make<F, as_is<uint16_t>>::handler();
        case Type::u32:
        case Type::b32:
            return Make<F, as_is<uint32_t>>::handler();
        case Type::u64:
        case Type::b64:
            return Make<F, as_is<uint64_t>>::handler();
        case Type::s16:
            return Make<F, as_is<int16_t>>::handler();
        case Type::s32:
            return Make<F, as_is<int32_t>>::handler();
        case Type::s64:
            return Make<F, as_is<int64_t>>::handler();
        case Type::f32:
            return ftz ? Make<F, as_flushed>::handler() : Make<F, as_is<float>>::handler();
        case Type::f64:
            return Make<F, as_is<double>>::handler();
        case Type::f16:
            return ftz ? Make<F, as_wide<flushed_format<half_format>>>::handler()
                       : Make<F, as_wide<half_format>>::handler();
        case Type::bf16:
            return Make<F, as_wide<bfloat_format>>::handler();
        default:
            return nullptr;
    }
}

template <class F, class Read>
struct Setp {
    static Handler handler() { return &set_predicate<F, Read>; }
};
template <class F, class Read>
struct Set32 {
    static Handler handler() { return &set_value<uint32_t, F, Read>; }
};
template <class F, class Read>
struct Set16 {
    static Handler handler() { return &set_value<uint16_t, F, Read>; }
};

int64_t truth_of(Type type) {
    switch (type) {
        case Type::f32:
            return 0x3f800000;
        case Type::f16:
        case Type::f16x2:
            return 0x3c00;
        case Type::bf16:
        case Type::bf16x2:
            return 0x3f80;
        default:
            return -1;
    }
}

}  // namespace

Selection select_compare(const ptx::Instruction& in, Modifiers& m) {
    const std::string_view op = in.opcode;
    if (op == "selp") {
        const Type t = m.take_type();
        const size_t width = ptx::size_of(t);
        return selection(width == 2   ? &select_by_predicate<uint16_t>
                         : width == 4 ? &select_by_predicate<uint32_t>
                         : width == 8 ? &select_by_predicate<uint64_t>
                                      : nullptr,
                         {t, t, t, Type::pred});
    }
    if (op == "slct") {
        const bool ftz = m.take("ftz");
        const Type t = m.take_type(), c = m.take_type();
        const size_t width = ptx::size_of(t);
        const Handler run = c == Type::s32   ? by_sign<int32_t>(width)
                            : c != Type::f32 ? nullptr
                            : ftz            ? by_sign<float, true>(width)
                                             : by_sign<float>(width);
        return selection(run, {t, t, t, c});
    }
    if (op != "setp" && op != "set") return {};
    const std::string_view cmp =
        m.take_one({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu",
                    "leu", "gtu", "geu", "num", "nan"});
    const std::string_view boolean = m.take_one({"and", "or", "xor"});
    const bool ftz = m.take("ftz");
    const Type d = op == "set" ? m.take_type() : Type::pred;
    const Type t = m.take_type();
    const bool packed = t == Type::f16x2 || t == Type::bf16x2;

    Selection s;
    s.destinations = 2;
    s.extra = boolean == "and"   ? and_with
              : boolean == "or"  ? or_with
              : boolean == "xor" ? xor_with
                                 : keep;
    s.types = {d, d, t, t};
    if (!boolean.empty()) s.types.push_back(Type::pred);
    const bool bfloat = t == Type::bf16x2;
    s.run = by_comparison(cmp, [&](auto f) -> Handler {
        using F = decltype(f);
        if (op == "setp") {
            if (packed)
                return bfloat ? &set_predicate_packed<F, bfloat_format>
                       : ftz  ? &set_predicate_packed<F, flushed_format<half_format>>
                              : &set_predicate_packed<F, half_format>;
            return by_type<F, Setp>(t, ftz);
        }
        if (packed)
            return bfloat ? &set_value_packed<F, bfloat_format>
                   : ftz  ? &set_value_packed<F, flushed_format<half_format>>
                          : &set_value_packed<F, half_format>;
        return ptx::size_of(d) == 2 ? by_type<F, Set16>(t, ftz) : by_type<F, Set32>(t, ftz);
    });
    if (op == "set") {
        if (ptx::size_of(d) == 8) s.run = nullptr;
        s.immediate = truth_of(d);
    }
    return s;
}

}  // namespace coalesce::sim::COALESCE_ISA
