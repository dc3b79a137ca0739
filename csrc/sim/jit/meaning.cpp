#include "sim/jit/meaning.hpp"

#include <string_view>

#include "sim/warp/selection.hpp"

namespace coalesce::sim::jit {

namespace {

using Texts = std::vector<std::string>;

// A template argument for the name of an LLVM instruction.
template <size_t n>
struct Name {
    char text[n];
    consteval Name(const char (&t)[n]) {
        for (size_t i = 0; i < n; ++i) text[i] = t[i];
    }
};

template <Name op, LaneType t>
std::string binary(Writer& e, const Texts& a) {
    return e.binary(op.text, t, a[0], a[1]);
}
template <Name name, LaneType t>
std::string intrinsic(Writer& e, const Texts& a) {
    return e.intrinsic(name.text, t, a);
}
template <Name op, LaneType from, LaneType to>
std::string cast(Writer& e, const Texts& a) {
    return e.cast(op.text, from, to, a[0]);
}
template <LaneType t>
std::string multiply_add(Writer& e, const Texts& a) {
    return e.binary("add", t, e.binary("mul", t, a[0], a[1]), a[2]);
}
template <Name extend, LaneType narrow, LaneType wide>
std::string wide_product(Writer& e, const Texts& a) {
    const std::string x = e.cast(extend.text, narrow, wide, a[0]);
    const std::string p = e.binary("mul", wide, x, e.cast(extend.text, narrow, wide, a[1]));
    return a.size() == 2 ? p : e.binary("add", wide, p, a[2]);
}
template <Name extend, LaneType narrow, LaneType wide>
std::string high_product(Writer& e, const Texts& a) {
    const std::string p = wide_product<extend, narrow, wide>(e, {a[0], a[1]});
    const std::string high = e.binary("lshr", wide, p, e.c(narrow.bits, wide.bits));
    return e.cast("trunc", wide, narrow, high);
}
template <LaneType t>
std::string choose(Writer& e, const Texts& a) {
    return e.choose(a[2], t, a[0], a[1]);
}
template <LaneType t>
std::string bit_not(Writer& e, const Texts& a) {
    return e.binary("xor", t, a[0], e.c(t.bits == 1 ? 1 : -1, t.bits));
}
template <LaneType t>
std::string negate(Writer& e, const Texts& a) {
    return e.binary("sub", t, e.c(0, t.bits), a[0]);
}
// The shift count has 32 bits, and is not taken modulo the width.
template <Name op, LaneType t>
std::string shift(Writer& e, const Texts& a) {
    const bool arithmetic = std::string_view(op.text) == "ashr";
    const std::string most = e.c(t.bits - 1, 32);
    const std::string within = e.compare("ule", i32, a[1], most);
    std::string count = e.choose(within, i32, a[1], most);
    if (t.bits > 32) count = e.cast("zext", i32, t, count);
    if (t.bits < 32) count = e.cast("trunc", i32, t, count);
    const std::string shifted = e.binary(op.text, t, a[0], count);
    return arithmetic ? shifted : e.choose(within, t, shifted, e.c(0, t.bits));
}
template <Name name>
std::string funnel(Writer& e, const Texts& a) {  // shf.wrap: the operands are low, high, count
    return e.intrinsic(name.text, i32, {a[1], a[0], a[2]});
}
std::string reciprocal(Writer& e, const Texts& a) {
    const std::string one = e.cast("bitcast", i32, f32, e.c(0x3f800000, 32));
    return e.binary("fdiv", f32, one, a[0]);
}
std::string reciprocal_root(Writer& e, const Texts& a) {
    const std::string one = e.cast("bitcast", i64, f64, e.c(0x3ff0000000000000, 64));
    const std::string root = e.intrinsic("sqrt", f64, {e.cast("fpext", f32, f64, a[0])});
    return e.cast("fptrunc", f64, f32, e.binary("fdiv", f64, one, root));
}
// min and max: if an operand is a NaN, the result is the other. -0 is less than +0.
template <bool least>
std::string extreme(Writer& e, const Texts& a) {
    const std::string x = e.cast("bitcast", f32, i32, a[0]), y = e.cast("bitcast", f32, i32, a[1]);
    const std::string both = e.binary(least ? "or" : "and", i32, x, y);
    const std::string less = e.compare("olt", f32, a[0], a[1]);
    std::string r = e.choose(less, f32, least ? a[0] : a[1], least ? a[1] : a[0]);
    r = e.choose(e.compare("oeq", f32, a[0], a[1]), f32, e.cast("bitcast", i32, f32, both), r);
    r = e.choose(e.compare("uno", f32, a[1], a[1]), f32, a[0], r);
    return e.choose(e.compare("uno", f32, a[0], a[0]), f32, a[1], r);
}
template <LaneType t>
std::string population(Writer& e, const Texts& a) {
    const std::string n = e.intrinsic("ctpop", t, a);
    return t.bits == 64 ? e.cast("trunc", t, i32, n) : n;
}
template <LaneType t>
std::string leading_zeros(Writer& e, const Texts& a) {
    const std::string n = e("call " + e.type(t) + " @llvm.ctlz" + e.suffix(t) + "(" + e.type(t) +
                            " " + a[0] + ", i1 false)");
    return t.bits == 64 ? e.cast("trunc", t, i32, n) : n;
}

Meaning lanes(LaneType result, std::vector<LaneType> operands, Meaning::Emit emit,
              Linear linear = Linear::none) {
    Meaning m;
    m.kind = Kind::lanes;
    m.result = result;
    m.operands = std::move(operands);
    m.emit = emit;
    m.linear = linear;
    return m;
}

Meaning of_kind(Kind kind, LaneType result = i32, std::vector<LaneType> operands = {}) {
    Meaning m;
    m.kind = kind;
    m.result = result;
    m.operands = std::move(operands);
    return m;
}

Meaning comparison(LaneType type, bool is_signed = false) {
    Meaning m = of_kind(Kind::compare, i1, {type});
    m.is_signed = is_signed;
    return m;
}

}  // namespace

// Adds the meaning of the handler that executes this form, such as "add.u32".
void Meanings::add(const Engine& engine, const std::string& form, Meaning meaning) {
    std::vector<std::string_view> parts = parts_of(form);
    parts.erase(parts.begin());
    Modifiers modifiers{std::span<const std::string_view>(parts)};
    static const std::vector<ptx::Operand> none(2);
    const Selection s = engine.ops->select({opcode_named(form), none}, modifiers);
    if (s.run) meanings_.emplace(s.run, std::move(meaning));
}

Meanings::Meanings(const Engine& engine) {
    const auto one = [&](const std::string& form, Meaning m) { add(engine, form, std::move(m)); };
    const auto integers = [&]<LaneType t>() {
        const std::string b = std::to_string(t.bits);
        one("add.u" + b, lanes(t, {t, t}, &binary<"add", t>, Linear::sum));
        one("sub.u" + b, lanes(t, {t, t}, &binary<"sub", t>, Linear::difference));
        one("mul.lo.u" + b, lanes(t, {t, t}, &binary<"mul", t>, Linear::product));
        one("mad.lo.u" + b, lanes(t, {t, t, t}, &multiply_add<t>, Linear::product_sum));
        one("and.b" + b, lanes(t, {t, t}, &binary<"and", t>, Linear::conjunction));
        one("or.b" + b, lanes(t, {t, t}, &binary<"or", t>));
        one("xor.b" + b, lanes(t, {t, t}, &binary<"xor", t>));
        one("not.b" + b, lanes(t, {t}, &bit_not<t>));
        one("neg.s" + b, lanes(t, {t}, &negate<t>));
        one("min.u" + b, lanes(t, {t, t}, &intrinsic<"umin", t>));
        one("max.u" + b, lanes(t, {t, t}, &intrinsic<"umax", t>));
        one("min.s" + b, lanes(t, {t, t}, &intrinsic<"smin", t>));
        one("max.s" + b, lanes(t, {t, t}, &intrinsic<"smax", t>));
        for (const char* type : {"b", "u"}) {
            one(std::string("shl.") + type + b,
                lanes(t, {t, i32}, &shift<"shl", t>, Linear::left_shift));
            one(std::string("shr.") + type + b,
                lanes(t, {t, i32}, &shift<"lshr", t>, Linear::right_shift));
        }
        one("shl.s" + b, lanes(t, {t, i32}, &shift<"shl", t>, Linear::left_shift));
        one("shr.s" + b, lanes(t, {t, i32}, &shift<"ashr", t>, Linear::right_shift));
        one("mov.b" + b, lanes(t, {t}, nullptr, Linear::copy));
        one("selp.b" + b, lanes(t, {t, t, i1}, &choose<t>));
        one("setp.eq.u" + b, comparison(t));
        one("setp.eq.s" + b, comparison(t, true));
    };
    integers.operator()<i16>();
    integers.operator()<i32>();
    integers.operator()<i64>();
    one("setp.eq.f32", comparison(f32));
    one("mul.wide.u32",
        lanes(i64, {i32, i32}, &wide_product<"zext", i32, i64>, Linear::unsigned_wide_product));
    one("mul.wide.s32",
        lanes(i64, {i32, i32}, &wide_product<"sext", i32, i64>, Linear::signed_wide_product));
    one("mad.wide.u32", lanes(i64, {i32, i32, i64}, &wide_product<"zext", i32, i64>));
    one("mad.wide.s32", lanes(i64, {i32, i32, i64}, &wide_product<"sext", i32, i64>));
    one("mul.wide.u16", lanes(i32, {i16, i16}, &wide_product<"zext", i16, i32>));
    one("mul.wide.s16", lanes(i32, {i16, i16}, &wide_product<"sext", i16, i32>));
    one("mul.hi.u32", lanes(i32, {i32, i32}, &high_product<"zext", i32, i64>));
    one("mul.hi.s32", lanes(i32, {i32, i32}, &high_product<"sext", i32, i64>));
    one("popc.b32", lanes(i32, {i32}, &population<i32>));
    one("popc.b64", lanes(i32, {i64}, &population<i64>));
    one("clz.b32", lanes(i32, {i32}, &leading_zeros<i32>));
    one("clz.b64", lanes(i32, {i64}, &leading_zeros<i64>));
    one("shf.l.wrap.b32", lanes(i32, {i32, i32, i32}, &funnel<"fshl">));
    one("shf.r.wrap.b32", lanes(i32, {i32, i32, i32}, &funnel<"fshr">));
    one("add.f32", lanes(f32, {f32, f32}, &binary<"fadd", f32>));
    one("sub.f32", lanes(f32, {f32, f32}, &binary<"fsub", f32>));
    one("mul.f32", lanes(f32, {f32, f32}, &binary<"fmul", f32>));
    one("fma.rn.f32", lanes(f32, {f32, f32, f32}, &intrinsic<"fma", f32>));
    one("div.rn.f32", lanes(f32, {f32, f32}, &binary<"fdiv", f32>));
    one("rcp.rn.f32", lanes(f32, {f32}, &reciprocal));
    one("sqrt.rn.f32", lanes(f32, {f32}, &intrinsic<"sqrt", f32>));
    one("rsqrt.approx.f32", lanes(f32, {f32}, &reciprocal_root));
    one("min.f32", lanes(f32, {f32, f32}, &extreme<true>));
    one("max.f32", lanes(f32, {f32, f32}, &extreme<false>));
    one("cvt.rn.f32.s32", lanes(f32, {i32}, &cast<"sitofp", i32, f32>));
    one("cvt.rn.f32.u32", lanes(f32, {i32}, &cast<"uitofp", i32, f32>));
    one("cvta.to.global.u64", of_kind(Kind::add_constant, i64, {i64}));
    one("and.pred", lanes(i1, {i1, i1}, &binary<"and", i1>));
    one("or.pred", lanes(i1, {i1, i1}, &binary<"or", i1>));
    one("xor.pred", lanes(i1, {i1, i1}, &binary<"xor", i1>));
    one("mov.pred", lanes(i1, {i1}, nullptr, Linear::copy));
    meanings_.emplace(engine.ops->predicate_not, lanes(i1, {i1}, &bit_not<i1>));
    meanings_.emplace(engine.ops->special(Special::tid_x, ptx::Type::u32).run,
                      of_kind(Kind::special, i32));
    const auto resize = [&](ptx::Type from, LaneType s, LaneType d, Meaning::Emit emit,
                            Linear linear = Linear::none) {
        meanings_.emplace(engine.ops->resize(from, d.bits / 8), lanes(d, {s}, emit, linear));
    };
    using ptx::Type;
    resize(Type::u32, i32, i64, &cast<"zext", i32, i64>, Linear::unsigned_wide);
    resize(Type::s32, i32, i64, &cast<"sext", i32, i64>, Linear::signed_wide);
    resize(Type::u16, i16, i32, &cast<"zext", i16, i32>);
    resize(Type::s16, i16, i32, &cast<"sext", i16, i32>);
    resize(Type::u16, i16, i64, &cast<"zext", i16, i64>);
    resize(Type::s16, i16, i64, &cast<"sext", i16, i64>);
    for (const Type t : {Type::u64, Type::s64}) {
        resize(t, i64, i32, &cast<"trunc", i64, i32>);
        resize(t, i64, i16, &cast<"trunc", i64, i16>);
        resize(t, i64, i64, nullptr, Linear::copy);
    }
    for (const Type t : {Type::u32, Type::s32}) {
        resize(t, i32, i16, &cast<"trunc", i32, i16>);
        resize(t, i32, i32, nullptr, Linear::copy);
    }
    resize(Type::u16, i16, i16, nullptr, Linear::copy);
    resize(Type::s16, i16, i16, nullptr, Linear::copy);

    const MemoryHandlers& memory = engine.memory;
    for (const int space : {0, 1}) {
        for (const int access : {0, 1}) {
            Meaning m = of_kind(access ? Kind::store : Kind::load);
            m.shared = space == 1;
            meanings_.emplace(memory.access[space][access], m);
            meanings_.emplace(memory.words[space][access][0], m);
        }
    }
    meanings_.emplace(memory.load_parameter, of_kind(Kind::load_parameter));
    for (const Type t : {Type::u8, Type::s8, Type::u16, Type::s16, Type::u32, Type::s32, Type::u64,
                         Type::b8, Type::b16, Type::b32, Type::b64, Type::f32, Type::f64}) {
        for (const uint32_t width : {2u, 4u, 8u}) {
            for (const int count : {1, 2, 4}) {
                const auto bytes = ptx::size_of(t);
                if (bytes > width || bytes * uint32_t(count) > 16) continue;
                const Elements e{uint8_t(8 * bytes), uint8_t(8 * width), uint8_t(count),
                                 ptx::is_signed(t)};
                if (const Mover load = engine.ops->load(t, width, count)) movers_.emplace(load, e);
                if (const Mover store = engine.ops->store(t, width, count))
                    movers_.emplace(store, e);
            }
        }
    }
}

}  // namespace coalesce::sim::jit
