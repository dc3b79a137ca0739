// Applies an operation that is defined for one lane to all active lanes. This works for any
// operation and any types.
//
// An operation is a struct with a static function `of`, which takes the operands of one lane and
// returns the result:
// struct add { template <class T> static T of(T a, T b) { return T(a + b); } };
// `select<add, 2>(type, integers{})` returns the handler of `add` for this type, or none if the
// list `integers` does not contain the type. `of` is also called for inactive lanes, and the
// results are not used. Inactive lanes may have any operands. Therefore `of` must return a result
// for all operands, also for a division by zero.
#pragma once

#include <type_traits>
#include <utility>

#include "sim/program/program.hpp"
#include "sim/ptx_analysis/modifiers.hpp"
#include "sim/warp/selection.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Sets d[i] = value(i) for each active lane i. `value` is also called for inactive lanes.
template <class D, class F>
inline void set_active(D* d, LaneMask mask, F&& value) {
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) d[i] = has_lane(mask, i) ? D(value(i)) : d[i];
}

// Stores the results of the active lanes to d.
template <class D>
[[gnu::noinline]] void store_active(D* d, const D* results, LaneMask mask) {
    set_active(d, mask, [results](int i) { return results[i]; });
}

// There is only one loop for full and for partial masks, because it is compiled for hundreds of
// operations. If the mask is partial, the results go to w.results first.
template <class F, class D, class... S, size_t... I>
inline void apply(Warp& w, const Op& op, std::index_sequence<I...>) {
    D* const d = w.lanes<D>(op.operand[0]);
    const auto source = [&](auto index) {
        using T = std::tuple_element_t<decltype(index)::value, std::tuple<S...>>;
        return w.lanes<const T>(op.operand[1 + decltype(index)::value]);
    };
    const auto pointers = std::make_tuple(source(std::integral_constant<size_t, I>{})...);
    const LaneMask mask = w.mask;
    static_assert(warp_size * sizeof(D) <= sizeof w.results);
    D* const results = reinterpret_cast<D*>(w.results);
    D* const to = mask == all_lanes ? d : results;
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) to[i] = F::of(std::get<I>(pointers)[i]...);
    if (mask != all_lanes) store_active(d, results, mask);
}

// Sets d = F(s...) for each active lane.
template <class F, class D, class... S>
void lanewise(Warp& w, const Op& op) {
    apply<F, D, S...>(w, op, std::index_sequence_for<S...>{});
}

// The C++ type of one lane of a PTX type.
template <ptx::Type type>
struct lane_type;
#define COALESCE_LANE_TYPE(ptx_type, cpp_type) \
    template <>                                \
    struct lane_type<ptx::Type::ptx_type> {    \
        using type = cpp_type;                 \
    };
COALESCE_LANE_TYPE(b8, uint8_t)
COALESCE_LANE_TYPE(b16, uint16_t)
COALESCE_LANE_TYPE(b32, uint32_t)
COALESCE_LANE_TYPE(b64, uint64_t)
COALESCE_LANE_TYPE(u8, uint8_t)
COALESCE_LANE_TYPE(u16, uint16_t)
COALESCE_LANE_TYPE(u32, uint32_t)
COALESCE_LANE_TYPE(u64, uint64_t)
COALESCE_LANE_TYPE(s8, int8_t)
COALESCE_LANE_TYPE(s16, int16_t)
COALESCE_LANE_TYPE(s32, int32_t)
COALESCE_LANE_TYPE(s64, int64_t)
COALESCE_LANE_TYPE(f32, float)
COALESCE_LANE_TYPE(f64, double)
#undef COALESCE_LANE_TYPE

template <ptx::Type... types>
struct TypeList {};

using signed_types = TypeList<ptx::Type::s16, ptx::Type::s32, ptx::Type::s64>;
using unsigned_types = TypeList<ptx::Type::u16, ptx::Type::u32, ptx::Type::u64>;
using integers = TypeList<ptx::Type::u16, ptx::Type::u32, ptx::Type::u64, ptx::Type::s16,
                          ptx::Type::s32, ptx::Type::s64>;
using integers_of_all_widths =
    TypeList<ptx::Type::u8, ptx::Type::s8, ptx::Type::u16, ptx::Type::s16, ptx::Type::u32,
             ptx::Type::s32, ptx::Type::u64, ptx::Type::s64>;
using bits = TypeList<ptx::Type::b16, ptx::Type::b32, ptx::Type::b64>;
using floats = TypeList<ptx::Type::f32, ptx::Type::f64>;

// Returns the unsigned type of the same width, for arithmetic in which the sign does not matter.
inline ptx::Type wrapping(ptx::Type type) {
    switch (type) {
        case ptx::Type::s16:
            return ptx::Type::u16;
        case ptx::Type::s32:
            return ptx::Type::u32;
        case ptx::Type::s64:
            return ptx::Type::u64;
        default:
            return type;
    }
}

// Calls f with a value of the C++ type that belongs to `type`, and returns the result. If the list
// does not contain `type`, f is not called, and the result is empty.
template <class R, ptx::Type... types, class F>
R with_type(ptx::Type type, TypeList<types...>, F&& f) {
    R result{};
    (void)((type == types && (result = f(typename lane_type<types>::type{}), true)) || ...);
    return result;
}

template <class F, class T, size_t... I>
Handler uniform_handler(std::index_sequence<I...>) {
    return &lanewise<F, T, std::conditional_t<I >= 0, T, void>...>;
}

// Returns the handler of d = F(s0, .. sN-1) with the same type for all operands.
template <class F, int N, ptx::Type... types>
Selection select(ptx::Type type, TypeList<types...> list) {
    Selection selection;
    selection.run = with_type<Handler>(type, list, [](auto value) {
        return uniform_handler<F, decltype(value)>(std::make_index_sequence<N>{});
    });
    selection.types = OperandTypes::all(type, N + 1);
    return selection;
}

inline Selection selection(Handler run, const OperandTypes& types) {
    Selection s;
    s.run = run;
    s.types = types;
    return s;
}

}  // namespace coalesce::sim::COALESCE_ISA
