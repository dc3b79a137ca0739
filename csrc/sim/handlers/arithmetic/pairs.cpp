// Operations of machine code on 64-bit values in pairs of registers.
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "sim/handlers/arithmetic/pair_strides.hpp"
#include "sim/handlers/machine.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

// join_pair() converts a pair of 32-bit registers to one register with 64 bits per lane.
// split_pair() does the opposite.
void join_pair(Warp& w, const Op& op) {
    uint64_t* d = w.lanes<uint64_t>(op.operand[0]);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) d[i] = joined<uint64_t>(a, i);
}
void split_pair(Warp& w, const Op& op) {
    const uint64_t* a = w.lanes<const uint64_t>(op.operand[1]);
    put_pairs(w, op.operand[0], [=](int i) { return a[i]; });
}

// Changes the sign of a double in a pair: removes the sign, inverts it, or both. A NaN keeps its
// sign (recorded on an H200).
void pair_sign(Warp& w, const Op& op) {
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const auto& sign = op.get<SignOperand>();
    const uint32_t keep = sign.absolute ? 0x7fffffffu : ~0u, flip = sign.negated ? 0x80000000u : 0u;
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) d[i] = a[i];
#pragma GCC ivdep
    for (int i = next_register; i < 2 * next_register; ++i) {
        const uint32_t more = a[i - next_register] != 0;  // nonzero bits in the lower word
        const bool is_nan = (a[i] & 0x7fffffff) + more > 0x7ff00000;
        d[i] = is_nan ? a[i] : (a[i] & keep) ^ flip;
    }
}

// Returns the sum of two 64-bit values. The first value consists of the words `high` and `low`. The
// second value is in the pair c. The sum is computed with 32-bit words, which is faster than with
// 64-bit values.
inline WordPair add_words(uint32_t low, uint32_t high, const uint32_t* c, int i) {
    const uint32_t sum = low + c[i];
    return {sum, high + c[next_register + i] + (sum < low)};
}

// Adds a value that is the same in all lanes to addresses with a constant stride (operands as for
// add_wide). The address of lane 0 and the stride are enough for that, so no lane waits for the
// addresses of an earlier sum. Returns false, and does nothing, if the stride is not constant, or
// if the upper words of the result differ.
inline bool add_to_addresses(Warp& w, const Op& op) {
    const auto& sum = op.get<WideSum>();
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const int64_t stride =
        w.strides.of(sum.from, sum.from_renewed, [=] { return stride_of_pairs(a); });
    if (stride == LaneStrides::irregular) {
        // After an addition, the upper words may be equal, and the addresses may have a stride.
        w.strides.forget(uint64_t{1} << sum.to);
        return false;
    }
    w.strides.keep(sum.to, stride);
    const uint32_t first = a[0], low = first + *w.lanes<const uint32_t>(op.operand[2]);
    const auto wraps = [=](int64_t word) {
        return uint64_t(word + stride * (warp_size - 1)) > UINT32_MAX;
    };
    if (wraps(first) || wraps(low)) return false;
    const uint32_t high = *w.lanes<const uint32_t>(op.operand[3]) +
                          *w.lanes<const uint32_t>(op.operand[5]) + (low < first);
    uint32_t* const d = w.lanes<uint32_t>(op.operand[0]);
    uint32_t* const upper_d = w.lanes<uint32_t>(sum.upper);
    const auto step = uint32_t(stride);
    for (int i = 0; i < warp_size; ++i) d[i] = low + uint32_t(i) * step;
    for (int i = 0; i < warp_size; ++i) upper_d[i] = high;
    w.predicate(op.operand[4]) = low < first ? all_lanes : 0;
    return true;
}

