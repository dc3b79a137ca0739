// Tests that unsupported instructions are reported before the kernel runs, with the instruction and
// its line.
#include <gtest/gtest.h>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

std::string refusal(const std::string& text) {
    try {
        run_module(text, {Words{}});
    } catch (const UnsupportedInstruction& e) {
        return e.what();
    }
    return "";
}

class Unsupported : public testing::TestWithParam<const char*> {};

TEST_P(Unsupported, IsNamed) {
    const std::string instruction = GetParam();
    const std::string message = refusal(kernel_text(instruction + ";"));
    EXPECT_NE(message.find("cannot execute `" + instruction + "`"), std::string::npos) << message;
    EXPECT_NE(message.find("of the PTX"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Sim, Unsupported,
    testing::Values(
        "frobnicate.u32 %r0, %r1", "add.f32x2 %d0, %d1, %d2",
        // A modifier without a meaning is an error and is never ignored.
        "add.rn.oob.f32 %f0, %f1, %f2", "min.wrong.s32 %r0, %r1, %r2", "mul.wide.s64 %d0, %d1, %d2",
        "add.sat.u32 %r0, %r1, %r2", "cvt.rp.satfinite.ue8m0x2.f32 %h0, %f1, %f2",
        "cvt.rp.satfinite.e2m1x2.f32 %h0, %f1, %f2", "cvt.rn.e2m1x2.f32 %h0, %f1, %f2",
        "cvt.rz.satfinite.e4m3x2.f32 %h0, %f1, %f2", "cvt.pack.s16.s32 %r0, %r1, %r2",
        "vadd2.u32.u32.u32.max %r0, %r1, %r2, %r3", "vset4.u32.u32.num %r0, %r1, %r2, %r3",
        "vadd.u32.u32.u32 %r0, %r1, %r2, %r3", "vmin.u64.u32.u32 %r0, %r1, %r2",
        "vadd.s32.s32.s32.min %r0, %r1, %r2, %r3", "vadd.u32.u32.u32.sat %r0, %r1, %r2",
        "cvt.rna.relu.tf32.f32 %r0, %f1", "cvt.rn.sat.bf16.f64 %h0, %d1",
        "vset2.u32.u32.eq.max %r0, %r1, %r2, %r3", "redux.sync.min.f32 %f0, %f1, -1",
        "atom.global.add.u16 %h0, [%out], 1", "atom.global.min.f32 %f0, [%out], %f1",
        "ld.global.b128 %d0, [%in]", "cp.async.ca.shared.global [%r1], [%in], 5",
        "mma.sync.aligned.m8n8k4 %r0, %r1, %r2, %r3",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%r2]",
        "tex.1d.v2.f16x2.f32 {%r0, %r1}, [%d1, {%f1}]",
        "tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d1, %d2, {%f1}]",
        "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d1, {%f1, %f2}], {%r1, %r2}",
        "tex.2dms.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%d1, {%r1, %r2, %r3, %r3}]",
        "sust.p.1d.b32.trap [%d1, {%r1}], %r2", "txq.filter_mode.b32 %r0, [%d1]",
        "sured.b.add.1d.u32.trap [%d1, {%r1}], %r2", "vote.ballot.b32 %r0, %p1",
        "createpolicy.range.global.L2::evict_last.b64 %d0, [%in], 4096, 4096",
        "createpolicy.fractional.L2::evict_last.L2::evict_normal.b64 %d0, 1.0",
        "createpolicy.fractional.L2::evict_first.b32 %r0, 1.0", "createpolicy.cvt.b64 %d0, %d1",
        "min.relu.u16x2 %r0, %r1, %r2", "add.relu.s16x2 %r0, %r1, %r2", "bar.arrive.wrong 1, 64",
        "lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 1, %p1"),
    [](const auto& info) { return std::to_string(info.index); });

TEST(UnsupportedInstructions, NameTheLineOfTheSource) {
    const std::string message =
        refusal(kernel_text(".loc 1 42 7\n frobnicate.u32 %r0, %r1;", ".file 1 \"a.cu\"\n"));
    EXPECT_NE(message.find("line 42 of the CUDA source"), std::string::npos) << message;
}

TEST(UnsupportedInstructions, AreAlsoFoundInFunctions) {
    const std::string f = ".func f() { .reg .b32 %x; frobnicate.u32 %x, 1; ret; }\n";
    EXPECT_NE(refusal(kernel_text("call f;", f)).find("frobnicate"), std::string::npos);
    // Functions that are never called may contain anything.
    EXPECT_EQ(refusal(kernel_text("", f)), "");
}

TEST(UnsupportedInstructions, UnknownNames) {
    EXPECT_NE(refusal(kernel_text("mov.u32 %r0, %pm0;")).find("%pm0"), std::string::npos);
    const std::string external = ".extern .func (.param .b64 r) mystery (.param .b64 n);\n";
    const std::string call =
        "{ .param .b64 n; .param .b64 r; st.param.b64 [n], %d1; call (r), mystery, (n); }";
    EXPECT_NE(refusal(kernel_text(call, external)).find("mystery"), std::string::npos);
}

}  // namespace
}  // namespace coalesce::sim
