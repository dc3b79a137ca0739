// Comparisons and selections (PTX ISA, "Comparison and Selection Instructions").
#include <algorithm>

#include "sim/handlers/comparison.hpp"
#include "sim/handlers/lane_tests.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/predicates.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

using namespace relation;

// A reader is a struct that converts the bits of a lane (their type is `lane`) to a value that can
// be compared. This reader is for types whose bits are already such a value.
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

// Returns a mask of the lanes i for which one of the `relations` (less, equal, greater) holds
// between a(i) and b(i). The loops always compute all three masks. So one function executes every
// kind of comparison.
template <class A, class B>
inline LaneMask compare(const Op& op, A a, B b) {
    const uint8_t relations = op.get<ComparisonOperand>().relations;
    const LaneMask is_less = lanes_that([&](int i) { return a(i) < b(i); });
    const LaneMask is_equal = lanes_that([&](int i) { return a(i) == b(i); });
    LaneMask is_greater = ~(is_less | is_equal);
    if constexpr (!std::is_integral_v<decltype(a(0))>)
        is_greater = lanes_that([&](int i) { return a(i) > b(i); });
    return (relations & less ? is_less : 0) | (relations & equal ? is_equal : 0) |
           (relations & greater ? is_greater : 0) |
           (relations & unordered ? ~(is_less | is_equal | is_greater) : 0);
}

template <class Read>
inline LaneMask compare(Warp& w, const Op& op) {
    const auto* a = w.lanes<const typename Read::lane>(op.operand[2]);
    const auto* b = w.lanes<const typename Read::lane>(op.operand[3]);
    return compare(
        op, [&](int i) { return Read::value(a[i]); }, [&](int i) { return Read::value(b[i]); });
}

// Compares two packed halves. The first mask has the results for the lower halves, and the second
// mask has the results for the upper halves.
template <class Format>
inline std::pair<LaneMask, LaneMask> compare_packed(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[3]);
    const auto low = [](const uint32_t* x) {
        return [x](int i) { return Format::widen(uint16_t(x[i])); };
    };
    const auto high = [](const uint32_t* x) {
        return [x](int i) { return Format::widen(uint16_t(x[i] >> 16)); };
    };
    return {compare(op, low(a), low(b)), compare(op, high(a), high(b))};
}

// Combines the result of a comparison with predicate c, if the instruction has one.
inline LaneMask combine(Warp& w, const Op& op, LaneMask truth) {
    if (op.operand[4] == no_operand) return truth;
    const auto& how = op.get<ComparisonOperand>();
    return combined(how.combination, truth,
                    w.predicate(op.operand[4]) ^ (how.negated ? all_lanes : 0u));
}

// Executes setp p|q, a, b[, c]. The operands of the op are p, q, a, b, c in this order.
template <class Read>
void set_predicate(Warp& w, const Op& op) {
    const LaneMask m = compare<Read>(w, op);
    // Both results are computed before p is stored, because p may be the same register as c, which
    // combine() reads.
    const LaneMask p = combine(w, op, m), q = combine(w, op, ~m);
    store(w, op.operand[0], p);
    store(w, op.operand[1], q);
}

template <class Format>
void set_predicate_packed(Warp& w, const Op& op) {
    const auto [low, high] = compare_packed<Format>(w, op);
    const LaneMask p = combine(w, op, low), q = combine(w, op, high);
    store(w, op.operand[0], p);
    store(w, op.operand[1], q);
}

// Executes set d, a, b[, c]. Operand 0 of the op is d, operand 1 is not used, and a, b, c follow.
// For an integer d, "true" sets all bits. For a floating-point d, "true" is 1.0.
template <class D, class Read>
void set_value(Warp& w, const Op& op) {
    const LaneMask m = combine(w, op, compare<Read>(w, op));
    D* d = w.lanes<D>(op.operand[0]);
    const D truth = D(op.get<ComparisonOperand>().truth);
    set_active(d, w.mask, [=](int i) { return has_lane(m, i) ? truth : D(0); });
}

template <class Format>
void set_value_packed(Warp& w, const Op& op) {
    auto [low, high] = compare_packed<Format>(w, op);
    low = combine(w, op, low);
    high = combine(w, op, high);
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t truth = op.get<ComparisonOperand>().truth & 0xffff;
    set_active(d, w.mask, [truth, low = low, high = high](int i) {
        return (has_lane(low, i) ? truth : 0) | (has_lane(high, i) ? truth << 16 : 0);
    });
}

template <class T>
void select_by_predicate(Warp& w, const Op& op) {
    T* d = w.lanes<T>(op.operand[0]);
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    const LaneMask p = w.predicate(op.operand[3]);
    set_active(d, w.mask, [=](int i) { return has_lane(p, i) ? a[i] : b[i]; });
}

