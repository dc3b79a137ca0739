// No text may make the parser, the control flow, the live ranges, the decoder or a launch crash,
// hang or run out of memory: whatever comes, the answer is a result or one of the errors of
// errors.hpp.
//
// With clang and -fsanitize=fuzzer this is a libFuzzer target. Without (COALESCE_LIBFUZZER not
// defined) it has a main of its own, which mutates the seeds below and the files it is given:
//   fuzz_ptx [iterations] [seed] [file.ptx ...]
// Each text is first written to the file that FUZZ_PTX_LAST in the environment names, to be found
// there after a crash.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "analysis/engines.hpp"
#include "errors.hpp"
#include "ptx/control_flow.hpp"
#include "ptx/module.hpp"
#include "sim/launch.hpp"
#include "sim/program.hpp"

namespace {

namespace ptx = coalesce::ptx;

void check(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz_ptx: %s\n", what);
    std::abort();
}

void check_module(const ptx::Module& module) {
    for (const ptx::Function& function : module.functions) {
        const ptx::ControlFlow flow = ptx::control_flow(function);
        check(flow.block_of.size() == function.body.size(), "an instruction without a block");
        for (const ptx::Block& block : flow.blocks) {
            check(block.first < block.last && block.last <= function.body.size(), "an empty block");
            check(!block.successors.empty() || block.leaves, "a block that goes nowhere");
        }
        const auto ranges = ptx::live_ranges(function, flow);
        check(ranges.size() == function.registers.size(), "a register without a range");
    }
    (void)ptx::dump(module);
}

void check_message(const coalesce::Error& error) {
    for (const char* c = error.what(); *c; ++c) {
        check((*c >= ' ' && *c <= '~') || *c == '\n' || *c == '\t', "an unprintable message");
    }
}

// Decodes every kernel of the module and runs it on a tiny grid, for few instructions, with every
// parameter pointing to the same 4 KB.
void run_module(const ptx::Module& module) {
    namespace sim = coalesce::sim;
    uint64_t bytes = 0;
    for (const ptx::Variable& v : module.variables) {
        if (v.bytes() > (1u << 20)) return;  // allowed, but it takes its time
        bytes += v.bytes();
    }
    if (bytes > (1u << 20)) return;
    const auto variables = sim::lay_out_memory(module);
    static std::vector<std::byte> data(4096);
    for (const ptx::Function& function : module.functions) {
        if (!function.entry) continue;
        for (const bool counted : {false, true}) {
            try {
                const sim::Program program =
                    sim::decode(module, function, variables,
                                counted ? coalesce::analysis::counting_engine()
                                        : coalesce::analysis::silent_engine());
                if (program.local_bytes > 4096 || program.parameter_bytes > 4096) continue;
                sim::Launch launch;
                launch.grid = {2, 1, 1};
                launch.block = {40, 1, 1};
                launch.shared_bytes = 256;
                launch.workers = 1;
                launch.instruction_limit = 500;
                launch.parameters.resize(program.parameter_bytes);
                sim::check(launch, sim::Limits{}, program.shared_bytes, program.kernel);
                sim::AddressSpace memory;
                program.memory->map_into(memory);
                sim::Buffer buffer;
                buffer.name = "data";
                buffer.bytes = data.size();
                buffer.host = data.data();
                const uint64_t address = memory.add(buffer);
                for (size_t at = 0; at + 8 <= launch.parameters.size(); at += 8)
                    std::memcpy(&launch.parameters[at], &address, 8);
                if (counted)
                    (void)coalesce::analysis::run_counted(program, launch, memory);
                else
                    coalesce::analysis::run(program, launch, memory);
            } catch (const coalesce::Error& error) {
                check_message(error);
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const ptx::Module module =
            ptx::parse(std::string(reinterpret_cast<const char*>(data), size));
        check_module(module);
        run_module(module);
    } catch (const coalesce::Error& error) {
        check_message(error);
    }
    return 0;
}

#ifndef COALESCE_LIBFUZZER
namespace {

const char* const seeds[] = {
    R"(.version 9.0
.target sm_90, debug
.address_size 64
.file 1 "k.cu", 12, 34
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .align 8 .b8 b[16]) .noreturn;
.const .align 4 .f32 c[3] = {0f3F800000, 1.5, -2};
.global .u32 m[2][3] = {{1}, {2, 3}};
.global .u64 table[4] = {m, generic(m), m+4, (1 << 4) | 3 * -(2 + 1) ? 7 : WARP_SZ};
.extern .shared .align 16 .b8 dyn[];
.section .debug_str { $L_s: .b8 1, 2 }
.visible .entry k(.param .u64 .ptr .global .align 4 a, .param .u32 n) .maxntid 256, 1, 1
{
	.reg .pred %p<4>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<6>;
	.reg .v2 .f32 v;
	.shared .align 4 .b8 tile[4224];
	.loc 1 5 3
	ld.param.u64 %rd1, [a];
	mov.u32 %r1, %tid.x;
	setp.ge.u32 %p1|%p2, %r1, 0x7fU, !%p3;
	@%p1 bra $L2;
$L1:	add.s32 %r2, %r2, -1;
	.loc 1 9 7, function_name $L_s, inlined_at 1 22 8
	ld.global.nc.v4.f32 {v.x, v.y, _, v.x}, [%rd1+-12];
	shfl.sync.bfly.b32 %r3|%p2, %r2, 16, 31, -1;
	@!%p2 bra.uni $L1;
	{ .reg .b32 t; L: mov.b32 t, %r1; @%p1 bra L; }
	{ .reg .b32 t; L: mov.b32 t, %r2; @%p1 bra L; }
ts: .branchtargets $L1, $L2;
	brx.idx %r1, ts;
$L2:	bar.sync 0;
	{ .param .b64 param0; .param .b32 retval0;
	call.uni (retval0), vprintf, (param0, param0);
	p0: .callprototype (.param .b32 _) _ (.param .b64 _);
	call (retval0), %rd2, (param0), p0; }
	st.global.u32 [%rd1+4], %r3;
	cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {%r2, %r3}], [%r4];
	ret;
}
)",
    // One that runs: arithmetic, divergence, shared memory, barriers, shuffles, atomics, a call.
    R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter;
.const .align 4 .b8 table[16] = {1, 2, 3, 4};
.func (.param .b32 out) twice(.param .b32 in) {
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [in]; shl.b32 %r2, %r1, 1; st.param.b32 [out], %r2; ret;
}
.visible .entry k(.param .u64 a, .param .u64 b) {
	.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .f32 %f<8>;
	.reg .f64 %d<4>;
	.local .align 8 .b8 stack[16];
	.shared .align 4 .b8 tile[256];
	ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
	mad.lo.s32 %r4, %r2, %r3, %r1;
	mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4]; fma.rn.f32 %f2, %f1, 0f40000000, 0f3F800000;
	rsqrt.approx.f32 %f3, %f2; cvt.f64.f32 %d1, %f3; add.rn.f64 %d2, %d1, %d1; cvt.rn.f32.f64 %f4, %d2;
	st.global.f32 [%rd4], %f4;
	and.b32 %r5, %r1, 31; setp.lt.u32 %p1, %r5, 7; @%p1 bra $L1;
	popc.b32 %r6, %r4; bfe.u32 %r7, %r4, 3, 5; prmt.b32 %r8, %r6, %r7, 0x5410; dp4a.u32.u32 %r8, %r8, %r7, %r6;
	bra.uni $L2;
$L1:	atom.global.add.u32 %r8, [counter], 1; red.global.max.u32 [%rd2+64], %r8;
$L2:	shl.b32 %r9, %r5, 2; mov.u32 %r10, tile; add.s32 %r11, %r10, %r9; st.shared.u32 [%r11], %r8;
	bar.sync 0;
	ld.shared.v2.u32 {%r12, %r13}, [tile+8];
	shfl.sync.bfly.b32 %r14|%p2, %r12, 1, 31, -1; vote.sync.ballot.b32 %r15, %p2, -1;
	match.any.sync.b32 %r16, %r14, -1; selp.b32 %r17, %r15, %r16, %p1;
	st.local.u32 [stack+4], %r17; ld.local.u64 %rd5, [stack];
	div.u64 %rd6, %rd5, 7; rem.s64 %rd7, %rd6, 5; cvt.u32.u64 %r18, %rd7;
	{ .param .b32 p0; st.param.b32 [p0], %r18; .param .b32 r0;
	call.uni (r0), twice, (p0); ld.param.b32 %r19, [r0]; }
	cvt.rn.f16.f32 %h1, %f4; mul.f16 %h2, %h1, %h1; ex2.approx.f32 %f5, %f4;
	st.global.v4.u32 [%rd2+128], {%r19, %r18, %r17, %r16}; ld.const.u8 %h3, [table+2];
	add.s32 %r20, %r20, 1; setp.lt.s32 %p3, %r20, 3; @%p3 bra $L2;
	ret;
}
)",
    ".version 8.0\n.entry k { .reg .pred p; L: @p bra M; N: bra L; M: @p ret; bra N; }",
    ".version 8.0\n.func (.reg .b32 %o) f(.reg .b32 %i) { add.u32 %o, %i, 1; ret; } .alias g, f;",
};

