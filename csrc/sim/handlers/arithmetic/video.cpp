// Video instructions: one 32-bit, two 16-bit or four 8-bit operations in a register (PTX ISA,
// "Video Instructions"). CUDA's __vabsdiffu4, __vsadu2 and similar functions use these. In PTX,
// selectors and masks can choose which elements are used, and in which order. Only the default is
// simulated: all elements, in their order.
#include "sim/handlers/arithmetic/integer_functions.hpp"
#include "sim/handlers/comparison.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

using ptx::Type;

// Functions of two elements. The elements and the result are of type int64_t, which is always large
// enough.
struct sum {
    static int64_t of(int64_t a, int64_t b) { return a + b; }
};
struct difference {
    static int64_t of(int64_t a, int64_t b) { return a - b; }
};
struct average {
    // A result that ends in .5 is rounded away from zero.
    static int64_t of(int64_t a, int64_t b) { return (a + b + (a + b >= 0)) >> 1; }
};
struct distance {
    static int64_t of(int64_t a, int64_t b) { return a < b ? b - a : a - b; }
};

int64_t extended(uint32_t word, int at, int width, bool is_signed) {
    const int above = 64 - width;
    const uint64_t shifted = uint64_t{word >> at} << above;
    return is_signed ? int64_t(shifted) >> above : int64_t(shifted >> above);
}

// Applies F to each pair of elements of a and b. The payload says what happens to the results: they
// are packed, or clamped and packed, or added to c.
template <class F>
void video(Warp& w, const Op& op) {
    const auto how = op.get<VideoOperand>();
    const int width = how.width;
    const int64_t low = how.signed_result ? -(int64_t{1} << (width - 1)) : 0;
    const int64_t high = (int64_t{1} << (how.signed_result ? width - 1 : width)) - 1;
    uint32_t* d = w.lanes<uint32_t>(op.operand[0]);
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[1]);
    const uint32_t* b = w.lanes<const uint32_t>(op.operand[2]);
    const uint32_t* c = how.adds ? w.lanes<const uint32_t>(op.operand[3]) : a;
    for_each_lane(w.mask, [&](int i) {
        uint32_t packed = 0, total = c[i];
        for (int at = 0; at < 32; at += width) {
            int64_t r = F::of(extended(a[i], at, width, how.signed_a),
                              extended(b[i], at, width, how.signed_b));
            if (how.saturates) r = r < low ? low : r > high ? high : r;
            packed |= uint32_t(uint64_t(r) << (64 - width) >> (64 - width)) << at;
            total += uint32_t(r);
        }
        d[i] = how.adds ? total : packed;
    });
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

// Whether a result of 32 bits may be greater than 2^32 - 1. PTX clamps such a result with .sat, but
// the code that the assembler makes does not. The simulator refuses these instructions, and those
// that combine the result with c by .min and .max: their code does not follow PTX either.
bool may_exceed(OpCode code, const VideoOperand& how) {
    if (code == OpCode::vadd) return !(how.signed_a && how.signed_b);
    if (code == OpCode::vsub) return !how.signed_a && how.signed_b;
    return code == OpCode::vabsdiff && how.signed_a != how.signed_b;
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
    VideoOperand how;
    switch (in.code) {
        case OpCode::vadd2:
        case OpCode::vsub2:
        case OpCode::vavrg2:
        case OpCode::vabsdiff2:
        case OpCode::vmin2:
        case OpCode::vmax2:
            how.width = 16;
            break;
        case OpCode::vadd:
        case OpCode::vsub:
        case OpCode::vabsdiff:
        case OpCode::vmin:
        case OpCode::vmax:
            how.width = 32;
            break;
        default:
            how.width = 8;
    }
    const Type d = m.take_type(), a = m.take_type(), b = m.take_type();
    if (!is_word(d) || !is_word(a) || !is_word(b)) return {};
    how.signed_result = d == Type::s32;
    how.signed_a = a == Type::s32;
    how.signed_b = b == Type::s32;
    how.saturates = m.take("sat");
    how.adds = m.take("add");
    const bool scalar = how.width == 32;
    if (scalar && how.saturates && !how.signed_result && may_exceed(in.code, how)) return {};
    // c is always written in the instructions on halves and bytes, but has no effect if all
    // elements are packed.
    const size_t operands = scalar && !how.adds ? 3 : 4;
    if (in.operands.size() != operands) return {};
    const Handler run = [&]() -> Handler {
        switch (in.code) {
            case OpCode::vadd:
            case OpCode::vadd2:
            case OpCode::vadd4:
                return &video<sum>;
            case OpCode::vsub:
            case OpCode::vsub2:
            case OpCode::vsub4:
                return &video<difference>;
            case OpCode::vavrg2:
            case OpCode::vavrg4:
                return &video<average>;
            case OpCode::vabsdiff:
            case OpCode::vabsdiff2:
            case OpCode::vabsdiff4:
                return &video<distance>;
            case OpCode::vmin:
            case OpCode::vmin2:
            case OpCode::vmin4:
                return &video<minimum>;
            case OpCode::vmax:
            case OpCode::vmax2:
            case OpCode::vmax4:
                return &video<maximum>;
            default:
                return nullptr;
        }
    }();
    Selection s = selection(run, {Type::b32, Type::b32, Type::b32});
    if (operands == 4) s.types.push_back(Type::b32);
    s.payload = how;
    return s;
}

}  // namespace coalesce::sim::COALESCE_ISA
