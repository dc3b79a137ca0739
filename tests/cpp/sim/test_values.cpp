// Tests instructions, modifiers and forms of operands that CUDA C++ rarely uses, and that the tests
// in tests/python/instructions do not compare with Python's numbers. The expected values were
// computed by hand from the PTX ISA.
#include <gtest/gtest.h>

#include <bit>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }

struct Case {
    const char* body;
    Words words;
    uint64_t result;
};

class Values : public testing::TestWithParam<Case> {};

TEST_P(Values, AsTheIsaSays) {
    const Case& c = GetParam();
    for (const Isa isa : instruction_sets())
        EXPECT_EQ(run_body(c.body, {c.words}, isa).front(), c.result) << c.body << name_of(isa);
}

constexpr uint64_t minus(int64_t n) { return uint64_t(-n); }
constexpr uint64_t low32(int64_t n) { return uint32_t(n); }

INSTANTIATE_TEST_SUITE_P(
    Integer, Values,
    testing::Values(
        Case{"vadd2.s32.s32.s32.sat %r0, %r1, %r2, %r3;", {0x7fff8000, 0x00018000, 0}, 0x7fff8000},
        Case{"vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3;", {0x00ff0102, 0x01ff0203, 9}, 0x01ff0203},
        Case{"vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;", {0x00ff0102, 0xff000201, 7}, 7 + 512},
        Case{"vset2.s32.s32.lt %r0, %r1, %r2, %r3;", {0x80000001, 0x00000001, 9}, 0x00010000},
        Case{"vset2.u32.s32.gt %r0, %r1, %r2, %r3;", {0xffff0000, 0xffffffff, 9}, 0x00010001},
        Case{"vset4.u32.u32.eq %r0, %r1, %r2, %r3;", {0x00ff0102, 0x00fe0103, 9}, 0x01000100},
        Case{"vset4.u32.u32.ge %r0, %r1, %r2, %r3;", {0x80ff0102, 0x7f000202, 9}, 0x01010001},
        Case{"vset4.s32.s32.ge %r0, %r1, %r2, %r3;", {0x80ff0102, 0x7f000202, 9}, 0x00000001},
        Case{"vset4.u32.u32.ne.add %r0, %r1, %r2, %r3;", {0x00ff0102, 0x00fe0103, 9}, 11},
        Case{"vadd2.s32.u32.s32.sat %r0, %r1, %r2, %r3;", {0xffff0005, 0x0001fffe, 0}, 0x7fff0003},
        Case{"vmin4.u32.u32.s32.sat %r0, %r1, %r2, %r3;", {0x01020380, 0x7f01ff80, 0}, 0x01010000},
        Case{"vsub4.u32.u32.u32.add %r0, %r1, %r2, %r3;", {0x01020304, 0x00000005, 100}, 105},
        Case{"vadd.s32.u32.u32.sat %r0, %r1, %r2;", {0xffffffff, 0xffffffff, 0}, 0x7fffffff},
        Case{"vsub.u32.s32.s32.sat %r0, %r1, %r2;", {1, 2, 0}, 0},
        Case{"vsub.s32.u32.u32 %r0, %r1, %r2;", {1, 2, 0}, 0xffffffff},
        Case{"vabsdiff.u32.s32.s32 %r0, %r1, %r2;", {0x80000000, 0x7fffffff, 0}, 0xffffffff},
        Case{"vadd.u32.u32.u32.add %r0, %r1, %r2, %r3;", {1, 2, 4}, 7},
        Case{"vmin.s32.s32.u32 %r0, %r1, %r2;", {low32(-1), 0xffffffff, 0}, 0xffffffff},
        Case{"vmax.u32.u32.s32 %r0, %r1, %r2;", {5, low32(-1), 0}, 5},
        Case{"vsub.u32.s32.s32.sat.add %r0, %r1, %r2, %r3;", {3, 4, 9}, 9}));

