// Tests that operands that do not fit their instruction cause an error before the kernel runs, with
// line and column. Also tests that accesses outside a state space are faults when the kernel runs.
#include <gtest/gtest.h>

#include <string>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

constexpr const char* variables =
    ".global .align 8 .b8 ga[64]; .const .align 8 .b8 ca[64]; .shared .align 8 .b8 sa[64];\n";

class Misfits : public testing::TestWithParam<const char*> {};

TEST_P(Misfits, ArePtxErrors) {
    const std::string text = kernel_text(
        "\n" + std::string(" .reg .b8 %b<4>; .local .align 8 .b8 la[64];\n  ") + GetParam() + ";",
        variables);
    const size_t at = text.find(GetParam());
    try {
        run_module(text, {Words{}});
        FAIL() << GetParam() << " ran";
    } catch (const PtxError& e) {
        EXPECT_EQ(e.line, 1 + std::count(text.begin(), text.begin() + ptrdiff_t(at), '\n'));
        EXPECT_EQ(e.column, 3u);
        EXPECT_NE(std::string(e.what()).find(GetParam()), std::string::npos) << e.what();
    }
}

INSTANTIATE_TEST_SUITE_P(
    Sim, Misfits,
    testing::Values(
        // Vectors of registers of different widths.
        "ld.global.v4.u32 {%r4, %r5, %d6, %r7}, [%in]", "ld.global.v2.u16 {%h1, %d7}, [%in]",
        "ld.global.v2.u32 {%r4, %d6}, [%in]", "st.global.v2.u32 [%out], {%r4, %d6}",
        "st.global.v4.b8 [%out], {%h1, %r2, %h3, %h4}", "mov.b64 %d1, {%r1, %h1}",
        "mov.b64 {%r1, %d2}, %d1", "mov.b32 %r1, {%h1, %h2, %h3, %h4}",
        "ld.global.v2.u32 {%r1, %r2, %r3}, [%in]", "ld.global.v2.u32 %r1, [%in]",
        // Registers that are too narrow, too wide, or have the wrong class.
        "ld.global.u64 %r1, [%in]", "ld.global.u32 %p1, [%in]", "st.global.u32 [%out], %h1",
        "ld.global.pred %p1, [%in]", "add.u32 %r1, %d2, %r3", "add.u32 %d1, %r2, %r3",
        "add.f64 %g1, %f2, %g3", "mov.u32 %r1, %d1", "mov.b16 %h1, %b1", "mov.pred %p1, %clock",
        "selp.b32 %r1, %r2, %r3, %r4", "setp.eq.u32 %r1, %r2, %r3", "shl.b64 %d1, %d2, %d3",
        "shl.b32 %r1, %r2, %h1", "mul.wide.u32 %d1, %d2, %r3", "mad.wide.u32 %d1, %r2, %r3, %r4",
        "popc.b64 %d1, %d2", "cvt.u64.u32 %r1, %r2", "cvt.u32.u64 %r1, %r2",
        "prmt.b32 %r1, %r2, %r3, %d4", "shfl.sync.idx.b32 %d1, %r2, 0, 31, -1",
        "vote.sync.ballot.b32 %d1, %p1, -1", "atom.global.add.u32 %d2, [%out], %r1",
        "atom.global.add.u64 %d2, [%out], %r1", "red.global.add.v2.f32 [%out], {%f1, %g1}",
        "bar.sync %d1", "set.eq.u32.u32 %d1, %r1, %r2", "activemask.b32 %d1",
        "div.rz.f32 %f0, %f1, %f2, %f3, %f3, %f3, %f3, %f3",
        // Addresses.
        "ld.global.u32 %r1, [%h1]", "ld.global.u32 %r1, [%p1]", "ld.global.u32 %r1, [%g1]",
        "ld.shared.u32 %r1, [%f1]", "ld.global.u32 %r1, %d1", "ld.global.u32 %r1, [%d1, {%r1}]",
        "st.global.u32 [%h1], %r1", "atom.global.add.u32 %r1, [%h1], 1",
        "cp.async.ca.shared.global [%h1], [%in], 4", "cp.async.ca.shared.global [%r1], [%h1], 4",
        // State spaces.
        "ld.global.u32 %r1, [sa]", "ld.shared.u32 %r1, [la]", "ld.local.u32 %r1, [ga]",
        "ld.const.u32 %r1, [ga]", "ld.param.u32 %r1, [la]", "ld.u32 %r1, [in]",
        "atom.shared.add.u32 %r1, [ga], 1",
        // Wrong numbers of operands.
        "add.u32 %r1, %r2", "add.u32 %r1, %r2, %r3, %r4", "ld.global.u32 %r1",
        "ld.global.u32 %r1, [%in], %r2", "red.global.add.u32 [%out]",
        "atom.global.cas.b32 %r1, [%out], 1", "cp.async.wait_group %r1", "bar.sync",
        // A result that is no register.
        "add.s32 1, %r2, %r3"),
    [](const auto& info) { return std::to_string(info.index); });