// Adds two 64-bit values, and stores the carry out of the lower words in the predicate of operand
// 4. The lower words of the terms are operands 1 and 2, and the upper words are operands 3 and 5.
// Operand 0 is the lower word of the result. The payload has the place of the upper word.
void add_wide(Warp& w, const Op& op) {
    const auto& sum = op.get<WideSum>();
    const LaneMask mask = w.mask;
    if (mask == all_lanes && sum.to != AddressFamilies::none && add_to_addresses(w, op)) return;
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* upper_a = w.lanes<const uint32_t>(op.operand[3]);
    const uint32_t* upper_b = w.lanes<const uint32_t>(op.operand[5]);
    uint32_t* const d = w.lanes<uint32_t>(op.operand[0]);
    uint32_t* const upper_d = w.lanes<uint32_t>(sum.upper);
    alignas(64) uint32_t carries[warp_size];  // the highest bit of a word is the carry
    const auto add = [&](auto&& put) {
#pragma GCC ivdep
        for (int i = 0; i < warp_size; ++i) {
            const uint32_t x = a[i], low = x + b[i], carry = low < x ? ~uint32_t{0} : 0;
            put(upper_d[i], upper_a[i] + upper_b[i] - carry, i);
            put(d[i], low, i);
            carries[i] = carry;
        }
    };
    if (mask == all_lanes)
        add([](uint32_t& to, uint32_t value, int) { to = value; });
    else
        add([=](uint32_t& to, uint32_t value, int i) { to = has_lane(mask, i) ? value : to; });
    store(w, op.operand[4], lanes_with_highest_bit(carries));
}

template <class T>
using wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;

// Pair d = a * b + pair c.
template <class T>
void multiply_wide(Warp& w, const Op& op) {
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    put_word_pairs(w, op.operand[0], [=](int i) {
        const uint32_t low = uint32_t(a[i]) * uint32_t(b[i]);
        return add_words(low, uint32_t(wide<T>(a[i]) * wide<T>(b[i]) >> 32), c, i);
    });
}

// Sets d = (a << by) + b: the address of an array element. a is the index of the element, and its
// size is 1 << by. b is the address of the array. d and b are pairs.
template <class T>
void shift_add_wide(Warp& w, const Op& op) {
    const T* a = w.lanes<const T>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const int by = op.get<ShiftOperand>().by;
    put_word_pairs(w, op.operand[0], [=](int i) {
        return add_words(uint32_t(a[i]) << by, uint32_t(a[i] >> 1 >> (31 - by)), b, i);
    });
}

// Pair d = a * b + pair c. Operand 4 is the carry out, and operand 5 the carry in.
template <class T>
void multiply_wide_carry(Warp& w, const Op& op) {
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    const LaneMask in = op.operand[5] == no_operand ? 0 : w.predicate(op.operand[5]);
    LaneMask out = 0;
    put_pairs(w, op.operand[0], [&](int i) {
        const uint64_t before = joined<uint64_t>(c, i);
        const uint64_t sum = uint64_t(wide<T>(a[i]) * wide<T>(b[i])) + before;
        const uint64_t value = sum + (in >> i & 1);
        out |= LaneMask(sum < before || value < sum) << i;
        return value;
    });
    store(w, op.operand[4], out);
}

template <class F>
void pairs2(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    put_pairs(w, op.operand[0],
              [=](int i) { return F::of(joined<double>(a, i), joined<double>(b, i)); });
}
struct add_f64 {
    static double of(double a, double b) { return a + b; }
};
struct mul_f64 {
    static double of(double a, double b) { return a * b; }
};
void fma_f64(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    put_pairs(w, op.operand[0], [=](int i) {
        return std::fma(joined<double>(a, i), joined<double>(b, i), joined<double>(c, i));
    });
}

// DSETP.MIN sets predicate d if a is the smaller of a and b, and DSETP.MAX if a is the larger one.
// If b is a NaN, d is set too. Predicate e is set if both a and b are NaNs. Each of the two results
// is then combined (AND) with the predicate in operand 4.
template <bool greatest>
void first_is_min_max(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[3]);
    const LaneMask first = lanes_that([=](int i) {
        const double x = joined<double>(a, i), y = joined<double>(b, i);
        const bool less = x < y || (x == y && std::signbit(x) && !std::signbit(y));
        const bool greater = x > y || (x == y && !std::signbit(x) && std::signbit(y));
        return y != y || (greatest ? greater : less);
    });
    const LaneMask neither = lanes_that([=](int i) {
        const double x = joined<double>(a, i), y = joined<double>(b, i);
        return x != x && y != y;
    });
    const LaneMask with = w.predicate(op.operand[4]);
    store(w, op.operand[0], first & with);
    store(w, op.operand[1], neither & with);
}

