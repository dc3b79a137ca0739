// Tests the properties of instructions that observers use: a table of opcodes and their traits.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ptx/module.hpp"
#include "sim/program/program.hpp"
#include "sim/ptx_analysis/data_flow.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {
namespace {

// Returns the names of the traits that are set, in the order of their declaration.
std::string dump(const Traits& t) {
    std::string text(operation(t.code).spelling);
    const auto add = [&](bool set, const char* name) {
        if (set) (text += ' ') += name;
    };
    const char* const pipes[] = {"", "fp32", "fp64", "alu", "xu", "tensor", "by_type"};
    const char* const forms[] = {"", "compare_and_swap", "spinning", "counting", "exchange"};
    add(t.pipe != Pipe::other, pipes[int(t.pipe)]);
    add(t.form != AtomicForm::plain, forms[int(t.form)]);
    add(t.scope == ThreadScope::block, "block_scope");
    add(t.has_result, "result");
    add(t.block_barrier, "block_barrier");
    add(t.warp_barrier, "warp_barrier");
    add(t.aligned, "aligned");
    add(t.shuffle, "shuffle");
    add(t.orders, "orders");
    add(t.atomic, "atomic");
    add(t.strong, "strong");
    add(t.releases, "releases");
    add(t.read_only, "read_only");
    add(t.adds_floats, "adds_floats");
    add(t.bypasses_l1, "bypasses_l1");
    add(t.fills_parts, "fills_parts");
    add(t.ends_copy_group, "ends_copy_group");
    add(t.awaits_copies, "awaits_copies");
    add(t.bulk, "bulk");
    add(t.multicast, "multicast");
    add(t.ends_bulk_group, "ends_bulk_group");
    add(t.matrix, "matrix");
    add(t.texture, "texture");
    add(t.warpgroup, "warpgroup");
    add(t.cluster, "cluster");
    add(t.calls_outside, "calls_outside");
    add(t.system_fence, "system_fence");
    add(t.tests_mbarrier, "tests_mbarrier");
    add(t.requests_registers, "requests_registers");
    add(t.unrecorded, "unrecorded");
    add(t.tensor_cycles_vary, "tensor_cycles_vary");
    if (t.columns) text += " columns=" + std::to_string(t.columns);
    if (t.elements != 1) text += " elements=" + std::to_string(t.elements);
    return text;
}

struct Row {
    const char* opcode;
    const char* traits;
};

class OfOpcode : public testing::TestWithParam<Row> {};

TEST_P(OfOpcode, Traits) {
    EXPECT_EQ(dump(traits_of(GetParam().opcode)), GetParam().traits) << GetParam().opcode;
}

constexpr Row ptx[] = {
    {"add.s32", "add result"},
    {"add.f32", "add fp32 result"},
    {"fma.rn.f64", "fma fp64 result"},
    {"fma.rn.f16x2", "fma result"},
    {"mov.f32", "mov result"},
    {"ld.global.f32", "ld result"},
    {"ld.global.nc.f32", "ld result read_only"},
    {"ld.global.v4.f32", "ld result elements=4"},
    {"st.shared.v2.b64", "st elements=2"},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix result matrix"},
    {"barrier.cluster.arrive.aligned", "barrier.cluster cluster"},
    {"mapa.shared::cluster.u32", "mapa result cluster"},
    {"ld.volatile.shared.u32", "ld result strong bypasses_l1"},
    {"ld.global.cg.f32", "ld result bypasses_l1"},
    {"ld.acquire.gpu.global.u32", "ld result strong bypasses_l1"},
    {"ld.relaxed.cta.global.u32", "ld block_scope result strong bypasses_l1"},
    {"st.global.f32", "st"},
    {"st.release.gpu.global.u32", "st strong releases"},
    {"atom.global.add.u32", "atom result atomic strong"},
    {"atom.global.add.f32", "atom result atomic strong adds_floats"},
    {"atom.shared.cas.b32", "atom compare_and_swap result atomic strong"},
    {"atom.acq_rel.gpu.global.exch.b32", "atom exchange result atomic strong releases"},
    {"red.global.add.noftz.bf16x2", "red atomic strong adds_floats"},
    {"red.global.max.s32", "red atomic strong"},
    {"cp.async.ca.shared.global", "cp.async"},
    {"cp.async.mbarrier.arrive.noinc.shared.b64",
     "cp.async.mbarrier.arrive atomic strong releases"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
     "cp.async.bulk.shared::cluster atomic strong releases bulk"},
    {"cp.async.bulk.global.shared::cta.bulk_group", "cp.async.bulk.global bulk"},
    {"tex.2d.v4.f32.f32", "tex result read_only texture"},
    {"tld4.r.2d.v4.f32.f32", "tld4 result read_only texture"},
    {"suld.b.2d.b32.trap", "suld result texture"},
    {"sust.b.2d.b32.clamp", "sust texture"},
    {"txq.width.b32", "txq result"},
    {"mbarrier.init.shared.b64", "mbarrier.init"},
    {"mbarrier.arrive.expect_tx.shared.b64", "mbarrier.arrive result atomic strong releases"},
    {"mbarrier.try_wait.parity.shared.b64", "mbarrier.try_wait result strong releases"},
    {"cp.async.cg.shared.global", "cp.async bypasses_l1"},
    {"cp.async.commit_group", "cp.async.commit_group ends_copy_group"},
    {"cp.async.bulk.commit_group", "cp.async.bulk.commit_group ends_bulk_group"},
    {"cp.async.wait_group", "cp.async.wait_group awaits_copies"},
    {"cp.async.wait_all", "cp.async.wait_all awaits_copies"},
    {"membar.gl", "membar orders"},
    {"membar.cta", "membar block_scope orders"},
    {"fence.acq_rel.gpu", "fence orders"},
    {"fence.proxy.alias", "fence"},
    {"bar.sync", "bar block_barrier aligned"},
    {"bar.red.popc.u32", "bar result block_barrier aligned"},
    {"bar.arrive", "bar aligned"},
    {"bar.warp.sync", "bar.warp warp_barrier"},
    {"barrier.sync", "barrier block_barrier"},
    {"barrier.cta.sync.aligned", "barrier block_scope block_barrier aligned"},
    {"shfl.sync.down.b32", "shfl result shuffle"},
    {"vote.sync.ballot.b32", "vote result"},
    {"redux.sync.add.s32", "redux result"},
    {"ld.shared::cluster.u32", "ld result cluster"},
    {"getctarank.u64", "getctarank result cluster"},
    {"bra.uni", "bra"},
    {"nonsense.u32", ""},
    {"", ""},
};
INSTANTIATE_TEST_SUITE_P(Ptx, OfOpcode, testing::ValuesIn(ptx));

constexpr Row machine_code[] = {
    {"FFMA", "FFMA fp32 result"},
    {"FFMA.FTZ", "FFMA fp32 result"},
    {"DADD", "DADD fp64 result"},
    {"HFMA2", "HFMA2 result"},
    {"HFMA2.MMA", "HFMA2 result tensor_cycles_vary"},
    {"HMMA.16816.F32", "HMMA tensor result"},
    {"IADD3.X", "IADD3 alu result"},
    {"UIADD3", "UIADD3 result"},
    {"MUFU.RCP", "MUFU xu result"},
    {"I2F", "I2F xu result"},
    {"I2F.F64", "I2F xu result"},
    {"I2FP.F32.S32", "I2FP alu result"},
    {"LDG.E.128", "LDG result"},
    {"LDG.E.STRONG.GPU", "LDG result strong bypasses_l1"},
    {"LDG.E.STRONG.SM", "LDG block_scope result strong"},
    {"STG.E", "STG"},
    {"ATOMS.ADD", "ATOMS result atomic strong"},
    {"ATOMS.CAS", "ATOMS compare_and_swap result atomic strong"},
    {"ATOMS.CAST.SPIN", "ATOMS spinning result atomic strong"},
    {"ATOMS.POPC.INC.32", "ATOMS counting result atomic strong"},
    {"RED.E.ADD.F32.FTZ.RN.STRONG.GPU", "RED atomic strong adds_floats bypasses_l1"},
    {"RED.E.ADD.STRONG.GPU", "RED atomic strong bypasses_l1"},
    {"RED.E.MAX.S32.STRONG.GPU", "RED atomic strong bypasses_l1"},
    {"RED.E.ADD.F16x2.RN.STRONG.GPU", "RED atomic strong adds_floats bypasses_l1 unrecorded"},
    {"REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU", "REDG atomic strong adds_floats bypasses_l1"},
    {"REDG.E.ADD.F16x8.RN.STRONG.GPU", "REDG atomic strong adds_floats bypasses_l1"},
    {"ATOMG.E.ADD.F32x2.FTZ.RN.STRONG.GPU", "ATOMG result atomic strong adds_floats bypasses_l1"},
    {"ATOMG.E.ADD.BF16x4.RN.STRONG.GPU",
     "ATOMG result atomic strong adds_floats bypasses_l1 unrecorded"},
    {"ATOM.E.ADD.F16x2.RN.STRONG.GPU", "ATOM result atomic strong adds_floats bypasses_l1"},
    {"ATOMG.E.ADD.BF16x2.RN.STRONG.GPU",
     "ATOMG result atomic strong adds_floats bypasses_l1 unrecorded"},
    {"LDGSTS.E.128", "LDGSTS"},
    {"LDGSTS.E.BYPASS.128", "LDGSTS bypasses_l1"},
    {"LDGSTS.E.BYPASS.128.ZFILL", "LDGSTS bypasses_l1 fills_parts"},
    {"LDGDEPBAR", "LDGDEPBAR ends_copy_group"},
    {"DEPBAR.LE", "DEPBAR awaits_copies"},
    {"BAR.SYNC.DEFER_BLOCKING", "BAR block_barrier aligned"},
    {"BAR.RED.POPC.DEFER_BLOCKING", "BAR block_barrier aligned"},
    {"BAR.ARV", "BAR aligned"},
    {"WARPSYNC.ALL", "WARPSYNC warp_barrier"},
    {"SHFL.DOWN", "SHFL result shuffle"},
    {"BRA", "BRA"},
    {"CALL.REL.NOINC", "CALL"},
    {"CALL.ABS.NOINC", "CALL calls_outside"},
    {"MEMBAR.SC.SYS", "MEMBAR orders system_fence"},
    {"LDG.E.MMIO.SYS", "LDG result strong unrecorded"},
    {"HGMMA.64x256x16.F32.BF16", "HGMMA tensor result warpgroup columns=256"},
    {"HGMMA.128x256x16.F32.BF16", "HGMMA tensor result warpgroup"},
    {"UTMALDG.2D.MULTICAST", "UTMALDG bulk multicast"},
    {"UTMACMDFLUSH", "UTMACMDFLUSH ends_bulk_group"},
    {"QGMMA.64x8x32.F32.E4M3.E4M3", "QGMMA tensor result warpgroup columns=8"},
    {"IGMMA.64x16x32.S8.S8", "IGMMA tensor result warpgroup columns=16"},
    {"BGMMA.64x8x256.AND.POPC", "BGMMA tensor result warpgroup unrecorded columns=8"},
    {"HMMA.16816.F32", "HMMA tensor result"},
    {"SYNCS.PHASECHK.TRANS64.TRYWAIT", "SYNCS result atomic strong tests_mbarrier"},
    {"SYNCS.ARRIVE.TRANS64", "SYNCS result atomic strong"},
    {"USETMAXREG.TRY_ALLOC.CTAPOOL", "USETMAXREG result requests_registers"},
    {"USETMAXREG.DEALLOC.CTAPOOL", "USETMAXREG result"},
    {"UCGABAR_ARV", "UCGABAR_ARV cluster"},
    {"UCGABAR_WAIT", "UCGABAR_WAIT cluster"},
};
INSTANTIATE_TEST_SUITE_P(MachineCode, OfOpcode, testing::ValuesIn(machine_code));

TEST(Operations, HaveARowForEachCode) {
    std::set<std::string_view> spellings;
    for (size_t i = 0; i < operations().size(); ++i) {
        const Operation& row = operations()[i];
        EXPECT_EQ(size_t(row.code), i);
        EXPECT_TRUE(spellings.insert(row.spelling).second) << row.spelling;
        if (i == 0) continue;
        EXPECT_EQ(opcode_named(row.spelling), row.code) << row.spelling;
        EXPECT_FALSE(row.sentence.empty()) << row.spelling;
        const bool capital = row.spelling[0] >= 'A' && row.spelling[0] <= 'Z';
        EXPECT_EQ(traits_of(row.spelling).machine_code, capital) << row.spelling;
    }
}

TEST(Operations, AreFoundByTheLongestSpellingOfWholeParts) {
    EXPECT_EQ(opcode_named("bar.sync"), OpCode::bar);
    EXPECT_EQ(opcode_named("bar.warp.sync"), OpCode::bar_warp);
    EXPECT_EQ(opcode_named("add"), OpCode::add);
    EXPECT_EQ(opcode_named("addc.cc.u32"), OpCode::addc);
    EXPECT_EQ(opcode_named("ad"), OpCode::unknown);
    EXPECT_EQ(opcode_named("cp.reduce.async"), OpCode::unknown);
}

// For an operation with the trait no_result, effects_of() must return no written registers. For all
// other operations, it must return some. The allocation of registers relies on this.
TEST(Operations, WriteARegisterUnlessTheyHaveNoResult) {
    for (const Operation& row : operations()) {
        if (row.code == OpCode::unknown || row.is_machine_code()) continue;
        ptx::Instruction in;
        const size_t dot = std::min(row.spelling.find('.'), row.spelling.size());
        in.opcode = row.spelling.substr(0, dot);
        if (dot < row.spelling.size()) in.modifiers.push_back(row.spelling.substr(dot + 1));
        for (const int32_t reg : {0, 1}) {
            ptx::Operand operand;
            operand.kind = ptx::Operand::Kind::reg;
            operand.reg = reg;
            in.operands.push_back(operand);
        }
        EXPECT_EQ(effects_of(in, traits_of(row.spelling)).writes.empty(), row.has(trait::no_result))
            << row.spelling;
    }
}

TEST(InstructionInfo, HasTheTraitsOfItsOpcode) {
    InstructionInfo info;
    info.set_text("ld.volatile.global.u32 %r1, [%rd1];", "ld.volatile.global.u32");
    EXPECT_EQ(info.text, "ld.volatile.global.u32 %r1, [%rd1];");
    EXPECT_EQ(info.opcode, "ld.volatile.global.u32");
    EXPECT_EQ(info.traits, traits_of("ld.volatile.global.u32"));
}

TEST(Traits, SayWhichFactorsOfAProductAreInSharedMemory) {
    const auto product = [](const char* text) {
        return traits_of("HGMMA.64x256x8.F32.TF32", text);
    };
    const Traits both = product("HGMMA.64x256x8.F32.TF32 R24, gdesc[UR4].tnspB, R24, UP0, gsb0");
    EXPECT_EQ(both.shared_factors, 2u);
    EXPECT_FALSE(both.empty_product);
    const Traits one = product("HGMMA.64x256x8.F32.TF32 R24, R28, gdesc[UR4], R24, gsb0");
    EXPECT_EQ(one.shared_factors, 1u);
    EXPECT_FALSE(one.empty_product);
    EXPECT_TRUE(product("HGMMA.64x256x8.F32.TF32 RZ, gdesc[URZ], RZ, !UPT, gsb0").empty_product);
}

}  // namespace
}  // namespace coalesce::sim
