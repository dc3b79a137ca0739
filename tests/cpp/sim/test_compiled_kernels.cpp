// Tests the translation of kernels to LLVM code. The tests in Python run the code
// (tests/python/sim/test_compiled_kernels.py).
#include <gtest/gtest.h>

#include <string>

#include "sim/fixture.hpp"
#include "sim/jit/translate.hpp"

namespace coalesce::sim {
namespace {

Program decoded(const std::string& body) {
    const ptx::Module module = ptx::parse(kernel_text(body));
    return decode(module, *module.find_function("k"), lay_out_memory(module),
                  engine(Watch::nothing));
}

Translation translated(const std::string& body) {
    return translate(decoded(body), engine(Watch::nothing), shape_of_block({64, 1, 1}));
}

TEST(Translate, OrdinaryOperationsNeedNoCalls) {
    const Translation t = translated("add.u32 %r0, %r1, %r2; fma.rn.f32 %f0, %f1, %f2, %f3;");
    EXPECT_EQ(t.called, 0);
    EXPECT_GT(t.translated, 20);
    EXPECT_NE(t.whole.find("define i32 @whole"), std::string::npos);
    EXPECT_NE(t.part.find("define i32 @part"), std::string::npos);
    EXPECT_TRUE(t.whole_entries[0]);
}

TEST(Translate, OtherOperationsCallTheirHandlers) {
    // The bits of NaNs of doubles depend on the order of the operands.
    EXPECT_EQ(translated("add.f64 %g0, %g1, %g2; dp4a.u32.u32 %r0, %r1, %r2, %r3;").called, 2);
}

TEST(Translate, RefusesMatrices) {
    const Translation t = translated(
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r4, %r5, %r6, %r7, %r8, %r9, %r10, "
        "%r11}, [%in];");
    EXPECT_TRUE(t.whole.empty());
    EXPECT_TRUE(t.part.empty());
}

TEST(Translate, ShapeOfBlock) {
    const auto shape = [](uint32_t x, uint32_t y, uint32_t z) {
        return shape_of_block({x, y, z}).number();
    };
    EXPECT_EQ(shape(100, 1, 1), 7);
    EXPECT_EQ(shape(64, 3, 2), 7);
    EXPECT_EQ(shape(16, 8, 1), 4);
    EXPECT_EQ(shape(16, 2, 5), 4);
    EXPECT_EQ(shape(5, 5, 5), 0);
}

}  // namespace
}  // namespace coalesce::sim
