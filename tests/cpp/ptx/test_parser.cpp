// Tests what the parser notes beside the instructions: values of variables, lines, positions,
// names. tests/cpp/sim/test_values.cpp and the Python tests execute the instructions.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "errors.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {
namespace {

const std::string head = ".version 8.4\n.target sm_90\n.address_size 64\n";

// Returns the shape, alignment and initial values of the last variable of a module.
std::string variable_of(const std::string& text) {
    const Module module = parse(head + text);
    const Variable& v = module.variables.back();
    std::string said = std::string(name_of(v.type)) + "[" + std::to_string(v.count) + "] " +
                       std::to_string(v.alignment) + ":";
    for (const Initializer& value : v.initial) {
        const int64_t bits = int64_t(value.bits);
        said += " " + std::string(value.generic ? "generic " : "") + std::string(value.symbol) +
                (value.symbol.empty() || bits ? std::to_string(bits) : "");
    }
    return said;
}

TEST(PtxParser, ModuleHeader) {
    const Module module = parse(
        ".version 7.0 // comment\n.target sm_75, debug\n/* two\nlines */ .address_size 64\n"
        ".file 1 \"/tmp/a \\\"b\\\".cu\", 1700000000, 123\n");
    EXPECT_EQ(module.target, "sm_75, debug");
    EXPECT_EQ(module.files.at(1), "/tmp/a \"b\".cu");
}

TEST(PtxParser, ModuleVariables) {
    const std::pair<const char*, const char*> table[] = {
        {".global .u32 counter = 7;", "u32[1] 4: 7"},
        {".visible .global .align 4 .b8 x[16];", "b8[16] 4:"},
        {".weak .shared .align 16 .b8 s[2][3][4];", "b8[24] 16:"},
        {".const .align 4 .f32 c[3] = {0f3F800000, 1.5, -2};",
         "f32[3] 4: 1065353216 1069547520 3221225472"},
        {".const .f64 d = 0d3FF8000000000000;", "f64[1] 8: 4609434218613702656"},
        {".const .f64 d = 0f3FC00000;", "f64[1] 8: 4609434218613702656"},
        {".global .u8 b[] = {1, 0x10, 010, 0b11, 255U};", "u8[5] 1: 1 16 8 3 255"},
        {".global .u64 n = 0xFFFFFFFFFFFFFFFF;", "u64[1] 8: -1"},
        {".global .u32 m[2][3] = {{1}, {2, 3}};", "u32[6] 4: 1 0 0 2 3"},
        {".global .u32 m[][2] = {{1}, {2, 3}, {4}};", "u32[6] 4: 1 0 2 3 4"},
        {".global .u32 m[2][2][2] = {{{1}}, {{2}, {3}}};", "u32[8] 4: 1 0 0 0 2 0 3"},
        {".global .v2 .u32 v[2] = {{1, 2}, {3, 4}};", "u32[4] 8: 1 2 3 4"},
        {".global .u32 a, b = 2;", "u32[1] 4: 2"},
        {".extern .global .u32 e; .visible .global .u32 e = 1;", "u32[1] 4: 1"},
        {".global .u32 x; .global .u64 p[4] = {x, generic(x), x+4, generic(x)-8};",
         "u64[4] 8: x generic x x4 generic x-8"},
        {".global .u32 e = (1 << 4) | 3 * -(2 + 1) + WARP_SZ / 4 % 5;", "u32[1] 4: -6"},
        {".global .u32 e = ~0 & 0xFF ^ 1 ? 7 : 8;", "u32[1] 4: 7"},
        {".global .u32 e = ~5 & 0xFF ^ 3;", "u32[1] 4: 249"},
        {".global .u64 e = -8 >> 1;", "u64[1] 8: -4"},
        {".global .u64 e = (.u64)-8 >> 60;", "u64[1] 8: 15"},
        {".global .u64 e = !0 + (3 > 2) + (2 == 2) + (1 && 0);", "u64[1] 8: 3"},
        {".global .u32 t[2] = {1, 2}; .pragma \"x\"; .section .debug_str { $L_s: .b8 1, 2 { } }",
         "u32[2] 4: 1 2"},
    };
    for (const auto& [text, said] : table) EXPECT_EQ(variable_of(text), said) << text;
}

TEST(PtxParser, BranchTargets) {
    const Module module = parse(head +
                                ".entry k { .reg .b32 %r; ts: .branchtargets A, B, A;\n"
                                "brx.idx %r, ts; A: ret; B: ret; }");
    EXPECT_EQ(module.functions[0].branch_targets.at("ts"), (std::vector<uint32_t>{1, 2, 1}));
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
