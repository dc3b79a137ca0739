// Operations that machine code has and PTX does not. Examples are sums of three terms with carries,
// shifts of register pairs, copies of predicates to the bits of a word, and operations on uniform
// registers.
//
// Each handler documents its operands. csrc/sass chooses handlers by MachineOp.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "sim/handlers/machine.hpp"
#include "sim/memory/floats.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

// Copies a number of consecutive registers: d = a.
void move(Warp& w, const Op& op) {
    constexpr Locator register_bytes = next_register * sizeof(uint32_t);
    const Locator count = op.get<Registers>().count;
    for (Locator n = 0; n < count; ++n) {
        const Locator by = n * register_bytes << 1;
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[1] + by);
        put_words(w, op.operand[0] + by, [=](int i) { return a[i]; });
    }
}

struct add3 {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) { return a + b + c; }
};

// Returns the carry out of a + b + carry in. It is computed from the operands and the 32-bit sum.
inline uint32_t carry_of(uint32_t a, uint32_t b, uint32_t sum) {
    return ((a & b) | ((a | b) & ~sum)) >> 31;
}

inline LaneMask carry_in(Warp& w, Locator at) { return at == no_operand ? 0 : w.predicate(at); }

// d = a + b. Operand 4 is the carry out, and operand 5 the carry in. Each term may be inverted.
[[gnu::noinline]] void add_carry_of_any(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint8_t inverted = op.get<CarryOperand>().inverted;
    const uint32_t flip_a = inverted & 1 ? ~0u : 0u, flip_b = inverted & 2 ? ~0u : 0u;
    const LaneMask in = carry_in(w, op.operand[5]);
    const auto sum_of = [=](uint32_t x, uint32_t y, int i) { return x + y + (in >> i & 1); };
    if (op.operand[4] == no_operand)
        return put_words(w, op.operand[0],
                         [=](int i) { return sum_of(a[i] ^ flip_a, b[i] ^ flip_b, i); });
    LaneMask out = 0;
    put_words(w, op.operand[0], [&](int i) {
        const uint32_t x = a[i] ^ flip_a, y = b[i] ^ flip_b;
        const uint32_t sum = sum_of(x, y, i);
        out |= carry_of(x, y, sum) << i;
        return sum;
    });
    store(w, op.operand[4], out);
}

// The same as add_carry_of_any(). Most additions of addresses have no carry in. All lanes execute
// them, and no term is inverted. Then this shorter code suffices.
void add_carry(Warp& w, const Op& op) {
    if (w.mask != all_lanes || op.get<CarryOperand>().inverted || carry_in(w, op.operand[5]))
        return add_carry_of_any(w, op);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    if (op.operand[4] == no_operand) {
#pragma GCC ivdep
        for (int i = 0; i < warp_size; ++i) d[i] = a[i] + b[i];
        return;
    }
    alignas(64) uint32_t carries[warp_size];  // the highest bit of a word is the carry
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) {
        const uint32_t x = a[i], sum = x + b[i];
        carries[i] = sum < x ? ~uint32_t{0} : 0;
        d[i] = sum;
    }
    w.predicate(op.operand[4]) = lanes_with_highest_bit(carries);
}

// Sets d to the sum of a, b, c and two carries in. Operands 4 and 5 receive the carries out. The
// payload says which predicates are the carries in, and which of the three terms are negated or
// inverted.
void add3_carry(Warp& w, const Op& op) {
    const auto& how = op.get<CarryOperand>();
    const LaneMask in1 = carry_in(w, how.carry_in[0]), in2 = carry_in(w, how.carry_in[1]);
    const uint32_t* s[3];
    uint32_t flip[3];
    uint64_t more = 0;
    for (int n = 0; n < 3; ++n) {
        s[n] = w.lanes<const uint32_t>(op.operand[1 + n]);
        const bool negated = how.negated >> n & 1, inverted = how.inverted >> n & 1;
        flip[n] = negated || inverted ? ~0u : 0u;
        more += negated;
    }
    LaneMask once = 0, twice = 0;
    put_words(w, op.operand[0], [&](int i) {
        const uint64_t sum = uint64_t{s[0][i] ^ flip[0]} + uint64_t{s[1][i] ^ flip[1]} +
                             uint64_t{s[2][i] ^ flip[2]} + more + (in1 >> i & 1) + (in2 >> i & 1);
        once |= LaneMask(sum >> 32 != 0) << i;
        twice |= LaneMask(sum >> 33 != 0) << i;
        return uint32_t(sum);
    });
    store(w, op.operand[4], once);
    store(w, op.operand[5], twice);
}

