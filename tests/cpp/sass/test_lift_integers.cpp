// Tests of integer instructions in machine code that the kernels of tests/random_ptx.py and
// typed_kernels.py seldom have, with extreme and random values.
#include <algorithm>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

std::vector<Row> integer_rows() {
    return {
        {{"IADD3 R0, -R2, -R4, R6"}, As::word, [](In i) { return of(i.z() - i.x() - i.y()); }},
        {{"BMSK.W R0, R2, R4"},
         As::word,
         [](In i) { return of(u32(((u64{1} << (i.y() & 31)) - 1) << (i.x() & 31))); }},
        {{"LEA R0, P0, -R2, R4, 0x3"},
         As::word,
         [](In i) { return of(i.y() - (i.x() << 3), i.y() >= i.x() << 3); }},
        {{"LEA R0, P5, -R2, R4, 0x1f", "IADD3.X R1, ~RZ, R5, RZ, P5, !PT"},
         As::pair,
         [](In i) { return of(i.b - u64{u32(i.a) << 31}); }},
        {{"LEA R0, P0, R2, -R4, 0x3"},
         As::word,
         [](In i) { return of((i.x() << 3) - i.y(), i.x() << 3 >= i.y()); }},
        {{"LEA R0, P5, R2, -R4, 0x3", "IADD3.X R1, RZ, ~R5, RZ, P5, !PT"},
         As::pair,
         [](In i) { return of(u64{i.x() << 3} - i.b); }},
        {{"LEA.HI R0, R2, R4, R6, 0x3"},
         As::word,
         [](In i) { return of(u32((u64{i.z()} << 32 | i.x()) << 3 >> 32) + i.y()); }},
        {{"LOP3.LUT P0, R0, R2, R4, RZ, 0xc0, !PT"},
         As::word,
         [](In i) { return of(i.x() & i.y(), (i.x() & i.y()) != 0); }},
        {{"PLOP3.LUT P0, P4, P1, P2, P3, 0x96, 0xe8"},
         As::predicates,
         [](In i) { return only(i.p1() ^ i.p2() ^ i.p3(), i.p1() + i.p2() + i.p3() > 1); }},
        {{"UMOV UR6, 0x5", "UISETP.NE.AND UP0, UPT, UR6, URZ, UPT",
          "UISETP.NE.AND UP1, UPT, URZ, URZ, UPT", "UISETP.NE.AND UP2, UPT, UR6, URZ, UPT",
          "UP2UR UR8, UPR, URZ, 0x6", "MOV R0, UR8"},
         As::word,
         [](In) { return of(u32{4}); }},
    };
}

std::vector<Row> video_rows() {
    static constexpr auto min_max = [](In i, bool low) {
        const i32 x = i32(i.x()), y = i32(i.y());
        return of(u32(low ? std::min(x, y) : std::max(x, y)));
    };
    return {
        {{"VIMNMX.U32 R0, R2, R4, P3"},
         As::word,
         [](In i) { return of(i.p3() ? std::min(i.x(), i.y()) : std::max(i.x(), i.y())); }},
        {{"VIMNMX3 R0, R2, R4, R6, !PT"},
         As::word,
         [](In i) { return of(u32(std::max({i32(i.x()), i32(i.y()), i32(i.z())}))); }},
        {{"VABSDIFF4.ACC R0, R2, R4, R6"},  // without .U8, the bytes are signed
         As::word,
         [](In i) {
             u32 sum = i.z();
             for (int n = 0; n < 32; n += 8)
                 sum += u32(std::abs(int8_t(i.x() >> n) - int8_t(i.y() >> n)));
             return of(sum);
         }},
    };
}

TEST(SassLift, Integers) { expect(integer_rows()); }
TEST(SassLift, MinimaSumsAndDifferences) { expect(video_rows()); }

// Lanes exit in which both the guard and the operand of EXIT are true. They store no result.
TEST(SassLift, ExitWithACondition) {
    struct Case {
        std::string exit;
        std::function<bool(bool p1, bool p2)> exits;
    };
    const std::vector<Case> cases{
        {"EXIT P2", [](bool, bool p2) { return p2; }},
        {"@P1 EXIT P2", [](bool p1, bool p2) { return p1 && p2; }},
        {"@!P1 EXIT P2", [](bool p1, bool p2) { return !p1 && p2; }},
        {"@P1 EXIT !P2", [](bool p1, bool p2) { return p1 && !p2; }},
        {"@P1 EXIT PT", [](bool p1, bool) { return p1; }},
        {"@P1 EXIT !PT", [](bool, bool) { return false; }},
        {"EXIT !PT", [](bool, bool) { return false; }},
    };
    std::vector<sim::Words> words(32);
    for (u32 i = 0; i < 32; ++i) words[i] = {i & 1, i >> 1 & 1, 0};
    for (const Case& c : cases) {
        const auto results = run_machine({"MOV R0, 0x7", c.exit}, words);
        for (u32 i = 0; i < 32; ++i)
            EXPECT_EQ(results[i].value, c.exits(i & 1, i >> 1 & 1) ? 0u : 7u)
                << c.exit << ", lane " << i;
    }
}

// ELECT elects the lowest lane in which the guard is true. Lanes in which the guard is false keep
// their predicate. If the guard is false in all lanes, the uniform register keeps its value, too.
TEST(SassLift, Elect) {
    struct Case {
        std::vector<std::string> code;
        u32 p1;                            // the lanes in which P1 is true
        std::function<bool(u32)> elected;  // P0 by lane
        u32 number;                        // R0
    };
    const auto lane = [](u32 n) { return [n](u32 i) { return i == n; }; };
    const auto nobody = [](u32) { return false; };
    const std::vector<Case> cases{
        {{"ELECT P0, UR6, PT", "MOV R0, UR6"}, 0, lane(0), 0},
        {{"ELECT P0, URZ, PT"}, 0, lane(0), 0},
        {{"@P1 ELECT P0, UR6, PT", "MOV R0, UR6"}, 0xfff0, lane(4), 4},
        {{"@!P1 ELECT P0, UR6, PT", "MOV R0, UR6"}, 0xfff, lane(12), 12},
        {{"@P1 ELECT P0, URZ, PT"}, 0x80000000, lane(31), 0},
        {{"@P1 ELECT P0, URZ, PT"}, 0, nobody, 0},
        {{"UMOV UR6, 0x63", "@P1 ELECT P0, UR6, PT", "MOV R0, UR6"}, 0, nobody, 99},
        // Lanes in which the guard is false keep their P0.
        {{"PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0", "@P1 ELECT P0, URZ, PT"},
         0xff00,
         [](u32 i) { return i < 8 || i == 8 || i > 15; },
         0},
        // The guard is the predicate that ELECT writes.
        {{"PLOP3.LUT P0, PT, P1, PT, PT, 0x80, 0x0", "@P0 ELECT P0, UR6, PT", "MOV R0, UR6"},
         0xfc0,
         lane(6),
         6},
        {{"ELECT PT, UR6, PT", "MOV R0, UR6"}, 0, nobody, 0},
    };
    for (const Case& c : cases) {
        std::vector<sim::Words> words(32);
        for (u32 i = 0; i < 32; ++i) words[i] = {c.p1 >> i & 1, 0, 0};
        const std::vector<Results> results = run_machine(c.code, words);
        for (u32 i = 0; i < 32; ++i) {
            EXPECT_EQ(results[i].p, c.elected(i)) << c.code.back() << ", lane " << i;
            EXPECT_EQ(results[i].value, c.number) << c.code.back() << ", lane " << i;
        }
    }
}

}  // namespace
}  // namespace coalesce::sass