INSTANTIATE_TEST_SUITE_P(
    Floating, Values,
    testing::Values(
        // The result is the canonical NaN, whatever the operands are.
        Case{"neg.f32 %f0, %f1;", {0x7fc00000, 0, 0}, 0x7fffffff},
        Case{"abs.ftz.f32 %f0, %f1;", {0xff800001, 0, 0}, 0x7fffffff},
        Case{"neg.f16 %h0, %h1;", {0x7e01, 0, 0}, 0x7fff},
        Case{"abs.bf16x2 %r0, %r1;", {0xbf80ffc0, 0, 0}, 0x3f807fff},
        Case{"cvt.ftz.f32.f32 %f0, %f1;", {0x7fc00000, 0, 0}, 0x7fffffff},
        Case{"cvt.rna.tf32.f32 %r0, %f1;", {0x7fc00001, 0, 0}, 0x7fc00000},
        // The same steps as in machine code.
        Case{"div.full.f32 %f0, %f1, %f2;", {0x3f800000, 0x7f000000, 0}, 0x00400000},
        Case{"div.full.ftz.f32 %f0, %f1, %f2;", {0x7f000000, 0x00400000, 0}, 0x7f800000},
        Case{"cvt.rz.tf32.f32 %r0, %f1;", {0x3f801fff, 0, 0}, 0x3f800000},
        Case{"cvt.rn.relu.tf32.f32 %r0, %f1;", {0xbf801fff, 0, 0}, 0},
        Case{"cvt.rn.sat.f16.f64 %h0, %d1;", {0x4008000000000000, 0, 0}, 0x3c00},
        Case{"add.f32 %f0, %f1, %f2;", {0x7f800000, 0xff800000, 0}, 0x7fffffff},
        Case{"fma.rn.f32 %f0, %f1, %f2, %f3;", {0xffc12345, bits(1.f), bits(2.f)}, 0x7fffffff},
        Case{"sqrt.rn.f32 %f0, %f1;", {bits(-1.f), 0, 0}, 0x7fffffff},
        Case{"max.f32 %f0, %f1, %f2;", {0x7fc00001, 0xffc00002, 0}, 0x7fffffff},
        Case{"neg.f32 %f0, %f1;", {bits(0.f), 0, 0}, 0x80000000},
        Case{"min.f32 %f0, %f1, %f2;", {bits(0.f), bits(-0.f), 0}, 0x80000000},
        Case{"max.f64 %g0, %g1, %g2;", {bits(-0.0), bits(0.0), 0}, 0},
        Case{"sub.rm.f32 %f0, %f1, %f1;", {bits(3.f), 0, 0}, 0x80000000},
        Case{"sub.rn.f32 %f0, %f1, %f1;", {bits(3.f), 0, 0}, 0},
        Case{"add.rp.f64 %g0, %g1, 0d0000000000000001;", {bits(1.0), 0, 0}, bits(1 + 0x1p-52)},
        Case{"mul.rz.f32 %f0, %f1, %f1;", {bits(1e30f), 0, 0}, 0x7f7fffff},
        Case{"mul.rp.f32 %f0, %f1, %f1;", {bits(1e30f), 0, 0}, 0x7f800000},
        Case{"mul.rp.f32 %f0, %f1, %f1;", {bits(1e-30f), 0, 0}, 1},
        Case{"mul.rp.ftz.f32 %f0, %f1, %f2;", {1, bits(2.f), 0}, 0},
        Case{"add.sat.f32 %f0, %f1, %f2;", {0x7fc00000, 0, 0}, 0},
        Case{"add.sat.f32 %f0, %f1, %f2;", {bits(-3.f), 0, 0}, 0},
        Case{"rcp.approx.ftz.f64 %g0, %g1;", {1, 0, 0}, 0x7ff0000000000000},
        Case{"rcp.approx.ftz.f64 %g0, %g1;", {bits(-4.0), 0, 0}, bits(-0.25)},
        Case{"rsqrt.approx.f64 %g0, %g1;", {bits(16.0), 0, 0}, bits(0.25)},
        Case{"copysign.f32 %f0, %f1, %f2;", {bits(-1.f), 0x7fc00003, 0}, 0xffc00003},
        Case{"testp.normal.f64 %p0, %g1;", {bits(-0.0), 0, 0}, 1},
        Case{"testp.subnormal.f64 %p0, %g1;", {1, 0, 0}, 1},
        Case{"mul.f32 %f0, %f1, 1.5;", {bits(3.f), 0, 0}, bits(4.5f)},
        Case{"set.gt.f32.f32 %f0, %f1, 0f00000000;", {bits(2.f), 0, 0}, bits(1.f)},
        Case{"set.num.and.s32.f64 %r0, %g1, %g2, !%p3;", {bits(1.0), bits(2.0), 0}, 0xffffffff}));