TEST(Operands, ValidOperandsRun) {
    EXPECT_EQ(value_of("ld.global.v2.u32 {%d4, %d5}, [%in]; add.u64 %d0, %d4, %d5;",
                       {uint64_t{7} << 32 | 5, 0, 0}),
              12u);
    EXPECT_EQ(value_of(".reg .b8 %b<4>; mov.b32 {%b0, %b1, %b2, %b3}, %r1; "
                       "mov.b32 %r0, {%b3, %b2, %b1, %b0};",
                       {0x01020304, 0, 0}),
              0x04030201u);
    // A special register as an element of a vector.
    const std::string unpacked = "mov.b32 {%h1, %h2}, %laneid; mov.b32 %r0, {%h2, %h1};";
    EXPECT_EQ(run_body(unpacked, {Words{}, Words{}}), (std::vector<uint64_t>{0, 0x10000}));
    EXPECT_EQ(value_of("mov.b32 %r0, {0x1ff, 2, 3, 4};"), 0x040302ffu);
    EXPECT_EQ(value_of("cvt.u32.u8 %r0, 0x105;"), 5u);
    // Immediates next to registers that are wider than the type.
    const std::string body =
        ".local .align 8 .b8 la[8]; mov.u64 %d4, la; st.local.v2.u32 [%d4], {%d1, 0x80000001}; "
        "ld.local.u64 %d0, [%d4];";
    EXPECT_EQ(value_of(body, {5, 0, 0}), uint64_t{0x80000001} << 32 | 5);
}

class CallSites : public testing::TestWithParam<const char*> {};

TEST_P(CallSites, MustFitTheirFunction) {
    const std::string functions =
        ".func (.param .b32 r) f(.param .b32 a, .param .align 8 .b8 b[16])\n"
        "{ .reg .b32 %x; ld.param.u32 %x, [a]; st.param.b32 [r], %x; ret; }\n"
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
    const std::string body = std::string(
                                 "{ .param .b32 a; .param .align 8 .b8 b[16]; .param .b64 "
                                 "w; .param .align 4 .b8 n[16]; .param .b32 r;\n") +
                             GetParam() + "; }";
    EXPECT_THROW(run_module(kernel_text(body, functions), {Words{}}), PtxError) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Sim, CallSites,
                         testing::Values("call (r), f, (a)", "call (r), f, (w, b)",
                                         "call (w), f, (a, b)", "call f, (a, b)",
                                         "call (r), f, (a, n)", "call (r), f, (a, b, a)",
                                         "call (r), k, (a, b)", "call (r), vprintf, (a, a)",
                                         "call (r), vprintf, (w)", "call (b), vprintf, (w, w)",
                                         "st.param.b32 [a+4], %r1", "st.param.b64 [a], %d1",
                                         "ld.param.u32 %r1, [r+1]", "st.param.b32 [b+-4], %r1"),
                         [](const auto& info) { return std::to_string(info.index); });

// Each instruction accesses memory outside its state space, each in a different way.
class Outside : public testing::TestWithParam<const char*> {};

