// Tests guards of calls and returns. tests/python/sim/test_sim_waiting.py has lanes in several
// functions at the same time.
#include <gtest/gtest.h>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

std::vector<Words> numbered(size_t n) {
    std::vector<Words> words(n);
    for (size_t i = 0; i < n; ++i) words[i] = {i, 3 * i + 1, i * i};
    return words;
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
