// Tests lines that are not instructions, or that cannot be lifted. Each must cause an error and not
// a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "sass/fixture.hpp"

namespace coalesce::sass {
namespace {

TEST(SassLift, RefusesMalformedLines) {
    const char* const lines[] = {
        "FROB R0, R2",
        "IADD3 R0, R2, P1, R4",
        "IADD3 R0, R2, R4, [R6]",
        "IADD3 R0, R99999999, R4, R6",
        "IADD3 R256, R2, R4, R6",
        "IADD3 R0, R2, c[0x10][R4+0x210], RZ",
        "IADD3 R0, R2, c[-0x1][R4+0x210], RZ",
        "STG.E.128 desc[UR4][R2.64], 0x1",
        "REDG.E.MIN.F32x2.STRONG.GPU desc[UR4][R2.64], R4",
        "REDG.E.ADD.F32x3.STRONG.GPU desc[UR4][R2.64], R4",
        "REDG.E.ADD.F32x4.STRONG.GPU desc[UR4][R2.64], R253",
        "REDG.E.ADD.F32x2.STRONG.GPU desc[UR4][R2.64], RZ",
        "IADD3 UR64, R2, R4, R6",
        "IMAD R0, R2, R4, R6.H1_H1",
        "LEA R0, R2, R4, R6",
        "SEL R0, R2, R4, R6",
        "SEL R0, R2, R4, P9",
        "ISETP.AND P0, PT, R2, R4, PT",
        "ISETP.LT.AND R0, PT, R2, R4, PT",
        "FSETP.AND P0, PT, R2, R4, PT",
        "FMNMX.NAN R0, R2, R4, P1",
        "MUFU R0, R2",
        "MUFU.CBRT R0, R2",
        "MUFU.RCP.F16 R0, R2",
        "FMNMX.XORSIGN R0, R2, |R4|, PT",
        "FMNMX.XORSIGN R0, |R2|, -R4, PT",
        "FMNMX.XORSIGN R0, |R2|, -1, PT",
        "HMNMX2.XORSIGN R0, R2, |R4|, PT",
        "HMNMX2.XORSIGN R0, |R2|, 0, -1, PT",
        "VHMNMX.XORSIGN R0, |R2|, |R4|, |R6|, PT",
        "I2I.S8.S32 R0, R2",
        "I2I.S8.S16.SAT R0, R2",
        "F2IP.U8.F32 R0, R2, R4, RZ",
        "F2IP.U16.F32.NTZ R0, R2, R4, RZ",
        "F2FP.F16.F32.MERGE_C R0, R2, R4",
        "F2FP.TF32.F32.PACK_AB R0, R2, R4",
        "PLOP3.LUT P0, PT, R2.SIGN, !R3.SIGN, P1, 0x80, 0x0",
        "PLOP3.LUT P0, PT, R2.H1, P1, P2, 0x80, 0x0",
        "DADD R0, R2, R4.H0_H0",
        "HFMA2 R0, R2",
        "HADD2.RELU R0, R2, R4",
        "HMNMX2 R0, R2, R4, P1",
        "VHMNMX R0, R2, R4, R6, P1",
        "VIADDMNMX.U16x2.RELU R0, R2, R4, R6, PT",
        "VIADDMNMX.S16x2 R0, R2, R4, -R6, PT",
        "VIADDMNMX.S16x2 R0, -R2, -R4, R6, PT",
        "VIMNMX.S16x2 R0, -R2, R4, PT",
        "HSET2.BF.AND R0, R2, R4, PT",
        "F2I.UP R0, R2",
        "VIMNMX.U16x2 R0, R2, R4, P1",
        "VABSDIFF4.U16 R0, R2, R4, R6",
        "IDP R0, R2, R4, R6",
        "IDP.4A.U8 R0, R2",
        "LDG.E R0, R2",
        "LDG.E R0, [R2.64",
        "LDG.E R0, [R2.64+R4.Y4]",
        "LDG R0, [R2]",
        "LDS.256 R0, [R2]",
        "LDC R0, R2",
        "LDC R0, c[0x9][0x0]",
        "LDC R0, c[0x9][R2]",
        "LDC.128 R0, c[0x3][R2]",
        "ATOMS.POPC.INC.64 RZ, [R2]",
        "RED.E.MUL desc[UR4][R2.64], R4",
        "BRA 0x10",
        "BRA `(.L_nowhere)",
        "BRX 0x10",
        "BSSY R0, `(.L_nowhere)",
        "BSYNC R0",
        "BAR.RED.AND.DEFER_BLOCKING 0x0",
        "B2R R0",
        "S2R R0, SR_NOBODY",
        "SHFL.ROUND PT, R0, R2, 0x1, 0x1f",
        "ELECT P0, R0, PT",
        "ELECT P0, UR4, P1",
        "BRXU",
        "BRXU R4 -0x10",
        "BRXU UR4 `(.L_nowhere)",
        "DEPBAR.LE SB6, 0x1",
        "FENCE.VIEW.ASYNC.T",
        "SYNCS",
        "SYNCS.EXCH.64 UR8, [UR4], UR6",
        "SYNCS.EXCH URZ, [UR4], UR6",
        "SYNCS.EXCH.64 URZ, [UR4], URZ",
        "SYNCS.ARRIVE.A1T0 R0, [UR4], RZ",
        "SYNCS.ARRIVE.TRANS64.A1T0 R0, [UR4], R2",
        "SYNCS.ARRIVE.TRANS64.A1T0.A0T1 R0, [UR4], RZ",
        "SYNCS.ARRIVE.TRANS64.RED.A0T1 R0, [UR4], RZ",
        "SYNCS.ARRIVE.TRANS64.OPTOUT.A0TR RZ, [UR4], R2",
        "SYNCS.PHASECHK.TRANS64 R0, [UR4], R2",
        "SYNCS.PHASECHK P0, [UR4], R2",
        "SYNCS.CCTL [UR4]",
        "SYNCS.CCTL.IVALL [UR4]",
        "ARRIVES.LDGSTSBAR.64 [UR4]",
        "ARRIVES.LDGSTSBAR.64.TRANSCNT.ARVCNT [UR4]",
        "BRA.U.ANY `(.L_nowhere)",
        "UIADD3.64 UR4, UR6, UR8, UR10",
        "UIADD3.64 UR4, -UR6, UR8, URZ",
        "UIADD3.64 UR4, UR6, -0x1, URZ",
        "DEPBAR {5,4,3}",
        "UBLKCP.S.G [UR4], [UR6], R8",
        "UBLKCP.S.G [UR4], [UR6], 0x10",
        "UBLKCP.S.S [UR4], [UR6], UR8",
        "UBLKCP.S [UR4], [UR6], UR8",
        "UBLKCP.S.G.MULTICAST [UR4], [UR6], UR8",
        "UBLKCP.S.G [UR4+0x10], [UR6], UR8",
        "UBLKCP.S.G [R4], [UR6], UR8",
        "UBLKCP.S.G [URZ], [UR6], UR8",
        "UBLKCP.S.G [UR4], [UR6], UR8, UR10",
        "UBLKCP.S.G [UR4], [UR6], UR8, desc[UR10], UR12",
        "UBLKRED.G.S.ADD.F32.RN [UR6], [UR4], UR5",
        "UTMALDG [UR8], [UR4]",
        "UTMALDG.2D.IM2COL [UR8], [UR4]",
        "UTMALDG.6D [UR8], [UR4]",
        "UTMALDG.2D.3D [UR8], [UR4]",
        "UTMALDG.2D.MULTICAST [UR8], [UR4]",
        "UTMALDG.2D.MULTICAST [UR8], [UR4], R6",
        "UTMALDG.2D [UR8], [UR4], UR6",
        "UTMASTG.2D.MULTICAST [UR8], [UR4], UR6",
        "UTMAREDG.2D.ADD [UR8], [UR4]",
        "UTMACCTL [UR4]",
        "UTMACCTL.PF.IV [UR4]",
        "UTMACCTL.PF UR4",
        "UBLKPF [UR4]",
        "UTMAPF.L2.2D [UR4]",
        "USETMAXREG.CTAPOOL 0x28",
        "USETMAXREG.DEALLOC 0x28",
        "USETMAXREG.TRY_ALLOC.CTAPOOL P0, 0x28",
        "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, UR4",
        "WARPGROUP",
        "WARPGROUP.DEPBAR.LE gsb1, 0x0",
        "WARPGROUP.DEPBAR.LE gsb0, R2",
        "HGMMA R24, gdesc[UR4], R24",
        "HGMMA.64x8 R24, gdesc[UR4], R24",
        "HGMMA.64x12x16.F32 R24, gdesc[UR4], R24",
        "HGMMA.64x8x32.F32 R24, gdesc[UR4], R24",
        "HGMMA.128x8x16.F32 R24, gdesc[UR4], R24",
        "HGMMA.64x8x16 R24, gdesc[UR4], R24",
        "HGMMA.64x8x16.F16.BF16 R24, gdesc[UR4], R24",
        "HGMMA.64x8x16.F32.E4M3.E4M3 R24, gdesc[UR4], R24",
        "HGMMA.SP.64x8x32.F32 R24, gdesc[UR4], R24",
        "QGMMA.64x8x32.F32.E4M3 R24, gdesc[UR4], R24",
        "QGMMA.64x8x16.F32 R24, gdesc[UR4], R24",
        "IGMMA.64x8x32.S8 R24, gdesc[UR4], R24",
        "IGMMA.64x40x32.S8.S8 R24, gdesc[UR4], R24",
        "BGMMA.64x8x256.XOR.POPC R24, gdesc[UR4], R24",
        "@P1 HGMMA.64x8x16.F32 R24, gdesc[UR4], R24",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, UP0",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], R28",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, P0",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb1",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0, UP0",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4].tnspC, R24",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4].tnspA.tnspA, R24",
        "HGMMA.64x8x16.F32 R24, gdesc[R4], R24",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4]tnspA, R24",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4]., R24",
        "HGMMA.64x8x16.F32 R24, gdesc[URZ], R24",
        "HGMMA.64x8x16.F32 R24, R28, gdesc[UR4].tnspA, R24",
        "HGMMA.64x8x16.F32 R24, R28, gdesc[UR4].negA, R24",
        "HGMMA.64x8x16.F32 R24, |R28|, gdesc[UR4], R24",
        "HGMMA.64x8x16.F32 R24, RZ, gdesc[UR4], R24",
        "HGMMA.64x8x8.F32.TF32 R24, gdesc[UR4].tnspB, R24",
        "IGMMA.64x8x32.S8.S8 R24, gdesc[UR4].negB, R24",
        "IGMMA.64x8x32.S8.S8 R24, -R28, gdesc[UR4], R24",
        "HGMMA.64x256x16.F32 R200, gdesc[UR4], R200",
        "HGMMA.64x8x16.F32 RZ, gdesc[UR4], RZ, !UPT",
        "TEX.LL RZ, R0, R2, R4, UR4, 0x0, 2D, 0x0",
        "TEX.LL RZ, R0, R2, R4, UR4, 0x0, 2D, 0x1f",
        "TEX.LL RZ, R0, R2, R4, UR4, 0x0, 4D, 0x1",
        "TEX.LL RZ, R0, R2, R4, UR4, 0x4, 2D, 0x1",
        "TEX.LL RZ, R0, R2, R4, R6, 0x0, 2D, 0x1",
        "TEX.LL R6, R0, R2, R4, UR4, 0x0, 2D, 0x1",
        "TEX RZ, R0, R2, UR4, 0x0, 2D, 0x1",
        "TEX.LB RZ, R0, R2, R4, UR4, 0x0, 2D, 0x1",
        "TEX.LL.CL RZ, R0, R2, R4, UR4, 0x0, 2D, 0x1",
        "TEX.LL.DC RZ, R0, R2, R4, UR4, 0x0, 2D, 0x1",
        "TEX.LL.AOFFI RZ, R0, R2, R4, UR4, 0x0, 2D, 0x1",
        "TLD.LL RZ, R0, R2, R4, UR4, 0x0, 2D, 0x1",
        "TLD.LZ RZ, R0, R2, UR4, 0x0, CUBE, 0x1",
        "TLD4.R RZ, R0, R2, UR4, 0x0, 3D, 0x1",
        "TLD4 RZ, R0, R2, UR4, 0x0, 2D, 0x1",
        "TXD RZ, R0, R2, R4, UR4, 0x0, CUBE, 0x1",
        "TXQ RZ, R0, R2, TEX_HEADER_DIMENSION, UR4, 0x0, 0x8",
        "TXQ RZ, R0, R2, TEX_HEADER_TEXTURE_TYPE, UR4, 0x0, 0x1",
        "SULD.D.BA R0, [R2], UR4, 0x0",
        "SULD.P.2D.TRAP R0, [R2], UR4, 0x0",
        "SULD.D.BA.2D.TRAP R0, [R2+0x4], UR4, 0x0",
        "SULD.D.BA.2D.TRAP R0, R2, UR4, 0x0",
        "SUST.D.BA.2D.TRAP [R2], UR0, UR4, 0x0",
        "SUST.D.BA.CUBE.TRAP [R2], R0, UR4, 0x0",
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
        "CCTL.FROB",
        "@P0",
        "@R0 MOV R0, R2",
        "@P12 EXIT",
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

// Every word of the instructions in fuzz_corpus/machine.txt counts: an unknown modifier, one
// operand too many and missing operands are refused.
TEST(SassLift, ReadsEveryWord) {
    // The last operands of these may be missing. BAR.SYNC may have one more, too.
    const std::string optional[] = {"BAR.ARV", "BAR.SYNC",   "BPT.TRAP",  "IADD3.X",
                                    "IMAD.X",  "LOP3.LUT R", "ULOP3.LUT", "TEX.LL"};
    std::ifstream file(COALESCE_SOURCE_DIR "/tests/cpp/fuzz_corpus/machine.txt");
    const sim::Engine& engine = sim::engine(sim::Watch::nothing);
    const auto lifted = [&](const std::string& line) {
        try {
            (void)lift_machine({".L_x_0:", line, ".L_x_1:"}, engine);
            return true;
        } catch (const UnsupportedInstruction&) {
            return false;
        }
    };
    int lines = 0;
    for (std::string line; std::getline(file, line);) {
        lines += lifted(line);
        std::string more = line;
        const size_t opcode = line.starts_with('@') ? line.find(' ') + 1 : 0;
        more.insert(std::min(line.find(' ', opcode), line.size()), ".FROB");
        EXPECT_FALSE(lifted(more)) << more;
        EXPECT_TRUE(!lifted(line + ", R30") || line.starts_with("BAR.SYNC")) << line;
        if (std::ranges::any_of(optional, [&](auto& text) { return line.starts_with(text); }))
            continue;
        size_t end = line.rfind(line.find(',') == std::string::npos ? ' ' : ',');
        for (; end != std::string::npos && end > opcode; end = line.rfind(',', end - 1))
            EXPECT_FALSE(lifted(line.substr(0, end))) << line.substr(0, end);
    }
    EXPECT_GT(lines, 210);
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
