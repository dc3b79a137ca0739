// Tests of mbarriers in machine code, of the jump through a uniform register, and of instructions
// that have no effect on the simulator. The mbarrier is at the start of shared memory.
#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

constexpr uint32_t threads = 100;

// Initialises an mbarrier for a number of arrivals, as the assembler does for mbarrier.init.
std::vector<std::string> initialised(uint32_t arrivals) {
    const uint32_t rest = (1u << 20) - arrivals;
    return {"UMOV UR4, 0x400",
            "UMOV UR6, " + std::to_string(rest << 1),
            "UMOV UR7, " + std::to_string(rest << 11),
            "SYNCS.EXCH.64 URZ, [UR4], UR6",
            "MOV R8, 0x2",
            "BAR.SYNC.DEFER_BLOCKING 0x0"};
}

struct Phases {
    uint32_t arrivals;
    std::vector<std::string> code;
    // Whether the first and the second phase are complete at the end.
    bool first, second;
};

TEST(SassLift, Mbarriers) {
    const std::string arrive = "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ";
    const std::string barrier = "BAR.SYNC.DEFER_BLOCKING 0x0";
    const std::string leader = "ISETP.NE.AND P5, PT, R20, RZ, PT";  // R20 is the thread's index
    const auto by_leader = [&](std::string code) {
        return std::vector<std::string>{leader, "@!P5 " + std::move(code)};
    };
    const auto together = [](std::vector<std::string> a, const std::vector<std::string>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    };
    const std::vector<Phases> rows{
        {threads, {}, false, false},
        {threads, {arrive}, true, false},
        {threads, {arrive, barrier, arrive}, true, true},
        {threads + 1, {arrive}, false, false},
        {2, by_leader("SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR4], R8"), true, false},
        {2 * threads, {"SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR4], R8"}, true, false},
        // Two bytes for each thread.
        {threads, {"SYNCS.ARRIVE.TRANS64 RZ, [UR4], R8"}, false, false},
        {threads,
         {"SYNCS.ARRIVE.TRANS64 RZ, [UR4], R8", "SYNCS.ARRIVE.TRANS64.RED.A0TX RZ, [UR4], R8"},
         true,
         false},
        {threads,
         {"SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR4], R8", arrive,
          "SYNCS.ARRIVE.TRANS64.RED.A0TX RZ, [UR4], R8"},
         true,
         false},
        {threads, {"SYNCS.ARRIVE.TRANS64.RED.A0T1 RZ, [UR4], RZ", arrive}, false, false},
        {threads,
         {"SYNCS.ARRIVE.TRANS64.RED.A0T1 RZ, [UR4], RZ", "ARRIVES.LDGSTSBAR.64.TRANSCNT [UR4]",
          arrive},
         true,
         false},
        {threads, {"ARRIVES.LDGSTSBAR.64.ARVCNT [UR4]"}, true, false},
        // After all but one thread have left, one arrival completes a phase.
        {threads,
         {leader, "@P5 SYNCS.ARRIVE.TRANS64.OPTOUT.A1T0 RZ, [UR4], RZ", "@!P5 " + arrive, barrier,
          "@!P5 " + arrive},
         true,
         true},
        // The state of an arrival is that of the phase in which the thread arrived.
        {threads,
         together({"SYNCS.ARRIVE.TRANS64.A1T0 R10, [UR4], RZ", barrier,
                   "SYNCS.PHASECHK.TRANS64.TRYWAIT P6, [UR4], R11"},
                  {"@!P6 BPT.TRAP 0x1"}),
         true, false},
    };
    for (const sim::Isa isa : sim::instruction_sets()) {
        for (const Phases& row : rows) {
            std::vector<std::string> code = initialised(row.arrivals);
            code.insert(code.end(), row.code.begin(), row.code.end());
            // The highest bit of the mbarrier is the parity of its current phase. The first phase
            // has the parity 0, and the second the parity 1. So after two complete phases, the
            // parity is 0 again.
            for (const char* end : {"BAR.SYNC.DEFER_BLOCKING 0x0", "MOV R12, 0x80000000",
                                    "SYNCS.PHASECHK.TRANS64 P0, [UR4], RZ",
                                    "SYNCS.PHASECHK.TRANS64.TRYWAIT P4, [UR4+0x0], R12"})
                code.emplace_back(end);
            const std::string shown = row.code.empty() ? "nobody arrives" : row.code.back();
            for (const Results& r : run_machine(code, std::vector<sim::Words>(threads), isa)) {
                // One of the two parities is that of the phase before the current one.
                const bool odd = row.first && !row.second;
                ASSERT_EQ(r.p, odd) << shown;
                ASSERT_EQ(r.q, !odd) << shown;
            }
        }
    }
    for (const char* code :
         {"SYNCS.EXCH.64 URZ, [UR4], UR6", "SYNCS.ARRIVE.TRANS64.A1T0 R0, [UR4], RZ",
          "SYNCS.PHASECHK.TRANS64 P0, [UR4], RZ", "SYNCS.CCTL.IV [UR4]",
          "ARRIVES.LDGSTSBAR.64.TRANSCNT [UR4]", "PREEXIT", "ACQBULK", "FENCE.VIEW.ASYNC.S",
          "DEPBAR.LE SB5, 0x1"})
        expect_every_word_counts({code});
}

TEST(SassLift, MistakesWithMbarriers) {
    const auto fails = [](std::vector<std::string> code, const std::string& message) {
        try {
            (void)run_machine(code, {sim::Words{}});
            ADD_FAILURE() << code.back();
        } catch (const LaunchError& e) {
            EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
        }
    };
    const std::string arrive = "SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR4], R8";
    fails({"UMOV UR4, 0x400", arrive}, "was not initialised");
    fails({"UMOV UR4, 0x400", "UMOV UR6, 0x1", "UMOV UR7, 0x0", "SYNCS.EXCH.64 URZ, [UR4], UR6"},
          "not the state of an mbarrier");
    std::vector<std::string> code = initialised(0);
    fails(code, "can expect 1 to 1,048,575 arrivals; got 0");
    code = initialised(1);
    code.push_back(arrive);
    fails(code, "more threads arrive");
    code.back() = "SYNCS.CCTL.IV [UR4]";
    code.push_back(arrive);
    fails(code, "was not initialised");
}

TEST(SassLift, InstructionsWithoutEffect) {
    for (const char* code :
         {"PREEXIT", "ACQBULK", "FENCE.VIEW.ASYNC.S", "DEPBAR.LE SB5, 0x1", "DEPBAR.LE SB0, 0x0"}) {
        const auto results = run_machine({"MOV R0, R2", code}, {sim::Words{7, 0, 0}});
        EXPECT_EQ(results.at(0).value, 7u) << code;
    }
}

TEST(SassLift, JumpsThroughUniformRegisters) {
    // The 14 instructions of the fixture come first. BRXU is instruction 15; the jump is relative
    // to instruction 16, and skips the move there.
    const auto results = run_machine({"UMOV UR4, 0x110", "BRXU UR4 -0x100", "MOV R0, 0x1", "NOP"},
                                     {sim::Words{7, 0, 0}});
    EXPECT_EQ(results.at(0).value, 0u);
    const auto other = run_machine({"UMOV UR4, 0x100", "BRXU UR4 -0x100", "MOV R0, 0x1", "NOP"},
                                   {sim::Words{7, 0, 0}});
    EXPECT_EQ(other.at(0).value, 1u);
}

}  // namespace
}  // namespace coalesce::sass
