// Tests the parser with tables of PTX texts. For each text, the table has the expected result, as
// dump() prints it.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "errors.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {
namespace {

struct Row {
    const char* text;
    const char* dumped;
};

const std::string head = ".version 8.4\n.target sm_90\n.address_size 64\n";
const std::string dumped_head = "version 8.4 target sm_90 address_size 64\n";

std::string dump_of(const std::string& text) {
    return dump(parse(head + text)).substr(dumped_head.size());
}

// Puts a text into a kernel that declares a few registers. Returns the parsed instructions, as
// dump() prints them.
std::string body_of(const std::string& text) {
    const std::string dumped = dump_of(
        ".global .align 16 .b8 data[64];\n.entry k(.param .u64 in)\n{\n"
        ".reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .f32 %f<4>; .reg .f64 "
        "%fd<2>;\n" +
        text + "\n}\n");
    const size_t start = dumped.find("  0: ");
    return start == std::string::npos ? "" : dumped.substr(start);
}

TEST(PtxParser, ModuleHeader) {
    EXPECT_EQ(
        dump(parse(
            ".version 7.0 // comment\n.target sm_75, debug\n/* two\nlines */ .address_size 64")),
        "version 7.0 target sm_75, debug address_size 64\n");
    EXPECT_EQ(dump_of(".file 1 \"/tmp/a \\\"b\\\".cu\", 1700000000, 123\n"),
              "file 1 /tmp/a \"b\".cu\n");
}

TEST(PtxParser, ModuleVariables) {
    const Row table[] = {
        {".global .u32 counter = 7;", ".global .u32 counter = 7\n"},
        {".visible .global .align 4 .b8 x[16];", ".global .b8 x[16] align 4\n"},
        {".weak .shared .align 16 .b8 s[2][3][4];", ".shared .b8 s[24] align 16\n"},
        {".extern .shared .align 16 .b8 dyn[];", ".shared .b8 dyn[0] align 16 extern\n"},
        {".const .align 4 .f32 c[3] = {0f3F800000, 1.5, -2};",
         ".const .f32 c[3] = 1065353216, 1069547520, 3221225472\n"},
        {".const .f64 d = 0d3FF8000000000000;", ".const .f64 d = 4609434218613702656\n"},
        {".const .f64 d = 0f3FC00000;", ".const .f64 d = 4609434218613702656\n"},
        {".global .u8 b[] = {1, 0x10, 010, 0b11, 255U};", ".global .u8 b[5] = 1, 16, 8, 3, 255\n"},
        {".global .s64 n = -1;", ".global .s64 n = -1\n"},
        {".global .u64 n = 0xFFFFFFFFFFFFFFFF;", ".global .u64 n = -1\n"},
        {".global .u32 m[2][3] = {{1}, {2, 3}};", ".global .u32 m[6] = 1, 0, 0, 2, 3\n"},
        {".global .u32 m[][2] = {{1}, {2, 3}, {4}};", ".global .u32 m[6] = 1, 0, 2, 3, 4\n"},
        {".global .u32 m[2][2][2] = {{{1}}, {{2}, {3}}};",
         ".global .u32 m[8] = 1, 0, 0, 0, 2, 0, 3\n"},
        {".global .v4 .f32 v;", ".global .f32 v[4] align 16\n"},
        {".global .v2 .u32 v[2] = {{1, 2}, {3, 4}};", ".global .u32 v[4] align 8 = 1, 2, 3, 4\n"},
        {".global .attribute(.managed) .u32 g;", ".global .u32 g\n"},
        {".global .u32 a, b = 2;", ".global .u32 a\n.global .u32 b = 2\n"},
        {".extern .global .u32 e; .visible .global .u32 e = 1;", ".global .u32 e = 1\n"},
        {".global .texref t;", ".global .none t\n"},
        {".global .u32 x; .global .u64 p[4] = {x, generic(x), x+4, generic(x)-8};",
         ".global .u32 x\n.global .u64 p[4] = x, generic(x), x+4, generic(x)-8\n"},
        {".global .u32 e = (1 << 4) | 3 * -(2 + 1) + WARP_SZ / 4 % 5;", ".global .u32 e = -6\n"},
        {".global .u32 e = ~0 & 0xFF ^ 1 ? 7 : 8;", ".global .u32 e = 7\n"},
        {".global .u64 e = -8 >> 1;", ".global .u64 e = -4\n"},
        {".global .u64 e = (.u64)-8 >> 60;", ".global .u64 e = 15\n"},
        {".global .u64 e = !0 + (3 > 2) + (2 == 2) + (1 && 0);", ".global .u64 e = 3\n"},
        {".global .u32 t[2] = {1, 2}; .pragma \"x\"; .section .debug_str { $L_s: .b8 1, 2 { } }",
         ".global .u32 t[2] = 1, 2\n"},
    };
    for (const Row& row : table) EXPECT_EQ(dump_of(row.text), row.dumped) << row.text;
}

TEST(PtxParser, Functions) {
    const Row table[] = {
        {".visible .entry k(.param .u64 a, .param .u64 .ptr .global .align 4 b, "
         ".param .align 8 .b8 s[24], .param .u64 .ptr .align 1 g) .maxntid 256, 1, 1 "
         ".minnctapersm 2 .unheard_of 7 { ret; }",
         "entry k(.param .u64 a, .param .u64 b ptr global, .param .b8 s[24] align 8, "
         ".param .u64 g ptr generic) maxntid 256 1 1 minnctapersm 2 unheard_of 7\n  0: ret\n"},
        {".entry k .pragma \"nounroll\"; .explicitcluster .reqnctapercluster 2 { }",
         "entry k() explicitcluster reqnctapercluster 2\n"},
        {".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b) .noreturn;",
         "declare func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b) noreturn\n"},
        {".func f(); .func g() { call f; } .func f() { ret; }",
         "func f()\n  0: ret\nfunc g()\n  0: call f\n"},
        {".func .attribute(.unified(0xA, 0xB)) f() { ret; } .alias h, f; .entry k { call h; }",
         "alias h f\nfunc f()\n  0: ret\nentry k()\n  0: call h\n"},
        {".func (.reg .b32 %out) f(.reg .b32 %in) { add.u32 %out, %in, 1; ret; }",
         "func (.reg .b32 %out) f(.reg .b32 %in)\n  .reg .b32 %out %in\n  0: add.u32 %out, %in, 1\n"
         "  1: ret\n"},
        {".entry k { .reg .b64 %SP; .local .align 8 .b8 depot[16]; .shared .v4 .f32 t[2]; "
         "mov.u64 %SP, depot+8; }",
         "entry k()\n  .reg .b64 %SP\n  .local .b8 depot[16] align 8\n  .shared .f32 t[8] align "
         "16\n"
         "  0: mov.u64 %SP, depot+8\n"},
    };
    for (const Row& row : table) EXPECT_EQ(dump_of(row.text), row.dumped) << row.text;
}

TEST(PtxParser, Instructions) {
    const Row table[] = {
        {"ret;", "ret"},
        {"@%p1 ret;", "@%p1 ret"},
        {"@!%p2 exit;", "@!%p2 exit"},
        {"add.s32 %r1, %r2, -1;", "add.s32 %r1, %r2, -1"},
        {"mov.f32 %f1, 0f3F800000;", "mov.f32 %f1, 0f3F800000"},
        {"mov.f32 %f1, -0f3F800000;", "mov.f32 %f1, 0fBF800000"},
        {"mov.f64 %fd1, 1.5;", "mov.f64 %fd1, 0d3FF8000000000000"},
        {"mov.f64 %fd1, -2.5e-1;", "mov.f64 %fd1, 0dBFD0000000000000"},
        {"mov.f64 %fd1, .5;", "mov.f64 %fd1, 0d3FE0000000000000"},
        {"mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x"},
        {"mov.u32 %r1, %laneid;", "mov.u32 %r1, %laneid"},
        {"mov.u64 %rd1, %clock64;", "mov.u64 %rd1, %clock64"},
        {"mov.u32 %r1, WARP_SZ;", "mov.u32 %r1, 32"},
        {"mov.u32 %r1, WARP_SZ-1;", "mov.u32 %r1, 31"},
        {"mov.u64 %rd1, data+16;", "mov.u64 %rd1, data+16"},
        {"ld.param.u64 %rd1, [in];", "ld.param.u64 %rd1, [in]"},
        {"ld.param.u64 %rd1, [in+8];", "ld.param.u64 %rd1, [in+8]"},
        {"ld.global.f32 %f1, [%rd1];", "ld.global.f32 %f1, [%rd1]"},
        {"ld.global.f32 %f1, [%rd1+12];", "ld.global.f32 %f1, [%rd1+12]"},
        {"ld.global.f32 %f1, [%rd1+-12];", "ld.global.f32 %f1, [%rd1-12]"},
        {"ld.global.f32 %f1, [ %rd1 - 0x10 + 4 ];", "ld.global.f32 %f1, [%rd1-12]"},
        {"ld.shared.u32 %r1, [123];", "ld.shared.u32 %r1, [123]"},
        {"ld.global.nc.L1::evict_last.L2::128B.v4.f32 {%f0, %f1, _, %f3}, [%rd1];",
         "ld.global.nc.L1::evict_last.L2::128B.v4.f32 {%f0, %f1, _, %f3}, [%rd1]"},
        {"mov.b64 {%r1, %r2}, %rd1;", "mov.b64 {%r1, %r2}, %rd1"},
        {"shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;",
         "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1"},
        {"setp.lt.and.f32 %p0|%p1, %f0, %f1, !%p2;", "setp.lt.and.f32 %p0|%p1, %f0, %f1, !%p2"},
        {"setp.eq.s32 %p0|_, %r1, 0;", "setp.eq.s32 %p0|_, %r1, 0"},
        {"atom.global.add.u32 _, [%rd1], 1;", "atom.global.add.u32 _, [%rd1], 1"},
        {"bar.warp.sync -1;", "bar.warp.sync -1"},
        {"cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {%r2, %r3}], [%r4];",
         "cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {%r2, %r3}], [%r4]"},
        {"tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [data, {%r1, %r2}];",
         "tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [data, {%r1, %r2}]"},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1},{%r0,%r1},{%r2},{%f2,%f3};",
         "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1}, {%r0, %r1}, {%r2}, "
         "{%f2, %f3}"},
        {"frobnicate.x.y %r1, %r2;", "frobnicate.x.y %r1, %r2"},
    };
    for (const Row& row : table) {
        EXPECT_EQ(body_of(row.text), "  0: " + std::string(row.dumped) + "\n") << row.text;
    }
}