INSTANTIATE_TEST_SUITE_P(
    Half, Values,
    testing::Values(
        // 1.5 * (1 + 2^-7) is a tie. The sign of a very small addend decides the rounding.
        Case{"fma.rn.bf16 %h0, %h1, %h2, %h3;", {0x71c0, 0x3f81, 0x8080}, 0x71c1},
        Case{"fma.rn.bf16 %h0, %h1, %h2, %h3;", {0x71c0, 0x3f81, 0x0080}, 0x71c2},
        Case{
            "fma.rn.bf16 %h0, %h1, %h2, %h3;", {0x3f80, 0x3f80, 0x3b80}, 0x3f80},  // a tie, to even
        Case{
            "fma.rn.bf16 %h0, %h1, %h2, %h3;", {0x3f81, 0x3f80, 0x3b80}, 0x3f82},  // a tie, to even
        Case{"add.f16 %h0, %h1, %h2;", {0x7bff, 0x4c00, 0}, 0x7c00},               // overflow
        Case{"add.sat.f16x2 %r0, %r1, %r2;", {0x3c00bc00, 0x3c003800, 0}, 0x3c000000},
        Case{"fma.rn.relu.f16 %h0, %h1, %h2, %h3;", {0x7e01, 0, 0}, 0x7fff},
        Case{"mul.ftz.f16 %h0, %h1, %h2;", {0x0400, 0x3800, 0}, 0},
        Case{"mul.f16 %h0, %h1, %h2;", {0x0400, 0x3800, 0}, 0x0200},
        Case{"min.xorsign.abs.f16 %h0, %h1, %h2;", {0xc000, 0x3c00, 0}, 0xbc00},
        Case{"neg.f16 %h0, %h1;", {0x7bff, 0, 0}, 0xfbff},
        Case{"setp.lt.ftz.f16 %p0, %h1, %h2;", {0x0001, 0x0002, 0}, 0},
        Case{"set.eq.f16x2.f16x2 %r0, %r1, %r2;", {0x3c004000, 0x3c003c00, 0}, 0x3c000000},
        Case{"set.eq.bf16x2.bf16x2 %r0, %r1, %r2;", {0x3f804000, 0x3f803f80, 0}, 0x3f800000}));

