// Every instruction must have the same result on every instruction set of the host. This is tested
// for full warps, for a partial warp, and for warps with some inactive lanes.
#include <gtest/gtest.h>

#include <bit>
#include <initializer_list>
#include <random>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

using Texts = std::vector<std::string>;

// Returns one copy of the text for each value. In each copy, every '$' is replaced by the value.
Texts each(const std::string& text, std::initializer_list<const char*> values) {
    Texts out;
    for (const char* value : values) {
        std::string t = text;
        for (size_t at = t.find('$'); at != std::string::npos; at = t.find('$', at))
            t.replace(at, 1, value);
        out.push_back(t);
    }
    return out;
}

void add(Texts& all, const Texts& more) { all.insert(all.end(), more.begin(), more.end()); }

Texts integer_instructions() {
    Texts all;
    struct Width {
        const char *bits, *reg;
    };
    for (const Width w : {Width{"16", "%h"}, Width{"32", "%r"}, Width{"64", "%d"}}) {
        const std::string r = w.reg, d = r + "0, " + r + "1";
        const std::string two = d + ", " + r + "2;", three = d + ", " + r + "2, " + r + "3;";
        for (const std::string sign : {"s", "u"}) {
            const std::string t = sign + w.bits;
            for (const char* op :
                 {"add.", "sub.", "mul.lo.", "mul.hi.", "div.", "rem.", "min.", "max."})
                all.push_back(op + t + " " + two);
            for (const char* op : {"mad.lo.", "mad.hi.", "sad."})
                all.push_back(op + t + " " + three);
            all.push_back("shr." + t + " " + d + ", %r2;");
            for (const char* cmp : {"eq", "ne", "lt", "le", "gt", "ge"})
                all.push_back("setp." + std::string(cmp) + "." + t + " %p0, " + r + "1, " + r +
                              "2;");
            if (std::string(w.bits) != "64")
                all.push_back("mul.wide." + t +
                              (r == "%h" ? " %r0, %h1, %h2;" : " %d0, %r1, %r2;"));
            if (std::string(w.bits) == "16") continue;
            all.push_back("bfe." + t + " " + d + ", %r2, %r3;");
            add(all, each("bfind$." + t + " %r0, " + r + "1;", {"", ".shiftamt"}));
            add(all, each("$.cc." + t + " " + two + " addc." + t + " " + r + "4, " + r + "2, " + r +
                              "3; xor.b" + w.bits + " " + r + "0, " + r + "0, " + r + "4;",
                          {"add", "sub"}));
            add(all, each("mad.$.cc." + t + " " + three + " madc.$.cc." + t + " " + r + "4, " + r +
                              "2, " + r + "1, " + r + "3; addc." + t + " " + r + "0, " + r + "4, " +
                              r + "0;",
                          {"lo", "hi"}));
        }
        const std::string b = std::string("b") + w.bits;
        add(all, each("$." + b + " " + two, {"and", "or", "xor"}));
        add(all, each("$." + b + " " + d + ";", {"not", "cnot"}));
        add(all, each("$.s" + std::string(w.bits) + " " + d + ";", {"abs", "neg"}));
        all.push_back("shl." + b + " " + d + ", %r2;");
        all.push_back("selp." + b + " " + d + ", " + r + "2, %p3;");
        all.push_back("slct." + b + ".s32 " + d + ", " + r + "2, %r3;");
        if (std::string(w.bits) == "16") continue;
        add(all, each("$." + b + " %r0, " + r + "1;", {"popc", "clz"}));
        all.push_back("brev." + b + " " + d + ";");
        all.push_back("bfi." + b + " " + d + ", " + r + "2, %r2, %r3;");
    }
    const Texts words = {"add.sat.s32 %r0, %r1, %r2;",
                         "sub.sat.s32 %r0, %r1, %r2;",
                         "mad.hi.sat.s32 %r0, %r1, %r2, %r3;",
                         "mul24.lo.s32 %r0, %r1, %r2;",
                         "mul24.hi.u32 %r0, %r1, %r2;",
                         "mad24.hi.sat.s32 %r0, %r1, %r2, %r3;",
                         "mad24.lo.u32 %r0, %r1, %r2, %r3;",
                         "min.relu.s32 %r0, %r1, %r2;",
                         "fns.b32 %r0, %r1, %r2, %r3;",
                         "bmsk.clamp.b32 %r0, %r1, %r2;",
                         "bmsk.wrap.b32 %r0, %r1, %r2;",
                         "szext.clamp.s32 %r0, %r1, %r2;",
                         "szext.wrap.u32 %r0, %r1, %r2;",
                         "dp4a.s32.u32 %r0, %r1, %r2, %r3;",
                         "dp2a.hi.u32.s32 %r0, %r1, %r2, %r3;",
                         "lop3.b32 %r0, %r1, %r2, %r3, 0x6a;",
                         "add.u16x2 %r0, %r1, %r2;",
                         "min.s16x2 %r0, %r1, %r2;",
                         "max.relu.s16x2 %r0, %r1, %r2;",
                         "vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;",
                         "vavrg2.s32.s32.s32 %r0, %r1, %r2, %r3;",
                         "vset4.s32.u32.le %r0, %r1, %r2, %r3;",
                         "vset2.u32.u32.gt.add %r0, %r1, %r2, %r3;",
                         "vadd4.s32.s32.s32.sat %r0, %r1, %r2, %r3;",
                         "vsub2.u32.u32.u32.sat %r0, %r1, %r2, %r3;",
                         "cvt.pack.sat.s8.s32.b32 %r0, %r1, %r2, %r3;",
                         "cvt.pack.sat.u16.s32 %r0, %r1, %r2;",
                         "createpolicy.fractional.L2::evict_first.b64 %d0, %f1;"};
    add(all, words);
    add(all, each("prmt.b32$ %r0, %r1, %r2, %r3;",
                  {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"}));
    add(all, each("shf.$.b32 %r0, %r1, %r2, %r3;", {"l.wrap", "l.clamp", "r.wrap", "r.clamp"}));
    return all;
}

Texts floating_instructions() {
    Texts all;
    for (const std::string t : {"f32", "f64"}) {
        const std::string r = t == "f32" ? "%f" : "%g", d = r + "0, " + r + "1";
        const std::string two = d + ", " + r + "2;", three = d + ", " + r + "2, " + r + "3;";
        for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
            for (const std::string op : {"add", "sub", "mul", "div"})
                all.push_back(op + "." + mode + "." + t + " " + two);
            all.push_back("fma." + mode + "." + t + " " + three);
            add(all, each("$." + mode + "." + t + " " + d + ";", {"rcp", "sqrt"}));
            if (t == "f32") {
                for (const std::string op : {"add", "sub", "mul"}) {
                    add(all, each(op + "." + mode + "$.f32 " + two, {".ftz", ".sat", ".ftz.sat"}));
                }
                all.push_back("fma." + mode + ".ftz.sat.f32 " + three);
            }
        }
        add(all, each("$." + t + " " + two, {"min", "max"}));
        add(all, each("$." + t + " " + d + ";", {"abs", "neg"}));
        all.push_back("copysign." + t + " " + two);
        add(all, each("testp.$." + t + " %p0, " + r + "1;",
                      {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
        add(all, each("setp.$." + t + " %p0, " + r + "1, " + r + "2;",
                      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                       "num", "nan"}));
    }
    add(all, each("$.f32 %f0, %f1, %f2;",
                  {"min.NaN", "max.NaN", "min.ftz", "max.xorsign.abs", "min.NaN.xorsign.abs",
                   "div.approx", "div.full", "div.approx.ftz"}));
    add(all, each("$.f32 %f0, %f1;", {"rcp.approx", "sqrt.approx", "rsqrt.approx", "sin.approx",
                                      "cos.approx", "lg2.approx", "ex2.approx", "tanh.approx",
                                      "rcp.approx.ftz", "ex2.approx.ftz", "abs.ftz", "neg.ftz"}));
    add(all, each("$.f64 %g0, %g1;", {"rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz"}));
    all.push_back("slct.b32.f32 %r0, %r1, %r2, %f3;");
    all.push_back("slct.ftz.b64.f32 %d0, %d1, %d2, %f3;");
    all.push_back("set.lt.ftz.f32.f32 %f0, %f1, %f2;");
    all.push_back("set.geu.or.u32.f64 %r0, %g1, %g2, !%p3;");
    return all;
}

Texts half_instructions() {
    Texts all;
    for (const std::string t : {"f16", "bf16"}) {
        for (const std::string packed : {"", "x2"}) {
            const std::string r = packed.empty() ? "%h" : "%r", d = r + "0, " + r + "1";
            const std::string two = "." + t + packed + " " + d + ", " + r + "2;";
            for (const char* op : {"add", "sub", "mul", "min", "max", "min.NaN", "max.xorsign.abs"})
                all.push_back(op + two);
            all.push_back("fma.rn." + t + packed + " " + d + ", " + r + "2, " + r + "3;");
            all.push_back("fma.rn.relu." + t + packed + " " + d + ", " + r + "2, " + r + "3;");
            add(all, each("$." + t + packed + " " + d + ";", {"neg", "abs", "tanh.approx"}));
            if (t == "f16") {
                add(all, each("$" + two, {"add.ftz", "mul.sat", "sub.ftz.sat", "min.ftz"}));
                all.push_back("ex2.approx.f16" + packed + " " + d + ";");
            } else {
                all.push_back("ex2.approx.ftz.bf16" + packed + " " + d + ";");
            }
            all.push_back("set.lt." + t + packed + "." + t + packed + " " + d + ", " + r + "2;");
        }
        all.push_back("setp.leu." + t + " %p0, %h1, %h2;");
        all.push_back("setp.gt.and." + t + "x2 %p0|%p4, %r1, %r2, %p3;");
    }
    return all;
}

Texts conversions() {
    Texts all;
    struct Kind {
        const char *type, *reg;
    };
    const Kind integers[] = {{"u8", "%h"},  {"s8", "%h"},  {"u16", "%h"}, {"s16", "%h"},
                             {"u32", "%r"}, {"s32", "%r"}, {"u64", "%d"}, {"s64", "%d"}};
    const Kind floats[] = {{"f32", "%f"}, {"f64", "%g"}, {"f16", "%h"}, {"bf16", "%h"}};
    const auto cvt = [&](const std::string& how, const Kind& d, const Kind& s) {
        all.push_back("cvt" + how + "." + d.type + "." + s.type + " " + d.reg + "0, " + s.reg +
                      "1;");
    };
    for (const Kind& a : integers) {
        for (const Kind& b : integers) {
            cvt("", a, b);
            cvt(".sat", a, b);
        }
        for (const Kind& f : floats) {
            for (const char* mode : {".rni", ".rzi", ".rmi", ".rpi"}) cvt(mode, a, f);
            for (const char* mode : {".rn", ".rz", ".rm", ".rp"}) cvt(mode, f, a);
        }
    }
    for (const Kind& a : floats) {
        for (const char* mode : {".rni", ".rzi", ".rmi", ".rpi"}) cvt(mode, a, a);
        if (std::string_view(a.type) != "bf16") cvt(".sat", a, a);  // ptxas refuses it for bf16
    }
    for (const char* mode : {".rn", ".rz", ".rm", ".rp"}) {
        cvt(mode, floats[0], floats[1]);
        for (const Kind& h : {floats[2], floats[3]}) {
            cvt(mode, h, floats[0]);
            cvt(mode, h, floats[1]);
        }
        cvt(mode, floats[2], floats[3]);
        cvt(mode, floats[3], floats[2]);
    }
    for (const Kind& h : {floats[2], floats[3]}) {
        cvt("", floats[0], h);
        cvt("", floats[1], h);
        cvt(".rn.relu", h, floats[0]);
    }
    add(all, each("cvt.$.f32 %r0, %f1, %f2;",
                  {"rn.f16x2", "rz.f16x2", "rn.relu.f16x2", "rn.bf16x2", "rz.relu.bf16x2"}));
    all.push_back("cvt.rna.tf32.f32 %r0, %f1;");
    // Registers that are wider than the types.
    all.push_back("cvt.s8.s8 %d0, %r1;");
    all.push_back("cvt.u16.s8 %r0, %d1;");
    all.push_back("cvt.rzi.s16.f32 %d0, %f1;");
    all.push_back("cvt.sat.u8.s32 %d0, %d1;");
    return all;
}

std::vector<Words> inputs(size_t count) {
    std::mt19937_64 random(1);
    const auto word = [&]() -> uint64_t {
        const uint64_t bits = random();
        switch (random() % 8) {
            case 0: {  // extreme values of all types
                constexpr uint64_t edges[] = {0,
                                              1,
                                              2,
                                              31,
                                              32,
                                              UINT64_MAX,
                                              0x7fffffff,
                                              0x80000000,
                                              0x7fff,
                                              0x8000,
                                              0x7fffffffffffffff,
                                              0x8000000000000000,
                                              0x7f800000,
                                              0xff800000,
                                              0x7fc12345,
                                              0xffc00001,
                                              0x7ff0000000000000,
                                              0xfff8000000000001,
                                              0x00000001,
                                              0x80000001,
                                              0x7c00,
                                              0x7e01,
                                              0x0001};
                return edges[bits % std::size(edges)];
            }
            case 1:
                return bits >> (random() % 64);
            case 2:  // a value that is moderate both as a float and as a double
                return (std::bit_cast<uint64_t>(double(int64_t(bits)) * 0x1p-50) & ~0xffffffffull) |
                       std::bit_cast<uint32_t>(float(int32_t(bits)) * 0x1p-24f);
            case 3:
                return std::bit_cast<uint64_t>(double(int32_t(bits)) / 64);
            case 4:  // small numbers
                return bits % 70;
            default:
                return bits;
        }
    };
    std::vector<Words> all(count);
    for (Words& w : all) w = {word(), word(), word()};
    return all;
}

class InstructionSets : public testing::TestWithParam<Texts (*)()> {};

TEST_P(InstructionSets, Agree) {
    const Isa lowest = instruction_sets().front();
    const std::vector<Words> words = inputs(32 * 4 + 13);
    for (const std::string& text : GetParam()()) {
        SCOPED_TRACE(text);
        // The instruction runs first for all threads. In the second run, only threads whose third
        // word is odd execute it, and the results of the other threads stay zero.
        const ptx::Module module = ptx::parse(kernel_text(text));
        const ptx::Module some = ptx::parse(kernel_text("@!%p3 bra SKIP;\n" + text + "\nSKIP:\n"));
        std::vector<uint64_t> whole;
        ASSERT_NO_THROW(whole = run_module(module, words, lowest));
        for (const Isa isa : instruction_sets()) {
            const std::vector<uint64_t> part = run_module(some, words, isa);
            for (size_t i = 0; i < words.size(); ++i)
                ASSERT_EQ(part[i], words[i].c & 1 ? whole[i] : 0) << name_of(isa) << ", lane " << i;
            if (isa == lowest) continue;
            const std::vector<uint64_t> other = run_module(module, words, isa);
            for (size_t i = 0; i < words.size(); ++i) {
                ASSERT_EQ(other[i], whole[i])
                    << name_of(isa) << std::hex << ", words " << words[i].a << ", " << words[i].b
                    << ", " << words[i].c;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Sim, InstructionSets,
                         testing::Values(&integer_instructions, &floating_instructions,
                                         &half_instructions, &conversions));

}  // namespace
}  // namespace coalesce::sim