TEST_P(Outside, IsAFault) {
    const std::string text = kernel_text(
        std::string(".local .align 8 .b8 la[64];\n mov.u32 %r9, %tid.x; shl.b32 %r9, %r9, 2;\n"
                    " cvt.u64.u32 %d9, %r9; mov.u64 %d8, -64; add.u64 %d7, %d9, %d8;\n") +
            GetParam(),
        variables);
    for (const size_t threads : {size_t{32}, size_t{7}})
        EXPECT_THROW(run_module(text, std::vector<Words>(threads)), MemoryFault) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    Sim, Outside,
    testing::Values(
        "ld.param.u32 %r0, [in+20];", "ld.param.u32 %r0, [in+65536];", "ld.param.u32 %r0, [in+-4];",
        "ld.param.u64 %d0, [in+4294967296];", "ld.param.u32 %r0, [%d8];",
        "mov.u64 %d4, in; ld.param.u32 %r0, [%d4+20];", "ld.param.u32 %r0, [%d7];",
        "mov.u64 %d4, in; add.u64 %d4, %d4, %d9; ld.param.u32 %r0, [%d4+-12];",
        "ld.shared.u32 %r0, [%d7];", "st.shared.u32 [%d7], %r1;", "ld.shared.u32 %r0, [sa+64];",
        "ld.shared.u32 %r0, [%r9+-64];", "ld.shared.u32 %r0, [%d8];", "ld.local.u32 %r0, [%d7];",
        "st.local.u32 [%d7], %r1;", "ld.local.u32 %r0, [%d8];", "ld.local.u32 %r0, [la+524288];",
        "ld.global.u32 %r0, [%d7];", "ld.global.u32 %r0, [ga+64];", "ld.const.u32 %r0, [ca+64];",
        "mov.u64 %d4, ca; st.global.u32 [%d4], %r0;", "ld.const.u32 %r0, [%d7];",
        "ld.u32 %r0, [%d7];", "st.u32 [%d7], %r1;", "ld.u32 %r0, [ga+-4];",
        "mov.u64 %d4, la; cvta.local.u64 %d4, %d4; ld.u32 %r0, [%d4+524288];",
        "mov.u64 %d4, sa; cvta.shared.u64 %d4, %d4; ld.u32 %r0, [%d4+64];",
        "atom.shared.add.u32 %r0, [%d7], 1;", "atom.global.add.u32 %r0, [%d7], 1;",
        "atom.shared.add.u64 %d0, [sa+64], 1;", "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [ga+56];",
        "cp.async.ca.shared.global [%d7], [ga], 4;", "cp.async.ca.shared.global [sa], [%d7], 4;",
        "cp.async.ca.shared.global [sa+64], [ga], 4;"),
    [](const auto& info) { return std::to_string(info.index); });

TEST(Spaces, FunctionsHaveTheirOwnParameters) {
    // A called function can load the address of its parameter into a register. This address refers
    // to the parameters of the function, not to those of the kernel.
    const std::string f =
        ".func (.param .b64 r) f(.param .align 8 .b8 a[16]) { .reg .b64 %x<4>; mov.u64 %x1, a; "
        "ld.param.u64 %x2, [%x1+8]; st.param.b64 [r], %x2; ret; }\n";
    const std::string body =
        "{ .param .align 8 .b8 a[16]; .param .b64 r; st.param.b64 [a], %d1; "
        "st.param.b64 [a+8], %d2; call (r), f, (a); ld.param.b64 %d0, [r]; }";
    EXPECT_EQ(run_module(kernel_text(body, f), {{3, 4, 5}}).front(), 4u);
}

TEST(Pointers, CallsCheckTheSizesOfArguments) {
    const std::string f =
        ".func f(.param .align 8 .b8 a[4096]) { ret; }\n.func g(.param .b32 a) { ret; }\n";
    const auto call = [&](const std::string& name) {
        const std::string body = "{ .param .b32 a; st.param.b32 [a], 1; mov.u64 %d4, " + name +
                                 "; p: .callprototype _ (.param .b32 _); call %d4, (a), p; }";
        return run_module(kernel_text(body, f), {Words{}});
    };
    EXPECT_NO_THROW(call("g"));
    EXPECT_THROW(call("f"), LaunchError);
    try {
        call("k");
        FAIL() << "a kernel has no address here";
    } catch (const UnsupportedInstruction& e) {
        EXPECT_NE(std::string(e.what()).find("the address of the kernel k"), std::string::npos);
    }
}

}  // namespace
}  // namespace coalesce::sim
