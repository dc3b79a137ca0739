// Tests of floating-point arithmetic and comparisons in machine code that the kernels of
// tests/random_ptx.py, random_kernels.py and typed_kernels.py seldom have.
#include <algorithm>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

float flushed(float f) { return std::fpclassify(f) == FP_SUBNORMAL ? std::copysign(0.0f, f) : f; }

// Returns the smaller of two numbers. -0 is less than 0, and a NaN is ignored.
template <class T>
T least(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
template <class T>
T greatest(T a, T b) {
    return -least(T(-a), T(-b));
}

std::vector<Row> comparison_rows() {
    return {
        {{"ISETP.LT.AND P0, P4, R2, R4, PT"},
         As::predicates,
         [](In i) { return only(i32(i.x()) < i32(i.y()), i32(i.x()) >= i32(i.y())); }},
        {{"ISETP.GE.OR P0, PT, R2, R4, P3"},
         As::predicates,
         [](In i) { return only(i32(i.x()) >= i32(i.y()) || i.p3()); }},
        {{"FSETP.GEU.AND P0, P4, R2, |R4|, PT"},
         As::predicates,
         [](In i) { return only(!(i.f() < std::abs(i.g())), i.f() < std::abs(i.g())); }},
    };
}

// Returns the smaller or larger of two numbers of 16 bits. `infinity` has the bits of infinity in
// their format.
u32 min_max_half(u32 x, u32 y, bool low, bool keeps_nan, u32 infinity) {
    const auto is_nan = [&](u32 bits) { return (bits & 0x7fff) > infinity; };
    if ((is_nan(x) && is_nan(y)) || (keeps_nan && (is_nan(x) || is_nan(y)))) return 0x7fff;
    if (is_nan(x) || is_nan(y)) return is_nan(x) ? y : x;
    // The order of the numbers: -0 comes before 0.
    const auto key = [](u32 bits) {
        return bits & 0x8000 ? -i32(bits & 0x7fff) - 1 : i32(bits & 0x7fff);
    };
    return (key(x) < key(y)) == low ? x : y;
}

std::vector<Row> half_rows() {
    static constexpr auto three = [](bool low, bool keeps_nan, u32 infinity, u32 x, u32 y, u32 z) {
        u32 word = 0;
        for (const int at : {0, 16}) {
            const auto half = [at](u32 value) { return value >> at & 0xffff; };
            const u32 two = min_max_half(half(x), half(y), low, keeps_nan, infinity);
            word |= min_max_half(two, half(z), low, keeps_nan, infinity) << at;
        }
        return of(word);
    };
    constexpr u32 f16 = 0x7c00, bf16 = 0x7f80;
    return {
        {{"VHMNMX R0, R2, R4, R6, !PT"},
         As::word,
         [](In i) { return three(false, false, f16, i.x(), i.y(), i.z()); }},
        {{"VHMNMX.NAN R0, R2, R4, R6, PT"},
         As::word,
         [](In i) { return three(true, true, f16, i.x(), i.y(), i.z()); }},
        {{"VHMNMX.BF16_V2 R0, R2, R4, R6, PT"},
         As::word,
         [](In i) { return three(true, false, bf16, i.x(), i.y(), i.z()); }},
        {{"VHMNMX.BF16_V2.NAN R0, R2, R4, R6, !PT"},
         As::word,
         [](In i) { return three(false, true, bf16, i.x(), i.y(), i.z()); }},
        {{"VHMNMX R0, R2.H1_H1, |R4|, -R6, !PT"},
         As::word,
         [](In i) {
             return three(false, false, f16, (i.x() >> 16) * 0x10001, i.y() & 0x7fff7fff,
                          i.z() ^ 0x80008000);
         }},
    };
}

std::vector<Row> floating_rows() {
    return {
        {{"FADD.FTZ R0, |R2|, R4"},
         As::f32,
         [](In i) { return of(flushed(flushed(std::abs(i.f())) + flushed(i.g()))); }},
        {{"FMUL.D2 R0, R2, 3"}, As::f32, [](In i) { return of(i.f() * 1.5f); }},
        {{"FMNMX R0, R2, R4, P3"},
         As::f32,
         [](In i) { return of(i.p3() ? least(i.f(), i.g()) : greatest(i.f(), i.g())); }},
        {{"FMNMX.FTZ R0, R2, R4, PT"},
         As::f32,
         [](In i) { return of(least(flushed(i.f()), flushed(i.g()))); }},
        {{"FSEL R0, R2, -R4, P3"}, As::f32, [](In i) { return of(i.p3() ? i.f() : -i.g()); }},
        {{"FSET.BF.GT.AND R0, R2, R4, PT"},
         As::f32,
         [](In i) { return of(i.f() > i.g() ? 1.0f : 0.0f); }},
    };
}

TEST(SassLift, Comparisons) { expect(comparison_rows()); }
TEST(SassLift, Floats) { expect(floating_rows()); }

TEST(SassLift, MinimaAndMaximaOfHalves) { expect(half_rows()); }

// The functions of the special function unit are approximations. Here an error of at most 2^-10
// from the exact value is allowed.
TEST(SassLift, Approximations) {
    const struct {
        const char* code;
        double (*exact)(double);
    } table[] = {
        {"MUFU.RCP R0, R2", [](double x) { return 1 / x; }},
        {"MUFU.RSQ R0, R2", [](double x) { return 1 / std::sqrt(x); }},
        {"MUFU.SQRT R0, R2", [](double x) { return std::sqrt(x); }},
        {"MUFU.EX2 R0, R2", [](double x) { return std::exp2(x); }},
        {"MUFU.LG2 R0, R2", [](double x) { return std::log2(x); }},
        {"MUFU.TANH R0, R2", [](double x) { return std::tanh(x); }},
        {"MUFU.SIN R0, R2", [](double x) { return std::sin(2 * 3.141592653589793 * x); }},
        {"MUFU.COS R0, R2", [](double x) { return std::cos(2 * 3.141592653589793 * x); }},
    };
    std::vector<sim::Words> words;
    for (int n = 1; n < 200; ++n) words.push_back({std::bit_cast<u32>(0.11f * float(n)), 0, 0});
    for (const auto& row : table) {
        const std::vector<Results> results = run_machine({row.code}, words);
        for (size_t n = 0; n < words.size(); ++n) {
            const double exact = row.exact(std::bit_cast<float>(u32(words[n].a)));
            const double value = std::bit_cast<float>(u32(results[n].value));
            EXPECT_NEAR(value, exact, std::max(1.0, std::abs(exact)) * 0x1p-10) << row.code;
        }
    }
}

// The fast path of a division cannot handle some of these operands; FCHK must find them. The
// division 0 / 1 is one of these cases. This is known from the recorded counters of kernels that
// divide 0 (in tests/data).
TEST(SassLift, SlowDivisions) {
    const struct {
        float a, b;
        bool slow;
    } table[] = {{1, 3, false},         {-5, 1e10f, false}, {1, 0, true},        {0, 1, true},
                 {1e-40f, 1, true},     {1, 1e-40f, true},  {INFINITY, 1, true}, {1, NAN, true},
                 {1e38f, 1e-30f, true}, {1e-38f, 1, true}};
    for (const auto& row : table) {
        const sim::Words words{std::bit_cast<u32>(row.a), std::bit_cast<u32>(row.b), 0};
        EXPECT_EQ(run_machine({"FCHK P0, R2, R4"}, {words}).front().p, row.slow)
            << row.a << " / " << row.b;
    }
}

}  // namespace
}  // namespace coalesce::sass
