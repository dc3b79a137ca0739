// Tests basic blocks, points of reconvergence and live ranges. Tables have the expected blocks of
// small kernels. For random kernels, simple, slow functions (oracles) that follow the definitions
// compute the points of reconvergence and the live ranges. For reconvergence, such a function
// removes a block and tests what still reaches the end. For live ranges, it follows every path from
// a write to a read.
#include "sim/ptx_analysis/data_flow.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <string>

#include "errors.hpp"
#include "ptx/module.hpp"

namespace coalesce::sim {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Module;

Module kernel(const std::string& body) {
    return ptx::parse(
        ".version 8.4\n.target sm_90\n.func f(); .entry k {\n"
        ".reg .pred p, q; .reg .b32 a, b, c, d, i; .reg .b64 x;\n" +
        body + "\n}\n");
}

const Function& entry_of(const Module& module) { return *module.find_function("k"); }

ControlFlow control_flow(const Function& function) {
    return sim::control_flow(function, traits_of(function));
}

std::vector<LiveRange> live_ranges(const Function& function, const ControlFlow& flow) {
    return sim::live_ranges(function, traits_of(function), flow);
}

// Returns a text that describes each block. For example, "0-2>1,2 !3" is a block with instructions
// 0 and 1 and successors 1 and 2, whose lanes reconverge at block 3. A "." means that threads can
// leave the kernel here.
std::string flow_of(const std::string& body) {
    const Module module = kernel(body);
    std::string text;
    for (const BasicBlock& block : control_flow(entry_of(module)).blocks) {
        if (!text.empty()) text += "; ";
        text += std::to_string(block.first) + "-" + std::to_string(block.last) + ">";
        for (size_t i = 0; i < block.successors.size(); ++i) {
            if (i > 0) text += ",";
            text += std::to_string(block.successors[i]);
        }
        if (block.leaves) text += ".";
        if (block.reconvergence != no_block) text += " !" + std::to_string(block.reconvergence);
    }
    return text;
}

TEST(ControlFlow, Blocks) {
    const struct {
        const char* body;
        const char* flow;
    } table[] = {
        {"", ""},
        {"ret;", "0-1>."},
        {"mov.b32 a, 1;", "0-1>."},
        {"@p ret; ret;", "0-1>1.; 1-2>."},
        {"@p trap; mov.b32 a, 1; exit;", "0-1>1.; 1-3>."},
        // if, if-else, loop
        {"@p bra E; mov.b32 a, 1; E: ret;", "0-1>1,2 !2; 1-2>2 !2; 2-3>."},
        {"@p bra T; mov.b32 a, 1; bra E; T: mov.b32 a, 2; E: ret;",
         "0-1>1,2 !3; 1-3>3 !3; 3-4>3 !3; 4-5>."},
        {"L: add.u32 a, a, 1; @p bra L; ret;", "0-2>1,0 !1; 2-3>."},
        {"L: @q bra E; add.u32 a, a, 1; @p bra L; E: ret;", "0-1>1,2 !2; 1-3>2,0 !2; 3-4>."},
        // an early return on one side only: lanes reconverge at the exit
        {"@p bra T; mov.b32 a, 1; ret; T: mov.b32 a, 2; ret;", "0-1>1,2; 1-3>.; 3-5>."},
        {"@p bra T; @q ret; mov.b32 b, 1; T: mov.b32 a, 2; ret;",
         "0-1>1,3; 1-2>2.; 2-3>3 !3; 3-5>."},
        // barriers and calls end a block; bar.warp.sync does not
        {"bar.sync 0; ret;", "0-1>1 !1; 1-2>."},
        {"barrier.cta.sync.aligned 0; barrier.cluster.arrive; ret;", "0-1>1 !1; 1-2>2 !2; 2-3>."},
        {"bar.warp.sync -1; ret;", "0-2>."},
        {"call f; ret;", "0-1>1 !1; 1-2>."},
        // a branch to the next instruction, to the end, and unreachable text
        {"@p bra N; N: ret;", "0-1>1 !1; 1-2>."},
        {"@p bra N; ret; N:", "0-1>1.; 1-2>."},
        {"bra E; mov.b32 a, 1; E: ret;", "0-1>2 !2; 1-2>2 !2; 2-3>."},
        {"ts: .branchtargets A, B, A; brx.idx a, ts; A: mov.b32 b, 1; B: ret;",
         "0-1>1,2 !2; 1-2>2 !2; 2-3>."},
        // infinite loops
        {"L: bra L;", "0-1>0"},
        {"@p bra L; ret; L: add.u32 a, a, 1; bra L;", "0-1>1,2 !1; 1-2>.; 2-4>2"},
        {"L: @p bra M; N: bra L; M: bra L;", "0-1>1,2; 1-2>0; 2-3>0"},
        // a label without a branch to it does not start a block
        {"mov.b32 a, 1; L: mov.b32 b, 2; ret;", "0-3>."},
    };
    for (const auto& row : table) EXPECT_EQ(flow_of(row.body), row.flow) << row.body;
}

TEST(ControlFlow, BlockOfEachInstruction) {
    const Module module = kernel("@p bra E; mov.b32 a, 1; mov.b32 b, 1; E: ret;");
    EXPECT_EQ(control_flow(entry_of(module)).block_of, (std::vector<uint32_t>{0, 1, 1, 2}));
}

TEST(ControlFlow, RefusesInvalidTargets) {
    Module module = kernel("@p bra E; ret; E: ret;");
    module.functions[1].body[0].operands[0].target = 99;
    EXPECT_THROW((void)control_flow(entry_of(module)), PtxError);
    EXPECT_THROW((void)control_flow(entry_of(kernel("brx.idx a, f;"))), PtxError);
}

// Returns the registers that the first instruction writes (w) and reads (r), as in "w:a,b r:c".
std::string effects_of(const std::string& instruction) {
    const Module module = kernel(instruction);
    const Function& k = entry_of(module);
    const Effects effects = effects_of(k.body[0], traits_of(k)[0]);
    const auto names = [&](const std::vector<uint32_t>& registers) {
        std::set<std::string> sorted;
        for (uint32_t r : registers) sorted.insert(k.registers[r].name);
        std::string text;
        for (const std::string& name : sorted) text += name;
        return text;
    };
    return "w:" + names(effects.writes) + " r:" + names(effects.reads);
}

TEST(Effects, Table) {
    const struct {
        const char* instruction;
        const char* effects;
    } table[] = {
        {"add.u32 a, b, c;", "w:a r:bc"},
        {"add.u32 a, a, 1;", "w:a r:a"},
        {"@p add.u32 a, b, c;", "w:a r:abcp"},
        {"ld.global.u32 a, [x];", "w:a r:x"},
        {"ld.global.v4.u32 {a, b, _, c}, [x];", "w:abc r:x"},
        {"st.global.u32 [x], a;", "w: r:ax"},
        {"st.global.v2.u32 [x], {a, b};", "w: r:abx"},
        {"st.param.b32 [8], a;", "w: r:a"},
        {"red.global.add.u32 [x], a;", "w: r:ax"},
        {"atom.global.cas.b32 a, [x], b, c;", "w:a r:bcx"},
        {"atom.global.add.u32 _, [x], b;", "w: r:bx"},
        {"setp.lt.and.f32 p|q, a, b, !p;", "w:pq r:abp"},
        {"shfl.sync.bfly.b32 a|p, b, 1, 31, c;", "w:ap r:bc"},
        {"mov.b64 {a, b}, x;", "w:ab r:x"},
        {"mov.b64 x, {a, b};", "w:x r:ab"},
        {"bar.sync a, b;", "w: r:ab"},
        {"bar.warp.sync a;", "w: r:a"},
        {"bar.red.popc.u32 a, 0, p;", "w:a r:p"},
        {"barrier.cta.red.and.pred p, 0, q;", "w:p r:q"},
        {"barrier.cta.sync a;", "w: r:a"},
        {"brx.idx a, f;", "w: r:a"},
        {"@p bra L; L:", "w: r:p"},
        {"call f;", "w: r:"},
        {"call (a), x, (b, c);", "w:a r:bcx"},
        {"call x, (b, c);", "w: r:bcx"},
        {"@q ret;", "w: r:q"},
        {"nanosleep.u32 a;", "w: r:a"},
        {"prefetch.global.L2 [x];", "w: r:x"},
        {"cp.async.ca.shared.global [a], [x], 16, b;", "w: r:abx"},
        {"mbarrier.init.shared.b64 [a], b;", "w: r:ab"},
        {"mbarrier.expect_tx.shared.b64 [a], b;", "w: r:ab"},
        {"mbarrier.arrive.shared.b64 x, [a];", "w:x r:a"},
        {"mbarrier.arrive.expect_tx.shared.b64 _, [a], b;", "w: r:ab"},
        {"mbarrier.try_wait.shared.b64 p, [a], x;", "w:p r:ax"},
        {"stmatrix.sync.aligned.m8n8.x2.shared.b16 [a], {b, c};", "w: r:abc"},
        {"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {b, c}, [a];", "w:bc r:a"},
        {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a, b}, x, x, p, 1, 1;", "w:ab r:abpx"},
        {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {a, b}, {c}, {d}, {a, b};",
         "w:ab r:abcd"},
        {"tex.1d.v4.f32.s32 {a, b, c, d}, [x, {i}];", "w:abcd r:ix"},
        {"setmaxnreg.inc.sync.aligned.u32 40;", "w: r:"},
        {"vote.sync.ballot.b32 a, p, b;", "w:a r:bp"},
    };
    for (const auto& row : table)
        EXPECT_EQ(effects_of(row.instruction), row.effects) << row.instruction;
}

// Returns a random kernel of moves, guarded moves, branches, returns and barriers.
std::string random_body(std::mt19937& random, int size) {
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const std::string names[] = {"a", "b", "c", "d", "i"};
    std::string text;
    for (int i = 0; i < size; ++i) {
        text += "L" + std::to_string(i) + ": ";
        const std::string guard = below(2) ? "@p " : "";
        const std::string target = "L" + std::to_string(below(size));
        switch (below(8)) {
            case 0:
                text += guard + "bra " + target + ";";
                break;
            case 1:
                text += "@p bra " + target + ";";
                break;
            case 2:
                text += below(3) ? "bar.sync 0;" : guard + "ret;";
                break;
            case 3:
                text += "mov.b32 " + names[below(5)] + ", 1;";
                break;
            case 4:
                text += "@p mov.b32 " + names[below(5)] + ", " + names[below(5)] + ";";
                break;
            default:
                text += "mov.b32 " + names[below(5)] + ", " + names[below(5)] + ";";
                break;
        }
        text += "\n";
    }
    return text;
}

// Returns true if a path from block `from` reaches the end of the function without passing block
// `without`.
bool reaches_exit(const ControlFlow& flow, uint32_t from, uint32_t without) {
    std::vector<bool> seen(flow.blocks.size(), false);
    std::vector<uint32_t> stack{from};
    while (!stack.empty()) {
        const uint32_t b = stack.back();
        stack.pop_back();
        if (b == without || seen[b]) continue;
        seen[b] = true;
        if (flow.blocks[b].leaves) return true;
        for (uint32_t next : flow.blocks[b].successors) stack.push_back(next);
    }
    return false;
}

TEST(ControlFlow, PostDominatorsAgreeWithTheirDefinition) {
    std::mt19937 random(1);
    for (int round = 0; round < 400; ++round) {
        const std::string body = random_body(random, 4 + round % 24);
        const Module module = kernel(body);
        const ControlFlow flow = control_flow(entry_of(module));
        const auto count = static_cast<uint32_t>(flow.blocks.size());
        for (uint32_t b = 0; b < count; ++b) {
            // All blocks that are on every path from b to the exit.
            std::vector<uint32_t> above;
            if (reaches_exit(flow, b, no_block)) {
                for (uint32_t d = 0; d < count; ++d) {
                    if (d != b && !reaches_exit(flow, b, d)) above.push_back(d);
                }
            }
            // One of the blocks in `above` is the nearest: every path from b reaches it before the
            // other blocks of `above`. So all these other blocks are on every path from the nearest
            // block to the exit.
            uint32_t nearest = no_block;
            for (uint32_t d : above) {
                const bool first = std::all_of(above.begin(), above.end(), [&](uint32_t e) {
                    return e == d || !reaches_exit(flow, d, e);
                });
                if (first) nearest = d;
            }
            ASSERT_EQ(flow.blocks[b].reconvergence, nearest) << "block " << b << " of\n" << body;
        }
    }
}

TEST(LiveRanges, CoverEveryPathFromWriteToRead) {
    std::mt19937 random(2);
    for (int round = 0; round < 400; ++round) {
        const std::string body = random_body(random, 4 + round % 24);
        const Module module = kernel(body);
        const Function& k = entry_of(module);
        const ControlFlow flow = control_flow(k);
        const std::vector<LiveRange> ranges = live_ranges(k, flow);
        const auto size = static_cast<uint32_t>(k.body.size());
        std::vector<Effects> touched;
        const std::vector<Traits> traits = traits_of(k);
        for (uint32_t i = 0; i < size; ++i) touched.push_back(effects_of(k.body[i], traits[i]));
        const auto contains = [](const std::vector<uint32_t>& list, uint32_t r) {
            return std::find(list.begin(), list.end(), r) != list.end();
        };
        for (uint32_t r = 0; r < k.registers.size(); ++r) {
            LiveRange expected;
            for (uint32_t i = 0; i < size; ++i) {
                // A register is live at i if a path from i reads the register before any write to
                // it. The register also counts as live at i if instruction i writes it.
                bool live = contains(touched[i].writes, r);
                std::vector<bool> seen(size, false);
                std::vector<uint32_t> stack{i};
                while (!stack.empty() && !live) {
                    const uint32_t at = stack.back();
                    stack.pop_back();
                    if (seen[at]) continue;
                    seen[at] = true;
                    live = contains(touched[at].reads, r);
                    if (contains(touched[at].writes, r)) continue;
                    const BasicBlock& block = flow.blocks[flow.block_of[at]];
                    if (at + 1 < block.last) {
                        stack.push_back(at + 1);
                    } else {
                        for (uint32_t next : block.successors)
                            stack.push_back(flow.blocks[next].first);
                    }
                }
                if (!live) continue;
                expected.first = std::min(expected.first, i);
                expected.last = std::max(expected.last, i);
            }
            EXPECT_EQ(ranges[r].first, expected.first) << k.registers[r].name << " in\n" << body;
            EXPECT_EQ(ranges[r].last, expected.last) << k.registers[r].name << " in\n" << body;
        }
    }
}

// The kernel has 20,000 instructions and 10,000 registers in 2,000 blocks. The time limit of 5 s is
// much longer than needed, so that the test does not fail on slow machines.
TEST(LiveRanges, LargeKernelIsFast) {
    std::string body = ".reg .b32 %r<10000>;\n";
    for (int i = 0; i < 10000; ++i) {
        const std::string n = std::to_string(i), m = std::to_string(i / 2),
                          far = std::to_string(i * 7919LL % 10000);
        body += "add.u32 %r" + n + ", %r" + m + ", %r" + far + ";\n";
        if (i % 10 == 9)
            body += "L" + n + ": @p bra L" + std::to_string(i - i % 1000 + 9) + ";\n";
        else
            body += "xor.b32 %r" + n + ", %r" + n + ", 1;\n";
    }
    const Module module = kernel(body);
    const auto start = std::chrono::steady_clock::now();
    const Function& k = entry_of(module);
    const ControlFlow flow = control_flow(k);
    EXPECT_EQ(live_ranges(k, flow).size(), k.registers.size());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 5.0);
    RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
}

}  // namespace
}  // namespace coalesce::sim