// Returns the upper word of high:low << by, where by < 32.
inline uint32_t funnel(uint32_t low, uint32_t high, int by) {
    return high << by | low >> 1 >> (31 - by);
}

// d = (a << by) + b.
void shift_add(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const int by = op.get<ShiftOperand>().by;
    put_words(w, op.operand[0], [=](int i) { return (a[i] << by) + b[i]; });
}

// LEA d, a, b, c. Operand 4 is the carry out, and operand 5 the carry in. d is the sum of b, the
// carry in and a shifted word. The shifted word is either the lower word of a << by, or the upper
// word of (c:a) << by. Here c:a is the 64-bit value with the upper word c and the lower word a. If
// the shift is signed, all bits of this upper word are the sign bit of a, and c is not used.
void shift_add_carry(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = op.operand[3] == no_operand ? a : w.lanes<const uint32_t>(op.operand[3]);
    const auto& shift = op.get<ShiftOperand>();
    const int by = shift.by;
    const bool high = shift.upper, sign = shift.is_signed, negative = shift.negated;
    const bool negative_addend = shift.negative_addend;
    const LaneMask in = carry_in(w, op.operand[5]);
    LaneMask out = 0;
    const auto put = [&](auto&& part) {
        if (op.operand[4] == no_operand)
            return put_words(w, op.operand[0],
                             [=](int i) { return part(i) + b[i] + (in >> i & 1); });
        put_words(w, op.operand[0], [&](int i) {
            const uint32_t x = part(i), sum = x + b[i] + (in >> i & 1);
            // -x is computed as ~x + 1. So for x = 0, the carry out is 1.
            const bool of_zero = (negative && x == 0) || (negative_addend && b[i] == 0);
            out |= (carry_of(x, b[i], sum) | uint32_t(of_zero)) << i;
            return sum;
        });
    };
    if (negative) {
        put([&](int i) {
            const uint32_t upper = sign ? uint32_t(int32_t(a[i]) >> 31) : high ? c[i] : 0;
            const uint64_t whole = (0 - (uint64_t{upper} << 32 | a[i])) << by;
            return uint32_t(high ? whole >> 32 : whole);
        });
    } else if (sign) {
        put([&](int i) { return funnel(a[i], uint32_t(int32_t(a[i]) >> 31), by); });
    } else if (high) {
        put([&](int i) { return funnel(a[i], c[i], by); });
    } else {
        put([&](int i) { return a[i] << by; });
    }
    store(w, op.operand[4], out);
}

// d = a * b + c + carry. Operand 4 is the carry.
void multiply_add_carry(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    const LaneMask in = w.predicate(op.operand[4]);
    put_words(w, op.operand[0], [=](int i) { return a[i] * b[i] + c[i] + (in >> i & 1); });
}

// d = upper word of a * b + pair c. Operand 5 is the carry in, and operand 4 the carry out.
template <class T>
void multiply_high(Warp& w, const Op& op) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    const T* a = w.lanes<const T>(op.operand[1]);
    const T* b = w.lanes<const T>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    const LaneMask in = carry_in(w, op.operand[5]);
    LaneMask out = 0;
    put_words(w, op.operand[0], [&](int i) {
        const uint64_t before = joined<uint64_t>(c, i);
        const uint64_t sum = uint64_t(Wide(a[i]) * Wide(b[i])) + before;
        out |= LaneMask(sum < before) << i;
        return uint32_t(sum >> 32) + (in >> i & 1);
    });
    store(w, op.operand[4], out);
}

// SHF: d is the result, a the low word, b the shift count, and c the high word.
void shift_pair(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[3]);
    const auto& shift = op.get<ShiftOperand>();
    const bool right = shift.right, high = shift.upper, wide = shift.wide,
               is_signed = shift.is_signed, wraps = shift.wraps;
    const uint32_t most = wide ? 64 : 32;
    put_words(w, op.operand[0], [=](int i) {
        const uint64_t whole = uint64_t{c[i]} << 32 | a[i];
        const uint32_t by = wraps ? b[i] & (most - 1) : std::min(b[i], most);
        const uint64_t shifted = right ? (is_signed ? uint64_t(int64_t(whole) >> std::min(by, 63u))
                                          : by > 63 ? 0
                                                    : whole >> (by & 63))
                                       : (by > 63 ? 0 : whole << (by & 63));
        return uint32_t(high ? shifted >> 32 : shifted);
    });
}

