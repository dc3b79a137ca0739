// Tests calls of functions. Lanes may be in several functions at the same time, and each function
// has its own registers.
#include <gtest/gtest.h>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

std::vector<Words> numbered(size_t n) {
    std::vector<Words> words(n);
    for (size_t i = 0; i < n; ++i) words[i] = {i, 3 * i + 1, i * i};
    return words;
}

// Two functions with different layouts of registers. Each function waits in the middle, so that the
// other function runs before the first one continues.
constexpr const char* two_functions = R"(
.func (.param .b64 r) wide (.param .b64 a, .param .b32 members)
{
 .reg .b64 %x<6>; .reg .b32 %m;
 ld.param.u64 %x1, [a]; ld.param.u32 %m, [members];
 add.u64 %x2, %x1, 1000000000000; add.u64 %x3, %x1, 2; mul.lo.u64 %x4, %x1, 5;
 bar.warp.sync %m;
 add.u64 %x5, %x2, %x3; add.u64 %x5, %x5, %x4; add.u64 %x5, %x5, %x1;
 st.param.b64 [r], %x5;
 ret;
}
.func (.param .b64 r) narrow (.param .b64 a, .param .b32 members)
{
 .reg .b64 %x; .reg .b32 %y<6>; .reg .b32 %m; .reg .pred %p;
 ld.param.u64 %x, [a]; ld.param.u32 %m, [members]; cvt.u32.u64 %y1, %x;
 add.u32 %y2, %y1, 7; add.u32 %y3, %y1, 11; mul.lo.u32 %y4, %y1, 13; setp.gt.u32 %p, %y1, 20;
 bar.warp.sync %m;
 add.u32 %y5, %y2, %y3; add.u32 %y5, %y5, %y4; add.u32 %y5, %y5, %y1;
 @%p add.u32 %y5, %y5, 1000;
 cvt.u64.u32 %x, %y5;
 st.param.b64 [r], %x;
 ret;
}
)";

TEST(Calls, LanesDivergeAtCallsThroughPointers) {
    const std::string table =
        std::string(two_functions) + ".global .u64 functions[2] = {wide, narrow};\n";
    const std::string body = R"(
 { .param .b64 a; .param .b32 m; .param .b64 r; .reg .b64 %f; .reg .b32 %even;
   P: .callprototype (.param .b64 _) _ (.param .b64 _, .param .b32 _);
   and.b32 %r4, %r1, 1; mul.wide.u32 %d4, %r4, 8; mov.u64 %d5, functions; add.u64 %d5, %d5, %d4;
   ld.global.u64 %f, [%d5];
   mov.u32 %even, 0x55555555; shl.b32 %even, %even, %r4;
   st.param.b64 [a], %d1; st.param.b32 [m], %even;
   call (r), %f, (a, m), P;
   ld.param.b64 %d0, [r]; }
)";
    const std::vector<uint64_t> got = run_module(kernel_text(body, table), numbered(64));
    for (uint64_t i = 0; i < got.size(); ++i) {
        const uint64_t want = i % 2 ? 16 * i + 18 + (i > 20 ? 1000 : 0) : 8 * i + 1000000000002;
        EXPECT_EQ(got[i], want) << i;
    }
}

TEST(Calls, GuardedCallsAndReturns) {
    const std::string f = R"(
.func (.param .b32 r) half (.param .b32 a)
{
 .reg .b32 %x; .reg .pred %p;
 ld.param.u32 %x, [a];
 st.param.b32 [r], %x;
 setp.lt.u32 %p, %x, 10;
 @%p ret;
 shr.u32 %x, %x, 1;
 st.param.b32 [r], %x;
}
)";
    const std::string body = R"(
 { .param .b32 a; .param .b32 r;
   st.param.b32 [a], %r1; st.param.b32 [r], 77;
   @%p1 call (r), half, (a);
   ld.param.b32 %r0, [r]; }
)";
    const std::vector<uint64_t> got = run_module(kernel_text(body, f), numbered(40));
    for (uint64_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i], i % 2 == 0 ? 77 : i < 10 ? i : i / 2) << i;
}

}  // namespace
}  // namespace coalesce::sim
