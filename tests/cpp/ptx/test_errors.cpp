// Tests the parser's messages for invalid PTX, and the positions in the messages.
#include <gtest/gtest.h>

#include <string>

#include "errors.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {
namespace {

struct Row {
    std::string text;
    uint32_t line;
    uint32_t column;
    std::string message;
};

void expect_error(const Row& row) {
    try {
        (void)parse(row.text);
        FAIL() << "parsed: " << row.text.substr(0, 200);
    } catch (const PtxError& error) {
        EXPECT_EQ(error.line, row.line) << error.what();
        EXPECT_EQ(error.column, row.column) << error.what();
        const std::string where =
            "line " + std::to_string(row.line) + ", column " + std::to_string(row.column) + ": ";
        EXPECT_EQ(std::string(error.what()).substr(0, where.size()), where);
        EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
    }
}

TEST(PtxErrors, Shape) {
    try {
        (void)parse(".version 8.0\n.entry k\n{\n\tret }\n");
        FAIL();
    } catch (const PtxError& error) {
        EXPECT_STREQ(error.what(),
                     "line 4, column 6: expected ';' after the instruction, got '}'\n"
                     "  \tret }\n"
                     "  \t    ^");
    }
}

TEST(PtxErrors, Module) {
    const Row table[] = {
        {"", 1, 1,
         "expected '.version', with which every PTX text begins, got the end of the text"},
        {"__global__ void k() {}", 1, 1, "expected '.version'"},
        {".version eight", 1, 10, "expected a version such as 8.0, got 'eight'"},
        {".version 8", 1, 10, "malformed version"},
        {".version 8.0\n.address_size 16", 2, 15, "neither 32 nor 64"},
        {".version 8.0\nret;", 2, 1, "expected a function, a variable or a directive, got 'ret'"},
        {".version 8.0\n/* open", 2, 1, "the comment is not closed"},
        {".version 8.0\n.file 1 \"open\n", 2, 9, "the string is not closed"},
        {".version 8.0\n\x01", 2, 1, "unexpected character '?'"},
        {".version 8.0\n.section .debug { {}", 2, 17, "'{' is not closed"},
        {".version 8.0\n.global .u33 x;", 2, 9, "unknown type '.u33'"},
        {".version 8.0\n.global x;", 2, 9, "expected a type, got 'x'"},
        {".version 8.0\n.global .align 3 .u32 x;", 2, 16, "not a power of two"},
        {".version 8.0\n.global .u32 x[-1];", 2, 16, "the array's extent is negative"},
        {".version 8.0\n.global .u32 x[1.5];", 2, 16, "expected an integer for the array's extent"},
        {".version 8.0\n.global .b8 x[99999999999999];", 2, 14, "'x' is larger than"},
        {".version 8.0\n.shared .b8 x[65536][65536];", 2, 21, "'x' is larger than"},
        {".version 8.0\n.global .u32 x[2] = {1, 2, 3};", 2, 21, "more values"},
        {".version 8.0\n.global .u32 x[2] = {{1}, 2};", 2, 22, "more braces"},
        {".version 8.0\n.global .u32 x = 0xFF(y);", 2, 22, "mask(symbol)"},
        {".version 8.0\n.global .u64 x = y;", 2, 18, "unknown name 'y'"},
        {".version 8.0\n.global .u32 x;\n.global .u32 x;", 3, 14, "'x' is defined twice"},
        {".version 8.0\n.global .u32 x = 1 / 0;", 2, 20, "division by zero"},
        {".version 8.0\n.global .f32 x = 1.0 + 2;", 2, 22, "may only be negated"},
        {".version 8.0\n.global .u32 x = 0x;", 2, 18, "malformed number '0x'"},
        {".version 8.0\n.global .u32 x = 09;", 2, 18, "malformed number '09'"},
        {".version 8.0\n.global .u32 x = 1.5f;", 2, 18, "malformed number '1.5f'"},
        {".version 8.0\n.global .f32 x = 0f3F80;", 2, 18, "expected 8 hexadecimal digits"},
        {".version 8.0\n.global .u64 x = 18446744073709551616;", 2, 18, "does not fit in 64 bits"},
    };
    for (const Row& row : table) expect_error(row);
}

TEST(PtxErrors, Body) {
    const auto body = [](const std::string& text) {
        return ".version 8.0\n.entry k(.param .u64 a) {\n.reg .pred %p<2>; .reg .b32 %r<4>;\n" +
               text;
    };
    const Row table[] = {
        {body("ret;"), 2, 25, "the function's '{' is not closed"},
        {body("add.s32 %r1, %r2 %r3; }"), 4, 18, "expected ';' after the instruction, got '%r3'"},
        {body("add.s32 %r1, %r9, 1; }"), 4, 14, "unknown register '%r9'"},
        {body("add.s32 %r1, %r01, 1; }"), 4, 14, "unknown register '%r01'"},
        {body("@%q ret; }"), 4, 2, "unknown register '%q'"},
        {body("@%r1 ret; }"), 4, 2, "'%r1' is not a predicate register"},
        {body("bra nowhere; }"), 4, 5, "unknown label 'nowhere'"},
        {body("bra; }"), 4, 4, "expected a label after 'bra'"},
        {body("{ L: ret; } bra L; }"), 4, 17, "unknown label 'L'"},
        {body("L: ret; L: ret; }"), 4, 9, "the label 'L' is defined twice"},
        {body("mov.u64 %r1, x; }"), 4, 14, "unknown name 'x'"},
        {body("call f; }"), 4, 6, "unknown name 'f'"},
        {body(".reg .b32 %r<9>; }"), 4, 11, "'%r' is declared twice"},
        {body(".reg .b32 %x<4000000000>; }"), 4, 11, "more than 1048576 registers"},
        {body(".reg .b32 %x<-1>; }"), 4, 11, "more than 1048576 registers"},
        {body("ld.global.u32 %r1, [%r2; }"), 4, 24, "expected ']' after the address"},
        {body("ld.global.u32 %r1, [%tid.x]; }"), 4, 20, "an address needs"},
        {body("mov.u32 %r1, %tid.q; }"), 4, 18, "no component '.q'"},
        {body("mov.u32 %r1, %r2.x; }"), 4, 17, "'%r2' has no component '.x'"},
        {body("vadd.u32.u32.u32 %r1, %r2.b1, %r1; }"), 4, 26,
         "'%r2' has no component '.b1'; selecting bytes or halves is not supported"},
        {body("mov.u32 %r1, a[1]; }"), 4, 15, "is not supported"},
        {body("mov.b64 {%r1, %r2, %r3; }"), 4, 23, "expected '}' after the vector's elements"},
        {body("mov.u32 %r1, ; }"), 4, 14, "expected an operand, got ';'"},
        {body(".loc 1 x }"), 4, 8, "expected a constant, got 'x'"},
        {body("5; }"), 4, 1, "expected an instruction, a label or a directive, got '5'"},
        {body("ret; } }"), 4, 8, "expected a function, a variable or a directive, got '}'"},
        {body("ret; } .entry k() { ret; }"), 4, 15, "'k' is defined twice"},
    };
    for (const Row& row : table) expect_error(row);
}

std::string repeated(const std::string& text, size_t times) {
    std::string result;
    for (size_t i = 0; i < times; ++i) result += text;
    return result;
}

TEST(PtxErrors, NestingIsBounded) {
    const std::string head = ".version 8.0\n";
    const std::string body = head + ".entry k { ";
    EXPECT_THROW((void)parse(body + repeated("{", 100000)), PtxError);
    EXPECT_THROW((void)parse(body + "mov.u32 x, " + repeated("{", 100000)), PtxError);
    EXPECT_THROW((void)parse(body + "ld x, " + repeated("[1, ", 100000)), PtxError);
    EXPECT_THROW((void)parse(body + "call " + repeated("(", 100000)), PtxError);
    EXPECT_THROW((void)parse(head + ".global .u32 x = " + repeated("(", 100000)), PtxError);
    EXPECT_THROW((void)parse(head + ".global .u32 x = " + repeated("-", 100000)), PtxError);
    EXPECT_THROW((void)parse(head + ".global .u32 x = " + repeated("1 ? ", 100000)), PtxError);
    EXPECT_THROW((void)parse(head + ".global .u32 x = " + repeated("{", 100000)), PtxError);
    EXPECT_THROW((void)parse(head + ".global .u32 x" + repeated("[1]", 100000) + ";"), PtxError);
}

TEST(PtxErrors, LongLinesAreCut) {
    try {
        (void)parse(".version 8.0\n.global .b8 x[9] = {" + repeated("1, ", 5000) + "oops !};");
        FAIL();
    } catch (const PtxError& error) {
        EXPECT_LT(std::string(error.what()).size(), 400u);
    }
}

}  // namespace
}  // namespace coalesce::ptx
