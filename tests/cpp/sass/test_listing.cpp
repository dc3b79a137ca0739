// Tests the reader of nvdisasm's text: operands, labels, constants and line numbers.
#include <gtest/gtest.h>

#include <string>

#include "errors.hpp"
#include "sass/listing.hpp"

namespace {

using coalesce::sass::Listing;
using coalesce::sass::Operand;
using coalesce::sass::read;
using coalesce::sass::read_operand;
using Kind = Operand::Kind;

TEST(SassOperand, Registers) {
    const struct {
        const char* text;
        Kind kind;
        int number;
        bool uniform, negated, inverted, absolute, wide;
        const char* part;
    } table[] = {
        {"R12", Kind::reg, 12, false, false, false, false, false, ""},
        {"RZ", Kind::reg, -1, false, false, false, false, false, ""},
        {"-R3.reuse", Kind::reg, 3, false, true, false, false, false, ""},
        {"~R7", Kind::reg, 7, false, false, true, false, false, ""},
        {"|R5|", Kind::reg, 5, false, false, false, true, false, ""},
        {"-|R5|", Kind::reg, 5, false, true, false, true, false, ""},
        {"R2.64", Kind::reg, 2, false, false, false, false, true, ""},
        {"R2.H1_H1", Kind::reg, 2, false, false, false, false, false, "H1_H1"},
        {"R2.B3", Kind::reg, 2, false, false, false, false, false, "B3"},
        {"UR4", Kind::reg, 4, true, false, false, false, false, ""},
        {"URZ", Kind::reg, -1, true, false, false, false, false, ""},
        {"P0", Kind::predicate, 0, false, false, false, false, false, ""},
        {"!P6", Kind::predicate, 6, false, true, false, false, false, ""},
        {"!PT", Kind::predicate, -1, false, true, false, false, false, ""},
        {"UP1", Kind::predicate, 1, true, false, false, false, false, ""},
        {"!UPT", Kind::predicate, -1, true, true, false, false, false, ""},
        {"B3", Kind::barrier, 3, false, false, false, false, false, ""},
    };
    for (const auto& row : table) {
        const Operand o = read_operand(row.text);
        EXPECT_EQ(o.kind, row.kind) << row.text;
        EXPECT_EQ(o.number, row.number) << row.text;
        EXPECT_EQ(o.uniform, row.uniform) << row.text;
        EXPECT_EQ(o.negated, row.negated) << row.text;
        EXPECT_EQ(o.inverted, row.inverted) << row.text;
        EXPECT_EQ(o.absolute, row.absolute) << row.text;
        EXPECT_EQ(o.wide, row.wide) << row.text;
        EXPECT_EQ(o.part, row.part) << row.text;
    }
}

TEST(SassOperand, DescriptorsOfMatrices) {
    Operand o = read_operand("gdesc[UR4].negA.tnspB");
    EXPECT_EQ(o.kind, Kind::descriptor);
    EXPECT_EQ(o.uniform_base, 4);
    EXPECT_EQ(o.part, "negA.tnspB");
    o = read_operand("gdesc[URZ]");
    EXPECT_EQ(o.kind, Kind::descriptor);
    EXPECT_EQ(o.uniform_base, -1);
    EXPECT_EQ(o.part, "");
    for (const char* text : {"gdesc[R4]", "gdesc[UR4", "gdesc[UR4].", "gdesc[UR4]x", "gdesc[UP0]"})
        EXPECT_EQ(read_operand(text).kind, Kind::other) << text;
}

TEST(SassOperand, Numbers) {
    EXPECT_EQ(read_operand("0x1f").bits, 0x1fu);
    EXPECT_EQ(read_operand("-0x1").bits, ~uint64_t{0});
    EXPECT_EQ(read_operand("0.5").kind, Kind::real);
    EXPECT_EQ(read_operand("0.5").value, 0.5);
    EXPECT_EQ(read_operand("-INF").value, -1.0 / 0.0);
    EXPECT_EQ(read_operand("+INF ").value, 1.0 / 0.0);
    EXPECT_TRUE(read_operand("+QNAN").value != read_operand("+QNAN").value);
    EXPECT_EQ(read_operand("5.9604644775390625e-08").value, 0x1p-24);
}

TEST(SassOperand, Memory) {
    const Operand a = read_operand("desc[UR8][R10.64+-0x10]");
    EXPECT_EQ(a.kind, Kind::address);
    EXPECT_EQ(a.base, 10);
    EXPECT_TRUE(a.wide);
    EXPECT_EQ(a.uniform_base, -1);
    EXPECT_EQ(a.offset, -16);
    const Operand b = read_operand("[R11.X4+UR5+0x40]");
    EXPECT_EQ(b.base, 11);
    EXPECT_EQ(b.scale, 4u);
    EXPECT_EQ(b.uniform_base, 5);
    EXPECT_EQ(b.offset, 0x40);
    EXPECT_EQ(read_operand("[R4+URZ]").uniform_base, -1);
    const Operand c = read_operand("c[0x0][0x210]");
    EXPECT_EQ(c.kind, Kind::bank);
    EXPECT_EQ(c.number, 0);
    EXPECT_EQ(c.offset, 0x210);
    const Operand d = read_operand("-c[0x3][R4+0x8]");
    EXPECT_TRUE(d.negated);
    EXPECT_EQ(d.number, 3);
    EXPECT_EQ(d.base, 4);
    EXPECT_EQ(d.offset, 8);
}

constexpr const char* text = R"(
	.target	sm_90
//--------------------- .nv.constant3             --------------------------
	.section	.nv.constant3,"a",@progbits
	.align	4
.nv.constant3:
	.type		weights,@object
weights:
        /*0000*/ 	.byte	0x00, 0x00, 0x80, 0x3f
        /*0004*/ 	.byte	0x01, 0x02
.L_0:
//--------------------- .nv.constant4             --------------------------
	.section	.nv.constant4,"a",@progbits
        /*0000*/ 	.dword	state
//--------------------- .text.f                   --------------------------
	.section	.text.f,"ax",@progbits
f:
.text.f:
	//## File ".nv_debug_ptx_txt", line 28
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
	//## File ".nv_debug_ptx_txt", line 31
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64+0x10] ;
.L_x_0:
        /*0030*/                   BRX R4 -0x40 (*"BRANCH_TARGETS .L_x_0"*);
        /*0040*/                   EXIT ;