template <class C, bool ftz>
struct select_by_sign {
    template <class T>
    static T of(T a, T b, C c) {
        if constexpr (ftz) c = flush(c);
        return c >= 0 ? a : b;
    }
};

// Returns the handler of slct d, a, b, c. `width` is the size of a and b.
template <class C, bool ftz = false>
Handler by_sign(size_t width) {
    using F = select_by_sign<C, ftz>;
    return width == 2   ? &lanewise<F, uint16_t, uint16_t, uint16_t, C>
           : width == 4 ? &lanewise<F, uint32_t, uint32_t, uint32_t, C>
           : width == 8 ? &lanewise<F, uint64_t, uint64_t, uint64_t, C>
                        : nullptr;
}

// Chooses how the operands of a comparison are read: as_is, as_flushed or as_wide, depending on the
// type. Calls `pick` with the chosen reader, and returns the handler that `pick` returns. Returns
// null for types that cannot be compared.
template <class Pick>
Handler by_type(Type type, bool ftz, Pick pick) {
    switch (type) {
        case Type::u16:
        case Type::b16:
            return pick(as_is<uint16_t>{});
        case Type::u32:
        case Type::b32:
            return pick(as_is<uint32_t>{});
        case Type::u64:
        case Type::b64:
            return pick(as_is<uint64_t>{});
        case Type::s16:
            return pick(as_is<int16_t>{});
        case Type::s32:
            return pick(as_is<int32_t>{});
        case Type::s64:
            return pick(as_is<int64_t>{});
        case Type::f32:
            return ftz ? pick(as_flushed{}) : pick(as_is<float>{});
        case Type::f64:
            return pick(as_is<double>{});
        case Type::f16:
            return ftz ? pick(as_wide<flushed_format<half_format>>{})
                       : pick(as_wide<half_format>{});
        case Type::bf16:
            return pick(as_wide<bfloat_format>{});
        default:
            return nullptr;
    }
}

uint32_t truth_of(Type type) {
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
            return UINT32_MAX;
    }
}

}  // namespace

Selection select_compare(const InstructionForm& in, Modifiers& m) {
    const OpCode op = in.code;
    if (op == OpCode::selp) {
        const Type t = m.take_type();
        const size_t width = ptx::size_of(t);
        return selection(width == 2   ? &select_by_predicate<uint16_t>
                         : width == 4 ? &select_by_predicate<uint32_t>
                         : width == 8 ? &select_by_predicate<uint64_t>
                                      : nullptr,
                         {t, t, t, Type::pred});
    }
    if (op == OpCode::slct) {
        const bool ftz = m.take("ftz");
        const Type t = m.take_type(), c = m.take_type();
        const size_t width = ptx::size_of(t);
        const Handler run = c == Type::s32   ? by_sign<int32_t>(width)
                            : c != Type::f32 ? nullptr
                            : ftz            ? by_sign<float, true>(width)
                                             : by_sign<float>(width);
        return selection(run, {t, t, t, c});
    }
    if (op != OpCode::setp && op != OpCode::set) return {};
    const uint8_t relations = take_comparison(m);
    if (relations == 0) return {};
    const Modifier boolean = m.take_one({"and", "or", "xor"});
    const bool ftz = m.take("ftz");
    const Type d = op == OpCode::set ? m.take_type() : Type::pred;
    const Type t = m.take_type();
    const bool packed = t == Type::f16x2 || t == Type::bf16x2;

    Selection s;
    s.destinations = 2;
    s.payload = ComparisonOperand{.relations = relations,
                                  .combination = boolean == "and"   ? Combination::conjunction
                                                 : boolean == "or"  ? Combination::disjunction
                                                 : boolean == "xor" ? Combination::difference
                                                                    : Combination::none,
                                  .truth = op == OpCode::set ? truth_of(d) : 0};
    s.types = {d, d, t, t};
    if (boolean) s.types.push_back(Type::pred);
    const auto packed_handler = [&](auto format) -> Handler {
        using Format = decltype(format);
        return op == OpCode::setp ? &set_predicate_packed<Format> : &set_value_packed<Format>;
    };
    if (packed) {
        s.run = t == Type::bf16x2 ? packed_handler(bfloat_format{})
                : ftz             ? packed_handler(flushed_format<half_format>{})
                                  : packed_handler(half_format{});
    } else {
        s.run = by_type(t, ftz, [&](auto read) -> Handler {
            using Read = decltype(read);
            if (op == OpCode::setp) return &set_predicate<Read>;
            return ptx::size_of(d) == 2 ? &set_value<uint16_t, Read> : &set_value<uint32_t, Read>;
        });
    }
    if (op == OpCode::set && ptx::size_of(d) == 8) s.run = nullptr;
    return s;
}

}  // namespace coalesce::sim::COALESCE_ISA