INSTANTIATE_TEST_SUITE_P(
    Conversion, Values,
    testing::Values(
        Case{"cvt.rzi.s32.f32 %r0, %f1;", {0x7fc00000, 0, 0}, 0},
        Case{"cvt.rzi.s32.f64 %r0, %g1;", {0x7ff8000000000000, 0, 0}, 0x80000000},
        Case{"cvt.rzi.u32.f64 %r0, %g1;", {0x7ff8000000000000, 0, 0}, 0x80000000},
        Case{"cvt.rzi.u64.f32 %d0, %f1;", {0x7fc00000, 0, 0}, uint64_t{1} << 63},
        Case{"cvt.rzi.u32.f32 %r0, %f1;", {bits(-5.f), 0, 0}, 0},
        Case{"cvt.rzi.u64.f32 %d0, %f1;", {bits(1e30f), 0, 0}, UINT64_MAX},
        Case{"cvt.rni.s64.f64 %d0, %g1;", {bits(-2.5), 0, 0}, minus(2)},
        Case{"cvt.rn.bf16.u64 %h0, %d1;", {(uint64_t{0x101} << 50) + 1, 0, 0}, 0x5c81},
        Case{"cvt.rn.bf16.u64 %h0, %d1;", {uint64_t{0x101} << 50, 0, 0}, 0x5c80},
        Case{"cvt.rz.f16.u32 %h0, %r1;", {70000, 0, 0}, 0x7bff},
        Case{"cvt.rn.f16.u32 %h0, %r1;", {70000, 0, 0}, 0x7c00},
        Case{"cvt.rp.f16.f32 %h0, %f1;", {bits(1e-20f), 0, 0}, 1},
        Case{"cvt.rm.bf16.f32 %h0, %f1;", {bits(-1e-44f), 0, 0}, 0x8001},
        Case{"cvt.rz.bf16.f16 %h0, %h1;", {0x3fff, 0, 0}, 0x3fff},
        Case{"cvt.rn.f16x2.f32 %r0, %f1, %f2;", {bits(1.f), bits(2.f), 0}, 0x3c004000},
        Case{"cvt.rz.relu.bf16x2.f32 %r0, %f1, %f2;", {bits(-1.f), 0x3fffffff, 0}, 0x00003fff},
        Case{"cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;", {300, low32(-1), 0x1234}, 0x1234ff00},
        Case{"cvt.ftz.f64.f32 %g0, %f1;", {1, 0, 0}, 0},
        Case{"cvt.sat.f32.f32 %f0, %f1;", {bits(7.f), 0, 0}, bits(1.f)},
        Case{"cvt.rpi.f16.f16 %h0, %h1;", {0x3801, 0, 0}, 0x3c00}));