TEST(PtxParser, LabelsAndBranches) {
    EXPECT_EQ(body_of("$L0: add.s32 %r1, %r1, 1; @%p1 bra $L0; bra.uni $end; $end: $end2: ret;"),
              "  0: add.s32 %r1, %r1, 1\n  1: @%p1 bra ->0\n  2: bra.uni ->3\n  3: ret\n");
    EXPECT_EQ(body_of("@%p1 bra done; ret; done:"), "  0: @%p1 bra ->2\n  1: ret\n");
    const Module module = parse(head +
                                ".entry k { .reg .b32 %r; ts: .branchtargets A, B, A;\n"
                                "brx.idx %r, ts; A: ret; B: ret; }");
    EXPECT_EQ(module.functions[0].branch_targets.at("ts"), (std::vector<uint32_t>{1, 2, 1}));
}

// Inline asm in CUDA often declares the same names several times, each time in its own braces.
TEST(PtxParser, ScopesShadow) {
    EXPECT_EQ(dump_of(".entry k { .reg .b32 t; mov.u32 t, 0;\n"
                      "{ .reg .b32 t; L: mov.u32 t, 1; bra L; }\n"
                      "{ .reg .pred t; L: @t bra L; @t bra M; }\n"
                      "mov.u32 t, 2; M: ret; }"),
              "entry k()\n  .reg .b32 t#0 t#1\n  .reg .pred t#2\n"
              "  0: mov.u32 t#0, 0\n  1: mov.u32 t#1, 1\n  2: bra ->1\n  3: @t#2 bra ->3\n"
              "  4: @t#2 bra ->6\n  5: mov.u32 t#0, 2\n  6: ret\n");
    EXPECT_EQ(
        dump_of(".func f(.param .b32 a); .entry k {\n"
                "{ .param .b32 param0; st.param.b32 [param0+0], 1; call.uni f, (param0); }\n"
                "{ .param .b32 param0; st.param.b32 [param0+0], 2; call.uni f, (param0); } }"),
        "declare func f(.param .b32 a)\nentry k()\n"
        "  .param .b32 param0#0\n  .param .b32 param0#1\n"
        "  0: st.param.b32 [param0#0], 1\n  1: call.uni f, (param0#0)\n"
        "  2: st.param.b32 [param0#1], 2\n  3: call.uni f, (param0#1)\n");
}