// Fast versions of frequent shifts by a constant below 32. shift_funnel() sets d to the upper word
// of (b:a) << by. Here b:a is the 64-bit value with the upper word b and the lower word a.
// shift_word() sets d = a << by or d = a >> by.
void shift_funnel(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const int by = op.get<ShiftOperand>().by;
    put_words(w, op.operand[0], [=](int i) { return funnel(a[i], b[i], by); });
}
template <class T, bool right>
void shift_word(Warp& w, const Op& op) {
    const T* a = w.lanes<const T>(op.operand[1]);
    const int by = op.get<ShiftOperand>().by;
    put_words(w, op.operand[0], [=](int i) { return uint32_t(right ? a[i] >> by : a[i] << by); });
}

// Compares the upper words of two 64-bit values, after another instruction has compared the lower
// words. Operands 0 and 1 are the results, the predicates p and q. Operands 2 and 3 are the upper
// words a and b. Operand 4 is a predicate with which the results are combined, and operand 5 is the
// result for the lower words.
template <class T>
void compare_upper(Warp& w, const Op& op) {
    const T* a = w.lanes<const T>(op.operand[2]);
    const T* b = w.lanes<const T>(op.operand[3]);
    const LaneMask with = w.predicate(op.operand[4]), lower = w.predicate(op.operand[5]);
    const auto& how = op.get<ComparisonOperand>();
    const LaneMask is_less = lanes_that([=](int i) { return a[i] < b[i]; });
    const LaneMask is_equal = lanes_that([=](int i) { return a[i] == b[i]; });
    // If the upper words are equal, the lower words decide.
    LaneMask m = is_equal & lower;
    if (how.relations & relation::less) m |= is_less;
    if (how.relations & relation::greater) m |= ~(is_less | is_equal);
    store(w, op.operand[0], combined(how.combination, m, with));
    store(w, op.operand[1], combined(how.combination, ~m, with));
}

// Computes predicates d and e from a, b, c with two truth tables.
void predicate_logic(Warp& w, const Op& op) {
    const LaneMask a = w.predicate(op.operand[2]), b = w.predicate(op.operand[3]),
                   c = w.predicate(op.operand[4]);
    const auto by_table = [&](uint32_t table) {
        LaneMask m = 0;
        for (int n = 0; n < 8; ++n) {
            if (table >> n & 1) m |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
        }
        return m;
    };
    store(w, op.operand[0], by_table(op.get<TruthTables>().first));
    store(w, op.operand[1], by_table(op.get<TruthTables>().second));
}

// Sets predicate d if a is not zero. The result is combined with b by "or" (or "and").
template <bool conjunction>
void not_zero(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const LaneMask m = lanes_that([=](int i) { return a[i] != 0; });
    const LaneMask with = w.predicate(op.operand[2]);
    store(w, op.operand[0], conjunction ? m & with : m | with);
}

// Sets d = c, but replaces some bits of it by predicates. The predicates are consecutive registers
// from operand 1 on.
void predicates_to_word(Warp& w, const Op& op) {
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const LaneMask* p = w.lanes<const LaneMask>(op.operand[1]);
    const uint32_t* c = w.lanes<const uint32_t>(op.operand[2]);
    const auto [mask, shift] = op.get<PredicateBits>();
    set_active(d, w.mask, [=, mask = mask, shift = shift](int i) {
        uint32_t bits = 0;
        for (int n = 0; n < 7; ++n) bits |= has_lane(p[n], i) << n;
        return (c[i] & ~(mask << shift)) | (bits & mask) << shift;
    });
}

// Sets some predicates to bits of a. The predicates are consecutive registers from operand 0 on.
void word_to_predicates(Warp& w, const Op& op) {
    LaneMask* p = w.lanes<LaneMask>(op.operand[0]);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const auto [mask, shift] = op.get<PredicateBits>();
    for (int n = 0; n < 7; ++n) {
        if (!(mask >> n & 1)) continue;
        const uint32_t bit = 1u << (n + shift);
        const LaneMask m = lanes_that([=](int i) { return a[i] & bit; });
        p[n] = (p[n] & ~w.mask) | (m & w.mask);
    }
}

// VOTE with predicate a. The result d has one bit per lane, which says whether a is true in that
// lane. The result e is a predicate: the result of the vote (all, any or uniform).
void vote(Warp& w, const Op& op) {
    const LaneMask ballot = w.predicate(op.operand[2]) & w.mask;
    const auto& how = op.get<VoteOperand>();
    const bool value = how.kind == VoteKind::all       ? ballot == w.mask
                       : how.kind == VoteKind::uniform ? ballot == w.mask || ballot == 0
                                                       : ballot != 0;
    if (op.operand[0] != no_operand) {
        uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
        const LaneMask mask = how.whole_warp ? all_lanes : w.mask;
        for_each_lane(mask, [&](int i) { d[i] = ballot; });
    }
    if (op.operand[1] == no_operand) return;
    LaneMask& p = w.predicate(op.operand[1]);
    const LaneMask mask = how.whole_warp ? all_lanes : w.mask;
    p = (p & ~mask) | (value ? mask : 0);
}

