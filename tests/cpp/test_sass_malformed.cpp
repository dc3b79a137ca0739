// Tests that a line that is not an instruction, or that cannot be lifted, causes an error and not a
// crash.
#include <gtest/gtest.h>

#include "sass_fixture.hpp"

namespace coalesce::sass {
namespace {

TEST(SassLift, RefusesMalformedLines) {
    const char* const lines[] = {
        "FROB R0, R2",
        "IADD3",
        "IADD3 R0",
        "IADD3 R0, R2",
        "IADD3 R0, R2, R4",
        "IADD3 R0, R2, P1, R4",
        "IADD3 R0, R2, R4, [R6]",
        "IADD3.SPIN R0, R2, R4, R6",
        "IADD3 R0, R99999999, R4, R6",
        "IADD3 R256, R2, R4, R6",
        "IADD3 R0, R2, c[0x10][R4+0x210], RZ",
        "IADD3 R0, R2, c[-0x1][R4+0x210], RZ",
        "STG.E.128 desc[UR4][R2.64], 0x1",
        "IADD3 UR64, R2, R4, R6",
        "IMAD",
        "IMAD.WIDE R0, R2",
        "IMAD R0, R2, R4, R6.H1_H1",
        "LEA R0, R2, R4",
        "LEA R0, R2, R4, R6",
        "LOP3.LUT",
        "LOP3.LUT R0, R2, R4, R6",
        "LOP3.LUT P0, R0, R2, R4, RZ, 0xc0",
        "PLOP3.LUT P0, P1, P2",
        "SHF.L.U32 R0, R2",
        "PRMT R0, R2",
        "SEL R0, R2, R4",
        "SEL R0, R2, R4, R6",
        "SEL R0, R2, R4, P9",
        "ISETP.LT.AND P0, PT, R2, R4",
        "ISETP.AND P0, PT, R2, R4, PT",
        "ISETP.LT.AND R0, PT, R2, R4, PT",
        "FADD R0, R2",
        "FADD.SAT.LOUD R0, R2, R4",
        "FFMA R0, R2, R4",
        "FSETP.AND P0, PT, R2, R4, PT",
        "FMNMX R0, R2, R4",
        "FMNMX.NAN R0, R2, R4, P1",
        "MUFU R0, R2",
        "MUFU.CBRT R0, R2",
        "DADD R0, R2",
        "DADD R0, R2, R4.H0_H0",
        "HFMA2 R0, R2",
        "HADD2.RELU R0, R2, R4",
        "HMNMX2 R0, R2, R4, P1",
        "HSET2.BF.AND R0, R2, R4, PT",
        "F2I",
        "F2I.UP R0, R2",
        "I2F R0",
        "VIMNMX.U16x2 R0, R2, R4, P1",
        "VABSDIFF4.U8 R0, R2, R4, R6",
        "IDP R0, R2, R4, R6",
        "IDP.4A.U8 R0, R2",
        "LDG.E R0",
        "LDG.E R0, R2",
        "LDG.E R0, [R2.64",
        "LDG.E R0, [R2.64+R4.Y4]",
        "LDG R0, [R2]",
        "STG.E desc[UR4][R2.64]",
        "LDS.256 R0, [R2]",
        "LDC R0",
        "LDC R0, R2",
        "LDC R0, c[0x9][0x0]",
        "LDC R0, c[0x9][R2]",
        "LDC.128 R0, c[0x3][R2]",
        "ATOMS.ADD R0",
        "ATOMS.POPC.INC.64 RZ, [R2]",
        "ATOMG.E.FROB PT, R0, desc[UR4][R2.64], R4",
        "RED.E.MUL desc[UR4][R2.64], R4",
        "LDGSTS [R2]",
        "BRA",
        "BRA 0x10",
        "BRA `(.L_nowhere)",
        "BRX 0x10",
        "RET",
        "BSSY",
        "BSSY B0",
        "BSSY R0, `(.L_nowhere)",
        "BSYNC",
        "BSYNC R0",
        "BREAK",
        "WARPSYNC",
        "BAR.RED.AND.DEFER_BLOCKING 0x0",
        "B2R R0",
        "S2R R0, SR_NOBODY",
        "S2R R0",
        "SHFL.IDX PT, R0, R2",
        "SHFL.ROUND PT, R0, R2, 0x1, 0x1f",
        "VOTE.ANY",
        "MATCH.ANY R0",
        "P2R R0, PR",
        "R2P PR",
        // Forms that no compiler is known to write.
        "IADD3 R0, -|R2|, R4, R6",
        "IADD3 R0, R2.H0_H0.H1_H1, R4, R6",
        "IMAD R0, P1, R2, R4, R6",
        "ISETP.LT.AND !P0, PT, R2, R4, PT",
        "LOP3.LUT R0, R2, R4, R6, 0xc0, P1",
        "FADD R0, ~R2, R4",
        "FSEL.FTZ R0, R2, R4, P1",
        "FFMA R0, R2, R4.64, R6",
        "HFMA2 R0, RZ, RZ, 1, R4",
        "F2FP.F16.F32 R0, R2, R4",
        "P2R R0, R2, RZ, 0x7f",
        "LDS R0, [R2+R4]",
        "LDG.E R0, desc[UR4][-R22.64]",
        "LDG.E R0, desc[UR4][R22.X4]",
        "DEPBAR.LE SB1, 0x1",
        "CALL.REL.NOINC R2",
        "CALL.REL.NOINC R2 `(k)",
        "CALL.REL.NOINC R2 `(other)",
        "CALL.ABS.NOINC `(k)",
        "RET.ABS.NODEC R20 0x0",
        "RET.REL.NODEC R20 `(other)",
        "R2UR P0, URZ, R2",
        "R2UR R0, R2",
        "BRA.ANY `(.text.k)",
        "BRA UR4, `(.text.k)",
        "BMOV.32 R2, B6",
        "BMOV.64.CLEAR R2, B6",
        "MEMBAR.FROB",
        "CCTL.FROB",
        "NOP.FROB",
        "@P0",
        "@R0 MOV R0, R2",
        "@P12 EXIT",
        "MOV R0",
        "MOV R0, 0x",
        "MOV [R0], R2",
        "[",
        "`(",
        ",,,",
    };
    for (const char* line : lines) {
        EXPECT_THROW((void)run_machine({line}, {sim::Words{1, 2, 3}}), UnsupportedInstruction)
            << line;
    }
}

// A listing may be truncated at any place. It must then be lifted or refused, without a crash.
TEST(SassLift, SurvivesListingsThatEndEarly) {
    const std::string whole = listing_text({"IADD3 R0, P0, R2, -R4, RZ", "BAR.SYNC 0x0"});
    const ptx::Module module = ptx::parse(
        ".version 8.5\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n ret;\n}\n");
    const sim::Engine& engine = sim::engine(sim::Watch::nothing);
    int lifted = 0, refused = 0;
    for (size_t n = 0; n < whole.size(); ++n) {
        try {
            const Listing listing = read(whole.substr(0, n));
            const auto memory = sim::lay_out_memory(module);
            (void)lift(listing, module, *module.find_function("k"), memory, engine);
            ++lifted;
        } catch (const UnsupportedInstruction&) {
            ++refused;
        }
    }
    EXPECT_GT(lifted, 0);
    EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace coalesce::sass