const char* const snippets[] = {"{",
                                "}",
                                "(",
                                ")",
                                "[",
                                "]",
                                "<",
                                ">",
                                ",",
                                ";",
                                ":",
                                "@",
                                "!",
                                "|",
                                "-",
                                "+",
                                "~",
                                "?",
                                "/*",
                                "*/",
                                "//",
                                "\"",
                                "\n",
                                "\\",
                                "%",
                                "%p1",
                                "%r1",
                                "_",
                                "_:",
                                "0x",
                                "0f3F800000",
                                "0d",
                                "1e999",
                                "4000000000",
                                "18446744073709551615",
                                "-9223372036854775808/-1",
                                "1/0",
                                ".reg .b32 %r<1000000>;",
                                ".v4",
                                ".align 16",
                                ".b8 x[99999999999999]",
                                "[2][3]",
                                "= {{1},{2}}",
                                "bra $L1;",
                                "call",
                                "ret;",
                                "bar.sync 0;",
                                ".loc 1 2 3",
                                ".branchtargets",
                                ".callprototype",
                                ".alias",
                                ".extern",
                                ".func f();",
                                ".entry",
                                ".section",
                                ".version 9.9",
                                "$L1:",
                                "%tid.x",
                                "WARP_SZ",
                                "generic(",
                                "%v.x",
                                "\xff"};

