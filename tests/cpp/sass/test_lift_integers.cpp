// Tests of integer instructions in machine code that the kernels of tests/random_ptx.py,
// random_kernels.py and typed_kernels.py seldom have, with extreme and random values.
#include <algorithm>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

u32 of_halves(u32 x, u32 y, const std::function<u32(u32, u32)>& f) {
    return (f(x & 0xffff, y & 0xffff) & 0xffff) | f(x >> 16, y >> 16) << 16;
}

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

// Returns two integers, clamped to `bits` bits. The first one is in the upper bits.
u32 packed(i32 upper, i32 lower, int bits, bool is_signed) {
    const i64 low = is_signed ? -(i64{1} << (bits - 1)) : 0;
    const i64 high = (i64{1} << (is_signed ? bits - 1 : bits)) - 1;
    const auto clamped = [&](i32 x) {
        return u32(std::clamp(i64{x}, low, high)) & ((1u << bits) - 1);
    };
    return clamped(upper) << bits | clamped(lower);
}

std::vector<Row> packing_rows() {
    return {
        {{"I2IP.U8.S32.SAT R0, R2, R4, RZ"},
         As::word,
         [](In i) { return of(packed(i32(i.x()), i32(i.y()), 8, false)); }},
        {{"I2IP.U16.S32.SAT R0, R2, R4, RZ"},
         As::word,
         [](In i) { return of(packed(i32(i.x()), i32(i.y()), 16, false)); }},
    };
}

std::vector<Row> video_rows() {
    static constexpr auto min_max = [](In i, bool low) {
        const i32 x = i32(i.x()), y = i32(i.y());
        return of(u32(low ? std::min(x, y) : std::max(x, y)));
    };
    return {
        {{"VIADD.16x2 R0, R2, -R4"},
         As::word,
         [](In i) { return of(of_halves(i.x(), i.y(), std::minus<u32>{})); }},
        {{"VIMNMX.U32 R0, R2, R4, P3"},
         As::word,
         [](In i) { return of(i.p3() ? std::min(i.x(), i.y()) : std::max(i.x(), i.y())); }},
        {{"VIMNMX.RELU R0, R2, R4, PT"},
         As::word,
         [](In i) { return of(u32(std::max(std::min(i32(i.x()), i32(i.y())), 0))); }},
        {{"VIMNMX3 R0, R2, R4, R6, !PT"},
         As::word,
         [](In i) { return of(u32(std::max({i32(i.x()), i32(i.y()), i32(i.z())}))); }},
        {{"VIADDMNMX.S16x2 R0, R2, R4, R6, !PT"},
         As::word,
         [](In i) {
             const u32 sums = of_halves(i.x(), i.y(), std::plus<u32>{});
             return of(of_halves(sums, i.z(), [](u32 x, u32 y) {
                 return u32(std::max(int16_t(x), int16_t(y))) & 0xffff;
             }));
         }},
        {{"VIADDMNMX.S16x2.RELU R0, R2, R4, R6, PT"},
         As::word,
         [](In i) {
             const u32 sums = of_halves(i.x(), i.y(), std::plus<u32>{});
             return of(of_halves(sums, i.z(), [](u32 x, u32 y) {
                 return u32(std::max<int16_t>(std::min(int16_t(x), int16_t(y)), 0));
             }));
         }},
        {{"VIADDMNMX.U16x2 R0, R2, -R4, R6, PT"},
         As::word,
         [](In i) {
             const u32 sums = of_halves(i.x(), i.y(), std::minus<u32>{});
             return of(
                 of_halves(sums, i.z(), [](u32 x, u32 y) { return std::min(x, y & 0xffff); }));
         }},
        {{"VABSDIFF4.ACC R0, R2, R4, R6"},  // without .U8, the bytes are signed
         As::word,
         [](In i) {
             u32 sum = i.z();
             for (int n = 0; n < 32; n += 8)
                 sum += u32(std::abs(int8_t(i.x() >> n) - int8_t(i.y() >> n)));
             return of(sum);
         }},
        {{"VABSDIFF4.U8.ACC R0, R2, R4, R6"},
         As::word,
         [](In i) {
             u32 sum = i.z();
             for (int n = 0; n < 32; n += 8)
                 sum += u32(std::abs(i32(i.x() >> n & 255) - i32(i.y() >> n & 255)));
             return of(sum);
         }},
        {{"IDP.4A.U8.S8 R0, R2, R4, R6"},
         As::word,
         [](In i) {
             u32 sum = i.z();
             for (int n = 0; n < 32; n += 8)
                 sum += u32(i32(i.x() >> n & 255) * i32(int8_t(i.y() >> n)));
             return of(sum);
         }},
        {{"IDP.2A.LO.S16.U8 R0, R2, R4, R6"},
         As::word,
         [](In i) {
             return of(i.z() + u32(i32(int16_t(i.x())) * i32(i.y() & 255)) +
                       u32(i32(int16_t(i.x() >> 16)) * i32(i.y() >> 8 & 255)));
         }},
    };
}

TEST(SassLift, Integers) { expect(integer_rows()); }
TEST(SassLift, PackedIntegers) { expect(packing_rows()); }
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
