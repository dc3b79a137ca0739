// Runs short PTX texts on the simulator, with the handlers for any instruction set of the host
// (such as AVX2).
//
// The text becomes the body of a kernel. Each thread gets three 64-bit words in %d1, %d2 and %d3.
// Other registers hold parts of the same words. %r1 to %r3 and %f1 to %f3 have the low 32 bits, %h1
// to %h3 the low 16 bits, and %p1 to %p3 the lowest bits. %g1 to %g3 have the same 64 bits, as
// doubles. The text writes its result to %d0, %r0, %h0, %f0, %g0 or %p0. At the end, these
// registers are combined by exclusive or; the registers that the text does not write are 0.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "errors.hpp"
#include "ptx/module.hpp"
#include "sim/run/worker.hpp"

namespace coalesce::sim {

struct Words {
    uint64_t a = 0, b = 0, c = 0;
};

inline std::string kernel_text(const std::string& body, const std::string& before = "") {
    return ".version 8.5\n.target sm_90\n.address_size 64\n" + before + R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 count)
{
 .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<16>;
 .reg .f32 %f<8>; .reg .f64 %g<8>; .reg .b64 %in, %out; .reg .b32 %n, %i; .reg .pred %outside;
 ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [count];
 mov.u32 %i, %tid.x;
 setp.ge.u32 %outside, %i, %n;
 @%outside bra DONE;
 mad.wide.u32 %in, %i, 24, %in; mad.wide.u32 %out, %i, 8, %out;
 ld.global.u64 %d1, [%in]; ld.global.u64 %d2, [%in+8]; ld.global.u64 %d3, [%in+16];
 cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;
 cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2; cvt.u16.u64 %h3, %d3;
 mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
 mov.b64 %g1, %d1; mov.b64 %g2, %d2; mov.b64 %g3, %d3;
 { .reg .b32 %t;
   and.b32 %t, %r1, 1; setp.ne.u32 %p1, %t, 0; and.b32 %t, %r2, 1; setp.ne.u32 %p2, %t, 0;
   and.b32 %t, %r3, 1; setp.ne.u32 %p3, %t, 0; }
 mov.b64 %d0, 0; mov.b32 %r0, 0; mov.b16 %h0, 0; mov.f32 %f0, 0f00000000;
 mov.f64 %g0, 0d0000000000000000; setp.ne.u32 %p0, %r0, 0;
)" + body + R"(
 { .reg .b64 %t; .reg .b32 %s;
   cvt.u64.u32 %t, %r0; xor.b64 %d0, %d0, %t; mov.b32 %s, %f0; cvt.u64.u32 %t, %s;
   xor.b64 %d0, %d0, %t; cvt.u64.u16 %t, %h0; xor.b64 %d0, %d0, %t; mov.b64 %t, %g0;
   xor.b64 %d0, %d0, %t; selp.u64 %t, 1, 0, %p0; xor.b64 %d0, %d0, %t; }
 st.global.u64 [%out], %d0;
DONE:
 ret;
}
)";
}

// Returns the instruction sets that this machine can execute.
inline std::vector<Isa> instruction_sets() {
    std::vector<Isa> sets;
    for (int isa = 0; isa <= int(best_isa()); ++isa) sets.push_back(Isa(isa));
    return sets;
}

// Runs a module's kernel k(in, out, count) with one thread for each of `inputs`.
inline std::vector<uint64_t> run_module(const ptx::Module& module, std::vector<Words> inputs,
                                        Isa isa = best_isa()) {
    const Engine& engine = sim::engine(Watch::nothing, isa);
    const auto memory = lay_out_memory(module);
    const Program program = decode(module, *module.find_function("k"), memory, engine);
    std::vector<uint64_t> out(inputs.size());

    AddressSpace space;
    program.memory->map_into(space);
    Buffer in;
    in.name = "in";
    in.bytes = inputs.size() * sizeof(Words);
    in.host = reinterpret_cast<std::byte*>(inputs.data());
    in.writable = false;
    Buffer result;
    result.name = "out";
    result.bytes = out.size() * sizeof(uint64_t);
    result.host = reinterpret_cast<std::byte*>(out.data());
    const uint64_t addresses[] = {space.add(in), space.add(result), inputs.size()};
    GridRun launch;
    launch.block = {uint32_t(inputs.size()), 1, 1};
    launch.workers = 1;
    launch.parameters.resize(program.parameter_bytes);
    std::memcpy(launch.parameters.data(), addresses, launch.parameters.size());
    NoObserver nobody;
    const std::vector<NoObserver*> observers(worker_count(launch), &nobody);
    run_grid<NoObserver>(program, launch, space, observers);
    return out;
}

inline std::vector<uint64_t> run_module(const std::string& text, const std::vector<Words>& inputs,
                                        Isa isa = best_isa()) {
    return run_module(ptx::parse(text), inputs, isa);
}

inline std::vector<uint64_t> run_body(const std::string& body, const std::vector<Words>& inputs,
                                      Isa isa = best_isa()) {
    return run_module(kernel_text(body), inputs, isa);
}

// Returns the result of one thread on the best instruction set, for tests that need one value.
inline uint64_t value_of(const std::string& body, Words words = {}) {
    return run_body(body, {words}).front();
}

}  // namespace coalesce::sim