//--------------------- .nv.shared.f              --------------------------
	.section	.nv.shared.f,"aw",@nobits
.nv.shared.f:
	.zero		1536
//--------------------- .debug_line               --------------------------
        /*0000*/ 	.byte	0x00
)";

TEST(SassListing, Sections) {
    const Listing listing = read(text);
    ASSERT_TRUE(listing.codes.contains("f"));
    const auto& code = listing.codes.at("f").instructions;
    ASSERT_EQ(code.size(), 5u);
    EXPECT_EQ(code[0].opcode, "LDC");
    EXPECT_EQ(code[0].ptx_line, 28u);
    EXPECT_EQ(code[1].guard.kind, Kind::predicate);
    EXPECT_TRUE(code[1].guard.negated);
    EXPECT_EQ(code[1].operands.at(0).kind, Kind::label);
    EXPECT_EQ(code[1].operands.at(0).target, 3u);
    EXPECT_EQ(code[1].text, "@!P0 BRA `(.L_x_0)");
    EXPECT_EQ(code[2].ptx_line, 31u);
    ASSERT_EQ(code[2].modifiers.size(), 2u);
    EXPECT_EQ(code[2].modifiers[1], "128");
    ASSERT_EQ(code[3].operands.size(), 2u);
    EXPECT_EQ(code[3].operands[1].bits, uint64_t(-0x40));
    EXPECT_EQ(listing.shared_bytes.at("f"), 1536u);
}

TEST(SassListing, ConstantBanks) {
    const Listing listing = read(text);
    const auto& constants = listing.banks.at("3");
    ASSERT_EQ(constants.bytes.size(), 6u);
    EXPECT_EQ(constants.bytes[3], 0x3f);
    EXPECT_EQ(constants.bytes[5], 2);
    ASSERT_FALSE(constants.variables.empty());
    EXPECT_EQ(constants.variables[0].name, "weights");
    EXPECT_EQ(constants.variables[0].offset, 0u);
    const auto& addresses = listing.banks.at("4");
    ASSERT_EQ(addresses.symbols.size(), 1u);
    EXPECT_EQ(addresses.symbols[0].symbol, "state");
}

TEST(SassListing, RefusesOtherTexts) {
    const std::string gap = "//--------------------- .text.f --\n/*0000*/ NOP ;\n/*0030*/ NOP ;\n";
    EXPECT_THROW((void)read(gap), coalesce::UnsupportedInstruction);
    const std::string number = "//--------------------- .text.f --\n/*00x0*/ NOP ;\n";
    EXPECT_THROW((void)read(number), coalesce::UnsupportedInstruction);
    EXPECT_TRUE(read("").codes.empty());
}

}  // namespace