TEST(PtxParser, RegisterRanges) {
    EXPECT_EQ(
        dump_of(".entry k { .reg .b32 %r<3>, x, %r1<2>; mov.b32 %r2, %r10; mov.b32 x, %r1; }"),
        "entry k()\n  .reg .b32 %r0 %r1 %r2 x %r10 %r11\n  0: mov.b32 %r2, %r10\n"
        "  1: mov.b32 x, %r1\n");
    EXPECT_EQ(dump_of(".entry k { .reg .v2 .f32 v; ld.global.v2.f32 v, [16]; mov.f32 v.y, v.x; }"),
              "entry k()\n  .reg .f32 v.x v.y\n  0: ld.global.v2.f32 {v.x, v.y}, [16]\n"
              "  1: mov.f32 v.y, v.x\n");
}

TEST(PtxParser, Calls) {
    EXPECT_EQ(dump_of(".extern .func (.param .b32 r) f(.param .b64 a, .param .b64 b);\n"
                      ".entry k { .reg .b64 %rd<2>; .param .b64 param0; .param .b32 retval0;\n"
                      "call.uni (retval0), f, (param0, param0);\n"
                      "prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;\n"
                      "call (retval0), %rd1, (param0), prototype_0;\n"
                      "p1: .callprototype _ ();  call %rd1, (), p1;\n"
                      "tgt: .calltargets f; call (retval0), %rd1, (param0, param0), tgt; }"),
              "declare func (.param .b32 r) f(.param .b64 a, .param .b64 b)\nentry k()\n"
              "  .reg .b64 %rd0 %rd1\n  .param .b64 param0\n  .param .b32 retval0\n"
              "  prototype p1\n  prototype prototype_0 .param .b32 _\n"
              "  0: call.uni (retval0), f, (param0, param0)\n"
              "  1: call (retval0), %rd1, (param0), prototype_0\n"
              "  2: call %rd1, (), p1\n"
              "  3: call (retval0), %rd1, (param0, param0), tgt\n");
}