// Broadcast: in all lanes, d becomes the value of a in the first active lane.
void broadcast(Warp& w, const Op& op) {
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t value =
        w.lanes<const uint32_t>(op.operand[1])[std::countr_zero(w.mask ? w.mask : 1u)];
    for (int i = 0; i < warp_size; ++i) d[i] = value;
}

// Executes an operation on uniform registers once, whichever lanes are active. A uniform register
// has one value for the whole warp.
void whole_warp(Warp& w, const Op& op) {
    const LaneMask mask = w.mask;
    if (op.guard != no_operand) {
        const LaneMask p = w.predicate(op.guard);
        if (!(mask & (op.guard_negated ? ~p : p))) return;
    }
    w.mask = all_lanes;
    op.inner(w, op);
    w.mask = mask;
}

// Instructions of the copy engine have their operands in uniform registers. A warp executes them
// once, whichever lanes are active. On the simulator, the first active lane executes them for the
// warp.
void one_lane(Warp& w, const Op& op) {
    const LaneMask mask = w.mask;
    LaneMask active = mask;
    if (op.guard != no_operand) {
        const LaneMask p = w.predicate(op.guard);
        active &= op.guard_negated ? ~p : p;
    }
    if (!active) return;
    w.mask = active & (0 - active);
    op.inner(w, op);
    w.mask = mask;
}

// BRA.DIV tests whether the lanes of mask a have diverged. Lanes of the mask that have exited are
// ignored. Predicate d is set if any other lane of the mask is inactive, or if predicate b is false
// in one of these lanes. BRA.CONV sets d in the opposite case.
//
// Predicate d is also set if only a part of the warp is here, with lanes that are not in the mask.
// An H200 does not do this. But so the WARPSYNC that follows refuses these lanes, as a run of the
// PTX does, where it is not known which instructions the assembler chooses.
template <bool opposite>
void has_diverged(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const LaneMask members = a[std::countr_zero(w.mask)] & w.live;
    const LaneMask here = w.mask & w.predicate(op.operand[2]);
    const bool outside = w.mask != w.live && (here & ~members);
    const bool diverged = (members & ~here) || outside;
    store(w, op.operand[0], diverged != opposite ? all_lanes : 0);
}

// Loads d from a constant bank. The address is a + offset.
template <class T>
void load_bank(Warp& w, const Op& op) {
    const auto& from = op.get<ConstantBank>();
    const std::vector<std::byte>& bank = w.block->banks[from.bank];
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const int words = sizeof(T) == 8 ? 2 : 1;
    for_each_lane(w.mask, [&](int i) { w.address[i] = uint32_t(a[i] + from.offset); });
    if (from.bank == 0) require_parameters(w, op, w.mask, sizeof(T), w.address);
    for_each_lane(w.mask, [&](int i) {
        const uint64_t at = w.address[i];
        T value{};
        if (at + sizeof value <= bank.size()) std::memcpy(&value, bank.data() + at, sizeof value);
        using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
        const uint64_t bits = uint64_t(Wide(value));
        for (int n = 0; n < words; ++n) d[n * next_register + i] = uint32_t(bits >> (32 * n));
    });
}

// FCHK sets predicate d if the division a / b cannot be computed with the short sequence of
// instructions that compilers normally use.
void needs_slow_division(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    LaneMask m = 0;
    for (int i = 0; i < warp_size; ++i) {
        const int p = int(a[i] >> 23 & 255), q = int(b[i] >> 23 & 255);
        // The GPU divides with a short sequence of instructions if a, b, the quotient and all
        // intermediate remainders are normal numbers. Otherwise it needs a longer sequence.
        const bool slow =
            q == 0 || q >= 253 || p == 255 || p <= 24 || p - q >= 126 || p - q <= -126;
        m |= LaneMask(slow) << i;
    }
    store(w, op.operand[0], m);
}

// d is the minimum of a + b and c if the predicate in operand 4 is true, and otherwise the maximum.
template <class T>
void add_min_max(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const T* c = w.lanes<const T>(op.operand[3]);
    const LaneMask least = w.predicate(op.operand[4]);
    put_words(w, op.operand[0], [=](int i) {
        const T sum = T(a[i] + b[i]);
        return uint32_t(has_lane(least, i) ? std::min(sum, c[i]) : std::max(sum, c[i]));
    });
}