std::string mutated(const std::vector<std::string>& corpus, std::mt19937& random) {
    const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
    std::string text = corpus[below(corpus.size())];
    for (size_t edits = 1 + below(6); edits > 0; --edits) {
        const size_t at = below(text.size() + 1), length = below(1 + below(40));
        switch (below(7)) {
            case 0:
                text.erase(at, length);
                break;
            case 1:
                text.insert(at, text.substr(below(text.size() + 1), length));
                break;
            case 2:
                text.insert(at, snippets[below(std::size(snippets))]);
                break;
            case 3:
                text.replace(at, std::min(length, text.size() - at),
                             snippets[below(std::size(snippets))]);
                break;
            case 4:
                if (at < text.size()) text[at] = static_cast<char>(random());
                break;
            case 5:
                text.resize(at);
                break;
            default: {
                const std::string& other = corpus[below(corpus.size())];
                text.insert(at, other.substr(below(other.size() + 1), below(400)));
            }
        }
    }
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    const char* const last = std::getenv("FUZZ_PTX_LAST");
    const long iterations = argc > 1 ? std::atol(argv[1]) : 20000;
    std::mt19937 random(argc > 2 ? static_cast<unsigned>(std::atol(argv[2])) : 1u);
    std::vector<std::string> corpus(std::begin(seeds), std::end(seeds));
    for (int i = 3; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    for (const std::string& text : corpus) check_module(ptx::parse(text));
    for (long i = 0; i < iterations; ++i) {
        const std::string text = mutated(corpus, random);
        if (last != nullptr) std::ofstream(last, std::ios::binary) << text;
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    }
    std::printf("fuzz_ptx: %ld texts\n", iterations);
    return 0;
}
#endif