TEST(PtxParser, SourceLines) {
    const Module module =
        parse(head +
              ".file 1 \"k.cu\"\n.entry k {\n .reg .b32 %r; mov.b32 %r, 0;\n"
              ".loc 1 5 3\n mov.b32 %r, 1;\n mov.b32 %r, 2;\n"
              ".loc 1 9 7, function_name $L_s0, inlined_at 1 22 8\n"
              "mov.b32 %r, 3;\n.loc 1 9 8, function_name .debug_str+4, inlined_at 1 2 3\n"
              "lbl: ret;\n}\n.entry j { ret; }");
    const Function& k = module.functions[0];
    const std::pair<uint32_t, uint32_t> lines[] = {{0, 0}, {5, 3}, {5, 3}, {9, 7}, {9, 8}};
    ASSERT_EQ(k.body.size(), std::size(lines));
    for (size_t i = 0; i < k.body.size(); ++i) {
        EXPECT_EQ(k.body[i].source.line, lines[i].first) << i;
        EXPECT_EQ(k.body[i].source.column, lines[i].second) << i;
    }
    EXPECT_EQ(k.source.line, 5u);
    EXPECT_EQ(module.functions[1].body[0].source.line, 0u);
}

// An inlined function from a header gets the line of its call in the kernel's own file, even if it
// was called through several functions. An inlined function from the kernel's own file keeps its
// own lines.
TEST(PtxParser, InlinedCodeHasTheLineThatWasWritten) {
    const Module module =
        parse(head +
              ".file 1 \"k.cu\"\n.file 2 \"header.h\"\n.entry k {\n .reg .b32 %r;\n"
              ".loc 1 5 3\n mov.b32 %r, 1;\n"
              ".loc 2 90 7, function_name $L_s0, inlined_at 1 8 2\n mov.b32 %r, 2;\n"
              ".loc 2 70 1, function_name $L_s1, inlined_at 2 90 7\n mov.b32 %r, 3;\n"
              ".loc 1 6 4, function_name $L_s2, inlined_at 1 9 9\n mov.b32 %r, 4;\n"
              ".loc 2 60 1, function_name $L_s1, inlined_at 1 6 4\n mov.b32 %r, 5;\n"
              ".loc 2 50 1\n mov.b32 %r, 6;\n"
              ".loc 2 40 1, function_name $L_s1, inlined_at 2 40 1\n mov.b32 %r, 7;\n}");
    const SourceLine written[] = {{1, 5, 3}, {1, 8, 2},  {1, 8, 2}, {1, 6, 4},
                                  {1, 6, 4}, {2, 50, 1}, {2, 40, 1}};
    const Function& k = module.functions[0];
    ASSERT_EQ(k.body.size(), std::size(written));
    for (size_t i = 0; i < k.body.size(); ++i) EXPECT_EQ(k.body[i].written, written[i]) << i;
    EXPECT_EQ(k.body[2].source, (SourceLine{2, 70, 1}));
}

