// Tests each analysis (counting, recording, checking, replaying and stepping) with tables of small
// kernels.
//
// A body is the text of a kernel as in sim_fixture.hpp: %i is the number of the thread, and %r1 to
// %r3 are its words. `s` is an array of 1024 words in shared memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/fixture.hpp"
#include "analysis/trace/step.hpp"
#include "sim/decode/registers.hpp"

namespace coalesce::analysis {
namespace {

using ptx::Space;
using sim::Access;

const std::string shared_words = ".shared .align 16 .b32 s[1024];\n";

// Returns the index of the instruction in `list` that begins with this text.
size_t instruction(const std::vector<sim::InstructionInfo>& list, const std::string& text) {
    const auto position = std::ranges::find_if(
        list, [&](const sim::InstructionInfo& in) { return in.text.starts_with(text); });
    EXPECT_NE(position, list.end()) << text;
    return size_t(position - list.begin());
}

// The counts of one access of a full warp, computed by hand from the rules of model/coalescing.hpp
// and model/banks.hpp.
TEST(Counts, OneAccess) {
    struct Case {
        std::string address;  // writes the address to %d4 (global) or %r4 (shared)
        std::string access;
        uint64_t sectors, wavefronts, bytes;
    };
    const std::string global = "ld.param.u64 %d4, [in]; mad.wide.u32 %d4, ";
    const std::string shared = "mov.u32 %r4, s; mad.lo.u32 %r4, ";
    const Case cases[] = {
        {global + "%i, 0, %d4;", "ld.global.u32 %r0, [%d4]", 1, 0, 128},
        {global + "%i, 4, %d4;", "ld.global.u32 %r0, [%d4]", 4, 0, 128},
        {global + "%i, 4, %d4;", "ld.global.u32 %r0, [%d4+4]", 5, 0, 128},
        {global + "%i, 8, %d4;", "ld.global.u32 %r0, [%d4]", 8, 0, 128},
        {global + "%i, 16, %d4;", "ld.global.v4.u32 {%r0, %r5, %r6, %r7}, [%d4]", 16, 0, 512},
        {global + "%i, 24, %d4;", "ld.global.u8 %r0, [%d4]", 24, 0, 32},
        {shared + "%i, 0, %r4;", "ld.shared.u32 %r0, [%r4]", 0, 1, 128},
        {shared + "%i, 4, %r4;", "ld.shared.u32 %r0, [%r4]", 0, 1, 128},
        {shared + "%i, 8, %r4;", "ld.shared.u32 %r0, [%r4]", 0, 2, 128},
        {shared + "%i, 128, %r4;", "ld.shared.u32 %r0, [%r4]", 0, 32, 128},
        {shared + "%i, 132, %r4;", "ld.shared.u32 %r0, [%r4]", 0, 1, 128},
        {shared + "%i, 128, %r4;", "st.shared.u32 [%r4], %i", 0, 32, 128},
    };
    for (const Case& c : cases) {
        Kernel k(c.address + " " + c.access + ";", 32, shared_words);
        LaunchRequest request = k.request(1);
        request.counts = true;
        const Result r = k.launch(request);
        const InstructionCounts& n =
            r.counts->instructions[instruction(r.counts->code->instructions, c.access)];
        EXPECT_EQ(n.requests, 1u) << c.address << c.access;
        EXPECT_EQ(n.sectors, c.sectors) << c.address << c.access;
        EXPECT_EQ(n.wavefronts, c.wavefronts) << c.address << c.access;
        EXPECT_EQ(n.bytes, c.bytes) << c.address << c.access;
    }
}

TEST(Traces, HaveTheEventsOfABody) {
    struct Case {
        std::string body;
        Space space;
        Access access;
        uint8_t bytes;
        sim::LaneMask mask;
        // The address of lane 1.
        uint64_t second;
    };
    const std::string at = "mov.u32 %r4, s; mad.lo.u32 %r4, %i, 8, %r4; ";
    const Case cases[] = {
        {at + "ld.shared.u32 %r0, [%r4];", Space::shared, Access::load, 4, ~0u, 8},
        {at + "st.shared.u64 [%r4], %d1;", Space::shared, Access::store, 8, ~0u, 8},
        {at + "red.shared.add.u32 [%r4], 1;", Space::shared, Access::reduction, 4, ~0u, 8},
        {at + "setp.lt.u32 %p4, %i, 2; @%p4 ld.shared.u32 %r0, [%r4];", Space::shared, Access::load,
         4, 3, 8},
    };
    for (const Case& c : cases) {
        Kernel k(c.body, 32, shared_words);
        LaunchRequest request = k.request(1);
        request.record.emplace();
        const Result r = k.launch(request);
        ASSERT_TRUE(r.trace);
        // Three loads precede the access, and a store follows it.
        ASSERT_EQ(r.trace->events.size(), 5u) << c.body;
        const TraceEvent& e = r.trace->events[3];
        EXPECT_EQ(e.step, 3u);
        EXPECT_EQ(e.space, c.space) << c.body;
        EXPECT_EQ(e.access, c.access) << c.body;
        EXPECT_EQ(e.bytes, c.bytes) << c.body;
        EXPECT_EQ(e.mask, c.mask) << c.body;
        EXPECT_EQ(e.addresses[1], c.second) << c.body;
    }
}

TEST(Checks, FindMistakes) {
    struct Case {
        std::string body;
        std::vector<std::string> findings;
    };
    const std::string own = "mov.u32 %r4, s; mad.lo.u32 %r4, %i, 4, %r4; st.shared.u32 [%r4], %i; ";
    const std::string next =
        "xor.b32 %r5, %i, 33; mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6; "
        "ld.shared.u32 %r0, [%r6];";
    const Case cases[] = {
        {own + "bar.sync 0; " + next, {}},
        {own + next, {"race"}},
        {own + "bar.arrive 0, 64; " + next, {"race"}},
        {own + "bar.warp.sync 0xffffffff; ld.shared.u32 %r0, [%r4];", {}},
        {"ld.shared.u32 %r0, [s];", {"uninitialized"}},
        {"ld.shared.u32 %r0, [s+4096];", {"out_of_bounds"}},
        {"ld.global.u32 %r0, [%in+2];", {"misaligned"}},
        {"setp.lt.u32 %p4, %i, 16; @%p4 bar.sync 0;", {"barrier"}},
        {"bar.warp.sync 1;", {"warp_mask"}},
    };
    for (const Case& c : cases) {
        Kernel k(c.body, 64, shared_words);
        LaunchRequest request = k.request(1);
        request.check.emplace();
        const Result r = k.launch(request);
        ASSERT_TRUE(r.checked);
        std::vector<std::string> kinds;
        for (const Finding& f : r.checked->findings) kinds.push_back(name_of(f.kind));
        EXPECT_EQ(kinds, c.findings) << c.body;
    }
}

// A warp's first load of a line misses L1 and fetches the sectors. The next load hits.
TEST(Replay, FindsLinesInL1) {
    struct Case {
        std::string first, second;
        // Lines that the second access does not find in L1.
        uint64_t lines;
    };
    const std::string load = "ld.global.u32 %r4, [%d4";
    const Case cases[] = {
        {load + "];", "ld.global.u32 %r0, [%d4];", 0},
        {load + "];", "ld.global.u32 %r0, [%d4+128];", 1},
        {load + "];", "ld.global.u32 %r0, [%d4+64];", 1},
    };
    for (const Case& c : cases) {
        Kernel k("ld.param.u64 %d4, [out]; mad.wide.u32 %d4, %i, 4, %d4; " + c.first + c.second,
                 32);
        LaunchRequest request = k.request(1);
        request.counts = request.caches = true;
        const Result r = k.launch(request);
        ASSERT_TRUE(r.caches);
        const size_t second =
            instruction(r.counts->code->instructions, c.second.substr(0, c.second.size() - 1));
        const Misses* const misses = r.caches->misses_of(second);
        ASSERT_NE(misses, nullptr) << c.second;
        EXPECT_EQ(misses->lines, c.lines) << c.second;
    }
}

TEST(Steps, ExecuteOneInstruction) {
    struct Case {
        // `body` is executed up to the instruction `stop`, and then one instruction more.
        std::string body, stop;
        std::string reg;
        uint32_t value;  // the register's value in lane 5
    };
    const Case cases[] = {
        {"add.u32 %r0, %i, 7;", "add.u32 %r0", "%r0", 12},
        {"mul.lo.u32 %r4, %i, %i; add.u32 %r0, %r4, 1;", "mul.lo.u32 %r4", "%r4", 25},
        {"mul.lo.u32 %r4, %i, %i; add.u32 %r0, %r4, 1;", "add.u32 %r0", "%r0", 26},
        {"mov.u32 %r4, 3; bar.sync 0; add.u32 %r0, %r4, %i;", "add.u32 %r0", "%r0", 8},
    };
    for (const Case& c : cases) {
        Kernel k(c.body);
        sim::RegisterMap registers;
        const sim::Program program = k.program(registers);
        Stepper stepper(program, registers, k.request(1).launch, k.memory(), 0, 100);
        Until until;
        until.instructions.resize(program.instructions.size());
        const size_t at = instruction(program.instructions, c.stop);
        until.instructions[at] = true;
        ASSERT_EQ(stepper.run(until, 1000), Stepper::Outcome::reached) << c.body;
        EXPECT_EQ(stepper.position(0).pc, at);
        const std::optional<Executed> executed = stepper.step({});
        ASSERT_TRUE(executed) << c.body;
        EXPECT_EQ(executed->pc, at);
        EXPECT_EQ(executed->mask, sim::all_lanes);
        bool seen = false;
        for (const Stepper::Register& r : stepper.registers(0)) {
            if (r.place->name != c.reg) continue;
            seen = true;
            uint32_t value = 0;
            std::memcpy(&value, r.bytes + 5 * sizeof value, sizeof value);
            EXPECT_EQ(value, c.value) << c.body;
        }
        EXPECT_TRUE(seen) << c.reg << " after " << c.body;
        EXPECT_EQ(stepper.run({}, 1000), Stepper::Outcome::ended) << c.body;
    }
}

}  // namespace
}  // namespace coalesce::analysis
