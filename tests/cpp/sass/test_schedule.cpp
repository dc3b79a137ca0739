// Tests how the assembler's schedule of an instruction is read from the listing and decoded.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "sass/listing.hpp"
#include "sass/schedule.hpp"

namespace coalesce::sass {
namespace {

using sim::Schedule;

Listing read_code(const std::string& code) {
    return read("//--------------------- .text.f --\n.text.f:\n" + code);
}

// Returns the schedule of a single instruction, which is printed as by nvdisasm.
Schedule scheduled(const std::string& instruction, uint64_t encoding) {
    char upper[64];
    std::snprintf(upper, sizeof upper, "/* 0x%016llx */\n", (unsigned long long)encoding);
    const Listing listing =
        read_code("/*0000*/ " + instruction + " ; /* 0x0123456789abcdef */\n" + upper);
    return schedule_of(listing.codes.at("f").instructions.at(0));
}

// The fields of a schedule. encoding() returns the upper half of an instruction's encoding, with
// the fields at the bits that schedule.hpp specifies.
struct Fields {
    uint64_t cycles = 1, may_switch = 0, result = 7, operands = 7, awaits = 0;
    uint64_t around = 0;  // the remaining bits
    [[nodiscard]] uint64_t encoding() const {
        constexpr uint64_t rest = ~(uint64_t{0x1ffff} << 41);
        return (around & rest) | cycles << (105 - 64) | may_switch << (109 - 64) |
               result << (110 - 64) | operands << (113 - 64) | awaits << (116 - 64);
    }
};

// The code of a vector addition, as printed by nvdisasm.
constexpr const char* printed = R"(
        /*0000*/                   LDG.E R6, desc[UR4][R4.64] ;                /* 0x0000000404067981 */
                                                                               /* 0x000ea8000c1e1900 */
	//## File ".nv_debug_ptx_txt", line 31
        /*0010*/                   IADD3 R7, R3, R6, RZ ;                      /* 0x0000000603077210 */
                                                                               /* 0x004fc80007ffe0ff */
)";

TEST(SassEncoding, TheUpperHalfIsOnTheNextLine) {
    const Listing listing = read_code(printed);
    const auto& code = listing.codes.at("f").instructions;
    ASSERT_EQ(code.size(), 2u);
    EXPECT_EQ(code[0].encoding, 0x000ea8000c1e1900u);
    EXPECT_EQ(code[1].encoding, 0x004fc80007ffe0ffu);
    EXPECT_EQ(code[0].text, "LDG.E R6, desc[UR4][R4.64]");
    EXPECT_EQ(code[1].text, "IADD3 R7, R3, R6, RZ");
    EXPECT_EQ(code[1].ptx_line, 31u);
}

TEST(SassEncoding, MayBeMissing) {
    const Listing without = read_code("/*0000*/ NOP ;\n/*0010*/ EXIT ;\n");
    for (const Instruction& in : without.codes.at("f").instructions) EXPECT_EQ(in.encoding, 0u);
    // An incomplete encoding is ignored. An encoding before the first instruction is ignored, too.
    const Listing half = read_code(
        "/* 0x00000000000000aa */\n/*0000*/ NOP ; /* 0x0000000000007918 */\n/* 0x12 */\n");
    EXPECT_EQ(half.codes.at("f").instructions.at(0).encoding, 0u);
}

TEST(SassSchedule, ALoadAndItsUse) {
    const Listing listing = read_code(printed);
    const Schedule load = schedule_of(listing.codes.at("f").instructions.at(0));
    EXPECT_EQ(load.cycles, 4);
    EXPECT_EQ(load.result, 2);
    EXPECT_EQ(load.operands, Schedule::no_scoreboard);
    EXPECT_EQ(load.awaits, 0);
    const Schedule user = schedule_of(listing.codes.at("f").instructions.at(1));
    EXPECT_EQ(user.cycles, 4);
    EXPECT_EQ(user.result, Schedule::no_scoreboard);
    EXPECT_EQ(user.operands, Schedule::no_scoreboard);
    EXPECT_EQ(user.awaits, 1 << 2);
    EXPECT_FALSE(user.ends);
    EXPECT_EQ(user.target, Schedule::no_branch);
}

TEST(SassSchedule, ReadsEachFieldFromItsBits) {
    // The other bits of the encoding do not matter.
    for (const uint64_t around : {uint64_t{0}, ~uint64_t{0}})
        for (uint64_t may_switch = 0; may_switch < 2; ++may_switch)
            for (uint64_t n = 0; n < 64; ++n) {
                const Fields f{n % 16, may_switch, n % 8, (n / 8) % 8, n, around};
                const Schedule s = scheduled("NOP", f.encoding());
                EXPECT_EQ(s.cycles, f.cycles);
                EXPECT_EQ(s.result, f.result);
                EXPECT_EQ(s.operands, f.operands);
                EXPECT_EQ(s.awaits, f.awaits);
            }
}

TEST(SassSchedule, BranchesHaveTheirTarget) {
    const Listing listing = read_code(
        "/*0000*/ @P0 BRA `(.L_x_1) ;\n.L_x_0:\n/*0010*/ NOP ;\n/*0020*/ BRA `(.L_x_0) ;\n"
        ".L_x_1:\n/*0030*/ CALL.REL.NOINC `(.L_x_0) ;\n/*0040*/ BRA `(elsewhere) ;\n");
    const auto& code = listing.codes.at("f").instructions;
    EXPECT_EQ(schedule_of(code.at(0)).target, 3u);
    EXPECT_EQ(schedule_of(code.at(1)).target, Schedule::no_branch);
    EXPECT_EQ(schedule_of(code.at(2)).target, 1u);
    EXPECT_EQ(schedule_of(code.at(3)).target, Schedule::no_branch);  // a call returns
    EXPECT_EQ(schedule_of(code.at(4)).target, Schedule::no_branch);
}

TEST(SassSchedule, NothingFollowsAnUnconditionalExit) {
    const struct {
        const char* text;
        bool ends;
    } table[] = {
        {"EXIT", true},
        {"@P0 EXIT", false},
        {"BRA `(.text.f)", true},
        {"@!P1 BRA `(.text.f)", false},
        {"BRA.U UP0, `(.text.f)", false},
        {"BRA.DIV UR4, `(.text.f)", false},
        {"RET.REL.NODEC R14 `(.text.f)", true},
        {"@P0 RET.REL.NODEC R14 `(.text.f)", false},
        {"CALL.REL.NOINC `(.text.f)", false},
        {"BAR.SYNC.DEFER_BLOCKING 0x0", false},
    };
    for (const auto& row : table)
        EXPECT_EQ(scheduled(row.text, Fields{}.encoding()).ends, row.ends) << row.text;
}

}  // namespace
}  // namespace coalesce::sass
