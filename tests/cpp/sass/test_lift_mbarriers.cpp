// Tests of mbarriers in machine code, and of the jump through a uniform register. The compiler
// writes the other forms for the kernels of tests/python/instructions/test_mbarriers.py. The
// mbarrier is at the start of shared memory.
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

struct Phase {
    uint32_t arrivals;
    std::vector<std::string> code;
    bool complete;  // at the end
};

TEST(SassLift, Mbarriers) {
    const std::string arrive = "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ";
    const std::vector<Phase> rows{
        {threads, {}, false},
        {threads, {arrive}, true},
        // R20 is the thread's index.
        {2,
         {"ISETP.NE.AND P5, PT, R20, RZ, PT", "@!P5 SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR4], R8"},
         true},
        {2 * threads, {"SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR4], R8"}, true},
        {threads,
         {"SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR4], R8", arrive,
          "SYNCS.ARRIVE.TRANS64.RED.A0TX RZ, [UR4], R8"},
         true},
    };
    for (const sim::Isa isa : sim::instruction_sets()) {
        for (const Phase& row : rows) {
            std::vector<std::string> code = initialised(row.arrivals);
            code.insert(code.end(), row.code.begin(), row.code.end());
            // The highest bit of the mbarrier is the parity of its current phase, first 0.
            for (const char* end : {"BAR.SYNC.DEFER_BLOCKING 0x0", "MOV R12, 0x80000000",
                                    "SYNCS.PHASECHK.TRANS64 P0, [UR4], RZ",
                                    "SYNCS.PHASECHK.TRANS64.TRYWAIT P4, [UR4+0x0], R12"})
                code.emplace_back(end);
            const std::string shown = row.code.empty() ? "nobody arrives" : row.code.back();
            for (const Results& r : run_machine(code, std::vector<sim::Words>(threads), isa)) {
                // One of the two parities is that of the phase before the current one.
                ASSERT_EQ(r.p, row.complete) << shown;
                ASSERT_EQ(r.q, !row.complete) << shown;
            }
        }
    }
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