TEST(PtxParser, PositionsAndText) {
    const Module module = parse(head + ".entry k {\n\t.reg .pred p;\n  @!p\tbra  L ; L:\n}");
    const Instruction& branch = module.functions[0].body[0];
    EXPECT_EQ(branch.position.line, 6u);
    EXPECT_EQ(branch.position.column, 3u);
    EXPECT_EQ(branch.text, "@!p\tbra  L");
}

TEST(PtxParser, ViewsSurviveAMove) {
    Module first = parse(head + ".entry k { bar.sync 0; }");
    const Module second = std::move(first);
    EXPECT_EQ(second.functions[0].body[0].opcode, "bar");
    EXPECT_GE(second.functions[0].body[0].opcode.data(), second.text->data());
}

TEST(PtxParser, FindsByName) {
    const Module module = parse(head + ".global .u32 g; .func f() { ret; } .alias h, f;");
    ASSERT_NE(module.find_function("h"), nullptr);
    EXPECT_EQ(module.find_function("h"), module.find_function("f"));
    EXPECT_EQ(module.find_function("g"), nullptr);
    EXPECT_EQ(module.find_variable("g")->bytes(), 4u);
    EXPECT_EQ(module.find_variable("f"), nullptr);
}

TEST(PtxParser, Types) {
    EXPECT_EQ(size_of(Type::bf16x2), 4u);
    EXPECT_EQ(size_of(Type::pred), 0u);
    EXPECT_EQ(type_named("f64"), Type::f64);
    EXPECT_EQ(type_named("none"), Type::none);
    EXPECT_EQ(type_named("tf32"), Type::none);
    EXPECT_EQ(name_of(Type::s16), "s16");
}

}  // namespace
}  // namespace coalesce::ptx
