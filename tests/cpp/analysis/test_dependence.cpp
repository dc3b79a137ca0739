// Tests the analyses that follow values through the registers of the PTX, with tables of small
// kernels.
//
// A body is the text of a kernel as in sim/fixture.hpp. The code around the body uses the registers
// %r0 to %r7 and %d0 to %d7. So the body uses only %r8 and %d8 and the registers after them.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "analysis/check/check.hpp"
#include "analysis/counts/dependence.hpp"
#include "analysis/fixture.hpp"

namespace coalesce::analysis {
namespace {

// `twice` returns its argument, doubled. It uses a register %r8 of its own.
const std::string declarations = R"(
.shared .align 16 .b32 s[64];
.global .align 4 .u32 counter;
.func (.param .b32 r) twice(.param .b32 a)
{ .reg .b32 %r<9>; ld.param.b32 %r8, [a]; add.u32 %r8, %r8, %r8; st.param.b32 [r], %r8; ret; }
)";
const std::string addresses = "ld.param.u64 %d8, [in]; mov.u32 %r9, s; ";
const std::string count = "atom.global.add.u32 %r8, [counter], 1; ";
const std::string call =
    "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r8; "
    "call (r), twice, (a); ld.param.b32 %r10, [r]; } ";

sim::Program program_of(const std::string& body) {
    const Kernel k(addresses + body, 32, declarations);
    return k.program(k.request(1));
}

TEST(Dependence, InstructionsByWhichBlocksMayCommunicate) {
    struct Case {
        std::string body;
        std::vector<std::string> opcodes;
    };
    const Case cases[] = {
        {count, {}},
        {count + "add.u32 %r10, %r8, 1;", {"atom.global.add.u32"}},
        {count + "@%p1 bra NEXT; st.global.u32 [%d8], %r8; NEXT:", {"atom.global.add.u32"}},
        {count + call, {"atom.global.add.u32"}},
        // The register %r8 of the function `twice` is not the register %r8 of the kernel.
        {count + "mov.u32 %r10, 0; { .param .b32 a; .param .b32 r; st.param.b32 [a], %r10; "
                 "call (r), twice, (a); }",
         {}},
        // A guarded instruction keeps the old value of its result, but does not use it.
        {"@%p1 " + count, {}},
        {count + "@%p1 mov.u32 %r8, 0;", {}},
        {"mov.u32 %r8, 0; atom.global.exch.b32 %r8, [counter], %r8;", {"atom.global.exch.b32"}},
        {"@%p1 atom.global.exch.b32 %r8, [counter], %r8;", {"atom.global.exch.b32"}},
        {"atom.shared.add.u32 %r8, [%r9], 1; add.u32 %r10, %r8, 1;", {}},
        {"red.global.add.u32 [counter], 1;", {}},
        {"ld.global.u32 %r8, [%d8];", {}},
        {"ld.volatile.global.u32 %r8, [%d8];", {"ld.volatile.global.u32"}},
        {"ld.acquire.gpu.u32 %r8, [%d8];", {"ld.acquire.gpu.u32"}},
        {"ld.volatile.shared.u32 %r8, [%r9];", {}},
        {"st.volatile.global.u32 [counter], %r1;", {}},
        {"mapa.shared::cluster.u32 %r8, %r9, 0;", {"mapa.shared::cluster.u32"}},
    };
    for (const Case& c : cases) {
        const sim::Program program = program_of(c.body);
        std::vector<std::string> opcodes;
        for (const uint32_t i : exchanges(program))
            opcodes.push_back(program.instructions[i].opcode);
        EXPECT_EQ(opcodes, c.opcodes) << c.body;
    }
}

TEST(Dependence, SpacesWithAddressesFromAtomics) {
    using enum ptx::Space;
    struct Case {
        std::string body;
        std::set<ptx::Space> spaces;
    };
    const std::string use = "mad.wide.u32 %d9, %r10, 4, %d8; ld.global.u32 %r11, [%d9];";
    const Case cases[] = {
        {count + "mov.u32 %r10, 1; " + use, {}},
        {count + "st.global.u32 [counter], %r8;", {}},
        {count + "mov.u32 %r10, %r8; " + use, {global}},
        {count + "mad.wide.u32 %d9, %r8, 4, %d8; prefetch.global.L2 [%d9];", {}},
        {count + "shl.b32 %r8, %r8, 2; add.u32 %r9, %r9, %r8; st.shared.u32 [%r9], %r1;", {shared}},
        // through shared memory, through a call, and through a guard
        {count + "st.shared.u32 [%r9], %r8; ld.shared.u32 %r10, [%r9]; " + use, {global}},
        {count + "red.shared.add.u32 [%r9], %r8; ld.shared.u32 %r10, [%r9]; " + use, {global}},
        {count + "st.shared.u32 [%r9], %r1; ld.shared.u32 %r10, [%r9]; " + use, {}},
        {count + call + use, {global}},
        {"mov.u32 %r8, 3; " + call + use, {}},
        {count + "setp.eq.u32 %p4, %r8, 0; mov.u32 %r10, 0; @%p4 mov.u32 %r10, 1; " + use,
         {global}},
        // The kernel's own parameters do not depend on the arguments of its calls.
        {count + call +
             "ld.param.u32 %r12, [count]; mad.wide.u32 %d9, %r12, 4, %d8; "
             "ld.global.u32 %r11, [%d9];",
         {}},
        // An atomic that returns no result does not show its order to other threads.
        {"red.global.add.u32 [counter], 1; ld.global.u32 %r10, [counter]; " + use, {}},
    };
    for (const Case& c : cases)
        EXPECT_EQ(spaces_ordered_by_atomics(program_of(c.body)), c.spaces) << c.body;
}

// Returns the index of the instruction whose text begins with `text`.
size_t instruction(const sim::Program& program, const std::string& text) {
    for (size_t i = 0; i < program.instructions.size(); ++i)
        if (program.instructions[i].text.starts_with(text)) return i;
    ADD_FAILURE() << text;
    return 0;
}

TEST(Dependence, BytesThatAreOnlyCopied) {
    struct Case {
        std::string load, after;
        uint16_t copied;
    };
    const Case cases[] = {
        {"ld.global.u32 %r8, [%d8]", "st.global.u32 [%d8], %r8;", 0xf},
        {"ld.global.u32 %r8, [%d8]", "add.u32 %r10, %r8, 1; st.global.u32 [%d8], %r8;", 0},
        {"ld.global.u64 %d9, [%d8]", "st.global.u32 [%d9], %r1;", 0},
        {"ld.global.v2.u32 {%r8, %r10}, [%d8]", "add.u32 %r10, %r10, 1;", 0x0f},
        {"ld.global.v4.u16 {%h4, %h5, %h6, %h7}, [%d8]", "add.u16 %h5, %h5, %h6;", 0xc3},
        {"ld.global.v2.u32 {_, %r10}, [%d8]", "", 0},
        {"@%p1 ld.global.u32 %r8, [%d8]", "st.global.u32 [%d8], %r8;", 0xf},
    };
    for (const Case& c : cases) {
        const sim::Program program = program_of(c.load + "; " + c.after);
        EXPECT_EQ(copied_bytes(program)[instruction(program, c.load)].bytes, c.copied)
            << c.load << c.after;
    }
}

TEST(Dependence, LoadsOfTheAddressOfACompareAndSwap) {
    struct Case {
        std::string before, load, swap;
        bool guesses;
    };
    const std::string swap = "atom.global.cas.b32 %r10, [%d8], %r8, %r1;";
    const std::string moved = "cvta.to.global.u64 %d9, %d8; add.s64 %d10, %d9, 8; ";
    const Case cases[] = {
        {"", "ld.global.u32 %r8, [%d8]", swap, true},
        {"", "ld.global.u32 %r8, [%d8+4]", swap, false},
        {"", "ld.global.u32 %r8, [counter]", "atom.global.cas.b32 %r10, [counter], %r8, %r1;",
         true},
        {"", "ld.global.u32 %r8, [counter]", swap, false},
        {moved, "ld.global.u32 %r8, [%d10]", "atom.global.cas.b32 %r10, [%d9+8], %r8, %r1;", true},
        {moved, "ld.global.u32 %r8, [%d10+-8]", "atom.global.cas.b32 %r10, [%d9], %r8, %r1;", true},
        {moved, "ld.global.u32 %r8, [%d10]", "atom.global.cas.b32 %r10, [%d9], %r8, %r1;", false},
        // %d10 may also have another value.
        {moved + "@%p1 mov.u64 %d10, %d8; ", "ld.global.u32 %r8, [%d10]",
         "atom.global.cas.b32 %r10, [%d9+8], %r8, %r1;", false},
        {"", "ld.global.u32 %r8, [%d8]", "atom.global.add.u32 %r10, [%d8], %r8;", false},
    };
    for (const Case& c : cases) {
        const sim::Program program = program_of(c.before + c.load + "; " + c.swap);
        EXPECT_EQ(loads_before_compare_and_swap(program)[instruction(program, c.load)], c.guesses)
            << c.before << c.load << c.swap;
    }
}

}  // namespace
}  // namespace coalesce::analysis