INSTANTIATE_TEST_SUITE_P(
    Operands, Values,
    testing::Values(
        // Registers may be wider than the type. The low bits are read, and the result is
        // sign-extended.
        Case{"cvt.s8.s8 %d0, %r1;", {0x1ff, 0, 0}, minus(1)},
        Case{"cvt.u8.u8 %d0, %r1;", {0x1ff, 0, 0}, 0xff},
        Case{"cvt.rzi.s16.f32 %d0, %f1;", {bits(-2.f), 0, 0}, minus(2)},
        Case{"cvt.u32.s16 %r0, %d1;", {0x18000, 0, 0}, 0xffff8000},
        Case{"ld.global.s8 %d0, [%in];", {0x80, 0, 0}, minus(128)},
        Case{"ld.global.u16 %d0, [%in];", {0x18000, 0, 0}, 0x8000},
        Case{"ld.global.b8 %h0, [%in+1];", {0xabcd, 0, 0}, 0xab},
        // Special registers as operands of any width.
        Case{"mov.u16 %h0, %ntid.x;", {}, 1}, Case{"cvt.u64.u32 %d0, %nctaid.x;", {}, 1},
        Case{"add.u32 %r0, %ntid.y, %ntid.z;", {}, 2},
        // Negated predicates.
        Case{"selp.b32 %r0, 3, 4, !%p1;", {1, 0, 0}, 4},
        Case{"and.pred %p0, %p1, !%p2;", {1, 0, 0}, 1},
        Case{"or.pred %p0, !%p1, %p2;", {1, 0, 0}, 0}, Case{"mov.pred %p0, !%p1;", {0, 0, 0}, 1},
        Case{"not.pred %p0, !%p1;", {1, 0, 0}, 1},
        Case{"setp.eq.and.s32 %p0|%p4, %r1, 1, !%p2;", {1, 0, 0}, 1},
        Case{"setp.eq.xor.s32 _|%p0, %r1, 2, %p2;", {1, 1, 0}, 0},
        Case{"setp.eq.s32 %p0|_, %r1, 1;", {1, 0, 0}, 1},
        // Guards.
        Case{"@%p1 mov.u32 %r0, 5; @!%p1 mov.u32 %r0, 6;", {0, 0, 0}, 6},
        Case{"@!%p1 ld.global.u64 %d0, [%in+8];", {1, 77, 0}, 0},
        Case{"@%p1 st.global.u64 [%out], 9; ld.global.u64 %d0, [%out];", {1, 0, 0}, 9},
        Case{"@%p1 cvt.s8.s8 %d0, %r2;", {1, 0x80, 0}, minus(128)},
        Case{"@!%p1 cvt.s8.s8 %d0, %r2;", {1, 0x80, 0}, 0},
        Case{"@%p1 shfl.sync.idx.b32 %r0, %r2, 0, 31, -1;", {1, 4, 0}, 4},
        // Vectors of registers.
        Case{"mov.b64 {%r4, %r0}, %d1;", {0x500000003, 0, 0}, 5},
        Case{"mov.b64 {_, %r0}, %d1;", {0x500000003, 0, 0}, 5},
        Case{"mov.b64 %d0, {%r1, %r2};", {1, 2, 0}, 0x200000001},
        Case{"mov.b32 %r0, {%h1, %h2};", {1, 2, 0}, 0x20001},
        Case{"mov.b64 {%h4, %h5, %h6, %h0}, %d1;", {0x7000600050004, 0, 0}, 7},
        // Registers of several scopes with one name. Inline asm in CUDA often declares them.
        Case{".reg .b32 t; mov.u32 t, 5; { .reg .b64 t; L: mov.u64 t, 1; }"
             "{ .reg .pred t; setp.eq.s32 t, %r1, 1; @t bra L; bra M; L: ret; M: } mov.u32 %r0, t;",
             {},
             5},
        // Ranges of registers, and vectors.
        Case{".reg .b32 %q<3>, %q1<2>; mov.b32 %q1, 3; mov.b32 %q10, 4; mov.b32 %r0, %q1;", {}, 3},
        Case{
            ".reg .v2 .u32 v; ld.global.v2.u32 v, [%in]; mov.u32 %r0, v.y;", {9ull << 32, 0, 0}, 9},
        // Addresses and numbers in every notation.
        Case{"ld.global.u64 %d0, [ %in - 0x10 + 24 ];", {0, 77, 0}, 77},
        Case{"mov.f64 %g0, -2.5e-1;", {}, bits(-0.25)}, Case{"mov.f64 %g0, .5;", {}, bits(0.5)},
        Case{"mov.f32 %f0, -0f3F800000;", {}, bits(-1.f)},
        Case{"mov.u32 %r0, WARP_SZ-1;", {}, 31}));

INSTANTIATE_TEST_SUITE_P(
    CachePolicies, Values,
    testing::Values(
        Case{"createpolicy.cvt.L2.b64 %d0, %d1;", {0x123456789abcdef0, 0, 0}, 0x123456789abcdef0},
        Case{"createpolicy.fractional.L2::evict_last.b64 %d4, 1.0; "
             "st.global.L2::cache_hint.u64 [%out], %d1, %d4; ld.global.u64 %d0, [%out];",
             {9, 0, 0},
             9}));

