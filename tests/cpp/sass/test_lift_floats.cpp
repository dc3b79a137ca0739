// Tests of floating-point arithmetic and comparisons in machine code that the kernels of
// tests/random_ptx.py and typed_kernels.py seldom have.
#include <algorithm>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

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

std::vector<Row> floating_rows() {
    return {
        {{"FMUL.D2 R0, R2, 3"}, As::f32, [](In i) { return of(i.f() * 1.5f); }},
        {{"FMNMX R0, R2, R4, P3"},
         As::f32,
         [](In i) { return of(i.p3() ? least(i.f(), i.g()) : greatest(i.f(), i.g())); }},
        {{"I2F.U16 R0, R2.H1"}, As::f32, [](In i) { return of(float(i.x() >> 16)); }},
        {{"I2F.S8 R0, R2.B2"}, As::f32, [](In i) { return of(float(int8_t(i.x() >> 16))); }},
    };
}

TEST(SassLift, Comparisons) { expect(comparison_rows()); }
TEST(SassLift, Floats) { expect(floating_rows()); }

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