// FMNMX: d is the minimum of a and b if the predicate in operand 3 is true, and otherwise the
// maximum. A NaN is ignored.
void min_max_float(Warp& w, const Op& op) {
    const float* a = w.lanes<const float>(op.operand[1]);
    const float* b = w.lanes<const float>(op.operand[2]);
    const LaneMask least = w.predicate(op.operand[3]);
    put_words(w, op.operand[0], [=](int i) {
        const float x = a[i], y = b[i];
        const bool x_less = x < y || (x == y && std::signbit(x));
        float value = (has_lane(least, i) != 0) == x_less ? x : y;
        if (x != x) value = y;
        if (y != y) value = x;
        return std::bit_cast<uint32_t>(canonical(value));
    });
}

// Computes the absolute differences of the bytes of a and b. With `sum`, adds them to c.
template <bool sum>
struct byte_differences {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        uint32_t d = sum ? c : 0;
        for (int n = 0; n < 32; n += 8) {
            const uint32_t x = a >> n & 255, y = b >> n & 255, by = x < y ? y - x : x - y;
            d += sum ? by : by << n;
        }
        return d;
    }
};

void nothing(Warp&, const Op&) {}

constexpr MachineHandler handlers[] = {
    {MachineOp::move, &move},
    {MachineOp::add3, &lanewise<add3, uint32_t, uint32_t, uint32_t, uint32_t>},
    {MachineOp::add_carry, &add_carry},
    {MachineOp::add3_carry, &add3_carry},
    {MachineOp::shift_add, &shift_add},
    {MachineOp::shift_add_carry, &shift_add_carry},
    {MachineOp::multiply_add_carry, &multiply_add_carry},
    {MachineOp::multiply_high_u32, &multiply_high<uint32_t>},
    {MachineOp::multiply_high_s32, &multiply_high<int32_t>},
    {MachineOp::shift_pair, &shift_pair},
    {MachineOp::shift_funnel, &shift_funnel},
    {MachineOp::shift_left, &shift_word<uint32_t, false>},
    {MachineOp::shift_right_u32, &shift_word<uint32_t, true>},
    {MachineOp::shift_right_s32, &shift_word<int32_t, true>},
    {MachineOp::compare_upper_u32, &compare_upper<uint32_t>},
    {MachineOp::compare_upper_s32, &compare_upper<int32_t>},
    {MachineOp::predicate_logic, &predicate_logic},
    {MachineOp::not_zero_or, &not_zero<false>},
    {MachineOp::not_zero_and, &not_zero<true>},
    {MachineOp::predicates_to_word, &predicates_to_word},
    {MachineOp::word_to_predicates, &word_to_predicates},
    {MachineOp::vote, &vote},
    {MachineOp::broadcast, &broadcast},
    {MachineOp::whole_warp, &whole_warp},
    {MachineOp::one_lane, &one_lane},
    {MachineOp::has_diverged, &has_diverged<false>},
    {MachineOp::has_converged, &has_diverged<true>},
    {MachineOp::load_bank_u8, &load_bank<uint8_t>},
    {MachineOp::load_bank_s8, &load_bank<int8_t>},
    {MachineOp::load_bank_u16, &load_bank<uint16_t>},
    {MachineOp::load_bank_s16, &load_bank<int16_t>},
    {MachineOp::load_bank_b32, &load_bank<uint32_t>},
    {MachineOp::load_bank_b64, &load_bank<uint64_t>},
    {MachineOp::needs_slow_division, &needs_slow_division},
    {MachineOp::add_min_max_s32, &add_min_max<int32_t>},
    {MachineOp::add_min_max_u32, &add_min_max<uint32_t>},
    {MachineOp::byte_differences,
     &lanewise<byte_differences<false>, uint32_t, uint32_t, uint32_t, uint32_t>},
    {MachineOp::byte_differences_sum,
     &lanewise<byte_differences<true>, uint32_t, uint32_t, uint32_t, uint32_t>},
    {MachineOp::min_max_f32, &min_max_float},
    {MachineOp::sine_of_turns, &lanewise<sine_of_turns, float, float>},
    {MachineOp::cosine_of_turns, &lanewise<cosine_of_turns, float, float>},
    {MachineOp::nothing, &nothing},
};
constexpr size_t pairs = size_t(MachineOp::join_pair);
static_assert(are_in_order(handlers, 0) && std::size(handlers) == pairs);

}  // namespace

Handler select_machine(MachineOp op) {
    return size_t(op) < pairs ? handlers[size_t(op)].run : select_pair(op);
}

}  // namespace coalesce::sim::COALESCE_ISA