// Predicate d is set if the address in pair a is in a window.
void in_window(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const auto [start, bytes] = op.get<AddressWindow>();
    store(w, op.operand[0], lanes_that([=, start = start, bytes = bytes](int i) {
              return joined<uint64_t>(a, i) - start < bytes;
          }));
}

// Returns the sum of pair a and b. b is a word or a pair.
template <bool of_pairs>
void add_to_pair(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    if constexpr (of_pairs)
        put_word_pairs(w, op.operand[0],
                       [=](int i) { return add_words(b[i], b[next_register + i], a, i); });
    else
        put_word_pairs(w, op.operand[0], [=](int i) { return add_words(b[i], 0, a, i); });
}

// ATOMS.CAST.SPIN is one attempt of a compare-and-swap. If memory contains b, the attempt succeeds:
// c is stored there, and d is 1. Otherwise d is 0. If several lanes access the same bank, only the
// first of these lanes can succeed, and the others must repeat the instruction. For 64-bit values
// (pairs), this rule holds separately for each half of the warp.
template <class T>
void try_to_swap(Warp& w, const Op& op, const Resolved& r) {
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[2]);
    constexpr bool pair = sizeof(T) == 8;
    uint32_t taken = 0;
    bool upper_half = false;
    uint32_t success[warp_size];
    for_each_lane(r.mask, [&](int i) {
        std::byte* p = r.shape == Shape::scattered ? r.lane[i]
                       : r.shape == Shape::uniform ? r.host
                                                   : r.host + size_t(i) * sizeof(T);
        const uint64_t address = uint64_t(p - w.block->shared);
        const uint32_t bank = 1u << (address / sizeof(T) % (128 / sizeof(T)));
        T expected, value, current;
        if constexpr (pair)
            expected = joined<T>(b, i), value = joined<T>(c, i);
        else
            expected = b[i], value = c[i];
        success[i] = 0;
        if (pair && i >= warp_size / 2 && !upper_half) taken = 0, upper_half = true;
        if (taken & bank) return;
        taken |= bank;
        std::memcpy(&current, p, sizeof current);
        if (current != expected) return;
        std::memcpy(p, &value, sizeof value);
        success[i] = 1;
    });
    for_each_lane(r.mask, [&](int i) {
        d[i] = success[i];
        if (pair) d[next_register + i] = 0;
    });
}

constexpr MachineHandler handlers[] = {
    {MachineOp::join_pair, &join_pair},
    {MachineOp::split_pair, &split_pair},
    {MachineOp::pair_sign, &pair_sign},
    {MachineOp::shift_add_wide_u32, &shift_add_wide<uint32_t>},
    {MachineOp::shift_add_wide_s32, &shift_add_wide<int32_t>},
    {MachineOp::multiply_wide_carry_u32, &multiply_wide_carry<uint32_t>},
    {MachineOp::multiply_wide_carry_s32, &multiply_wide_carry<int32_t>},
    {MachineOp::multiply_wide_u32, &multiply_wide<uint32_t>},
    {MachineOp::multiply_wide_s32, &multiply_wide<int32_t>},
    {MachineOp::add_f64, &pairs2<add_f64>},
    {MachineOp::mul_f64, &pairs2<mul_f64>},
    {MachineOp::fma_f64, &fma_f64},
    {MachineOp::first_is_least_f64, &first_is_min_max<false>},
    {MachineOp::first_is_greatest_f64, &first_is_min_max<true>},
    {MachineOp::in_window, &in_window},
    {MachineOp::add_word_to_pair, &add_to_pair<false>},
    {MachineOp::add_pairs, &add_to_pair<true>},
    {MachineOp::add_wide, &add_wide},
};
constexpr size_t first = size_t(MachineOp::join_pair);
static_assert(are_in_order(handlers, first) && first + std::size(handlers) == machine_ops);

}  // namespace

Handler select_pair(MachineOp op) { return handlers[size_t(op) - first].run; }

Mover choose_swap_attempt(uint32_t bytes) {
    return bytes == 8 ? &try_to_swap<uint64_t> : &try_to_swap<uint32_t>;
}

}  // namespace coalesce::sim::COALESCE_ISA
