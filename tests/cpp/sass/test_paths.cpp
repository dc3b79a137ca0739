// Tests when other lanes of a warp run instead of the running ones (sim/run/warp_runner.hpp). All
// lanes of a warp share the uniform registers. In these tests, the lanes take two branches, which
// use the same uniform register and need more than one slice.
#include <string>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

// Runs one code in the lanes with an even number, and another code in the lanes with an odd number.
// Expects that R0 is `even` in the former and `odd` in the latter.
void run_branches(const std::vector<std::string>& even_code, uint64_t even,
                  const std::vector<std::string>& odd_code, uint64_t odd) {
    std::vector<sim::Words> inputs(sim::warp_size);
    for (uint32_t i = 0; i < sim::warp_size; ++i)
        inputs[i].a = i;  // P1 is true in lanes with an odd number
    std::vector<std::string> code{"BSSY B0, `(.L_x_0)", "@P1 BRA `(.L_x_1)"};
    code.insert(code.end(), even_code.begin(), even_code.end());
    code.insert(code.end(), {"BRA `(.L_x_2)", ".L_x_1:"});
    code.insert(code.end(), odd_code.begin(), odd_code.end());
    code.insert(code.end(), {".L_x_2:", "BSYNC B0", ".L_x_0:"});
    const std::vector<Results> results = run_machine(code, inputs);
    for (uint32_t i = 0; i < sim::warp_size; ++i)
        EXPECT_EQ(results[i].value, i % 2 ? odd : even) << i;
}

// Without YIELD, a loop may count its iterations in a uniform register.
TEST(Paths, LoopsWithoutYieldAreNotInterrupted) {
    const auto loop = [](const std::string& label, const std::string& iterations) {
        return std::vector<std::string>{
            "UMOV UR6, URZ",
            "IMAD.MOV.U32 R10, RZ, RZ, " + iterations,
            label + ":",
            "UIADD3 UR6, UR6, 0x1, URZ",
            "IADD3 R0, R0, 0x1, RZ",
            "ISETP.LE.AND P0, PT, R10, UR6, PT",
            "@!P0 BRA `(" + label + ")",
        };
    };
    run_branches(loop(".L_x_3", "0x9000"), 0x9000, loop(".L_x_4", "0x7000"), 0x7000);
}

// With YIELD, a loop may be interrupted at YIELD, but not between the instruction that writes a
// uniform register and the instruction that reads it. A BSSY may be between these instructions.
TEST(Paths, LoopsWithYieldAreInterruptedAtYield) {
    const auto loop = [](size_t before, const std::string& label, const std::string& after,
                         const std::string& summand) {
        std::vector<std::string> code(before, "NOP");
        const std::vector<std::string> rest{
            "IMAD.MOV.U32 R10, RZ, RZ, 0x8000",
            label + ":",
            "YIELD",
            "UMOV UR6, " + summand,
            "BSSY B1, `(" + after + ")",
            "IADD3 R0, R0, UR6, RZ",
            "BSYNC B1",
            after + ":",
            "IADD3 R10, R10, -0x1, RZ",
            "ISETP.NE.AND P0, PT, R10, RZ, PT",
            "@P0 BRA `(" + label + ")",
        };
        code.insert(code.end(), rest.begin(), rest.end());
        return code;
    };
    // The number of instructions before the loop determines where in the loop a slice ends.
    for (size_t before = 0; before < 12; ++before) {
        run_branches(loop(before, ".L_x_3", ".L_x_4", "0x1"), 0x8000,
                     loop(before, ".L_x_5", ".L_x_6", "0x2"), 0x10000);
    }
}

}  // namespace
}  // namespace coalesce::sass