TEST(Addresses, WindowsAndStateSpaces) {
    EXPECT_EQ(value_of("isspacep.global %p0, %in;"), 1u);
    EXPECT_EQ(value_of("isspacep.shared %p0, %in;"), 0u);
    const std::string shared = ".shared .b64 s[4];";
    EXPECT_EQ(value_of(shared + "mov.u64 %d4, s; cvta.shared.u64 %d4, %d4;"
                                "isspacep.shared %p0, %d4;"),
              1u);
    EXPECT_EQ(value_of(shared + "st.shared.u64 [s+8], 5; mov.u64 %d4, s; cvta.shared.u64 %d4, %d4;"
                                "ld.u64 %d0, [%d4+8];"),
              5u);
    EXPECT_EQ(value_of(shared + "mov.u32 %r4, s; st.shared.v2.u32 [%r4+16], {3, 4};"
                                "ld.shared.u64 %d0, [s+16];"),
              0x400000003u);
    EXPECT_EQ(value_of(".local .b32 l[8]; st.local.u32 [l+12], 6; ld.local.u32 %r0, [l+12];"), 6u);
    EXPECT_EQ(value_of(".local .align 8 .b8 l[64]; mov.u64 %d4, l; cvta.local.u64 %d4, %d4;"
                       "st.u64 [%d4+8], %d1; isspacep.local %p4, %d4;"
                       "@%p4 ld.local.u64 %d0, [l+8];",
                       {42, 0, 0}),
              42u);
    const std::string constant =
        kernel_text("mov.u64 %d4, c; isspacep.const %p0, %d4; @!%p0 isspacep.const %p0, %in;",
                    ".const .b32 c[2] = {1, 2};\n");
    EXPECT_EQ(run_module(constant, {Words{}}).front(), 1u);
}

TEST(Memory, EveryWidth) {
    const std::string shared = ".shared .align 16 .b8 s[64]; mov.u32 %r4, s;";
    EXPECT_EQ(value_of(shared + "st.shared.v4.b8 [%r4], {1, 2, 3, 4}; ld.shared.u32 %r0, [%r4];"),
              0x04030201u);
    EXPECT_EQ(value_of(shared + "st.shared.v4.u16 [%r4], {%h1, 2, 3, %h1};"
                                "ld.shared.u64 %d0, [%r4];",
                       {9, 0, 0}),
              0x0009000300020009u);
    EXPECT_EQ(value_of(shared + "st.shared.v2.f64 [%r4], {%g1, 0d3FF0000000000000};"
                                "ld.shared.v2.b64 {_, %d0}, [%r4];"),
              bits(1.0));
    EXPECT_EQ(value_of(shared + "st.shared.v4.f32 [%r4], {%f1, %f2, %f3, 0f3F800000};"
                                "ld.shared.v4.f32 {%f4, %f5, %f6, %f0}, [%r4];"),
              bits(1.f));
}

TEST(Atomics, VectorsAndMissingResults) {
    const std::string shared = ".shared .align 16 .b8 s[64]; mov.u32 %r4, s;";
    EXPECT_EQ(value_of("st.global.u64 [%out], 0; red.global.add.v2.f32 [%out], {%f1, %f2};"
                       "ld.global.u64 %d0, [%out];",
                       {bits(1.f), bits(2.f), 0}),
              bits(2.f) << 32 | bits(1.f));
    EXPECT_EQ(value_of("st.global.u64 [%out], 0; atom.global.add.u32 _, [%out], 3;"
                       "atom.global.add.u32 %r0, [%out], 4;"),
              3u);
    EXPECT_EQ(value_of(shared + "st.shared.u64 [s], %d1; atom.shared.cas.b64 %d0, [s], %d1, %d2;",
                       {5, 6, 0}),
              5u);
    EXPECT_EQ(value_of(shared + "st.shared.b16 [s], 7; atom.shared.cas.b16 %h4, [s], 7, 8;"
                                "ld.shared.u16 %h0, [s];"),
              8u);
    EXPECT_EQ(value_of(shared + "st.shared.b32 [s], 0x3c003c00;"
                                "red.shared.add.noftz.f16x2 [s], 0x40003c00;"
                                "ld.shared.u32 %r0, [s];"),
              0x42004000u);
}

}  // namespace
}  // namespace coalesce::sim
