// Tests accesses to shared memory near its end.
#include <gtest/gtest.h>

#include <string>

#include "errors.hpp"
#include "sass/fixture.hpp"

namespace coalesce::sass {
namespace {

constexpr uint32_t reserved = 0x400;  // shared memory of the GPU itself, before that of the block

// The block has 56 bytes of shared memory. Each of the first 14 words gets its number. Then a full
// warp executes the instruction, with the address in R2.
uint64_t run_at(const std::string& instruction, uint32_t address) {
    std::vector<sim::Words> inputs(sim::warp_size);
    for (uint32_t i = 0; i < sim::warp_size; ++i) inputs[i] = {reserved + address, 4 * i, i};
    const std::vector<Results> results =
        run_machine({"ISETP.LT.U32.AND P5, PT, R6, 0xe, PT", "@P5 STS [R4+0x400], R6", instruction},
                    inputs, sim::best_isa(), nullptr, 56);
    for (const Results& r : results) EXPECT_EQ(r.value, results[0].value);
    return results[0].value;
}

TEST(SharedMemory, AWideLoadMayExceedItsEnd) {
    EXPECT_EQ(run_at("LDS.64 R0, [R2]", 48), 12 | uint64_t{13} << 32);
    // The second half is past the end. The compiled kernel does not use it.
    EXPECT_EQ(run_at("LDS.128 R0, [R2]", 48), 12 | uint64_t{13} << 32);
}

TEST(SharedMemory, AnAccessThatBeginsPastTheEndIsAFault) {
    EXPECT_THROW(run_at("LDS R0, [R2]", 56), MemoryFault);
    EXPECT_THROW(run_at("LDS.64 R0, [R2]", 56), MemoryFault);
    EXPECT_THROW(run_at("LDS.128 R0, [R2]", 64), MemoryFault);
    EXPECT_THROW(run_at("LDS.128 R0, [R2]", 0xfffffff0), MemoryFault);
    EXPECT_THROW(run_at("LDS.128 R0, [R2]", 40), MemoryFault);  // misaligned
}

TEST(SharedMemory, AStoreMustNotExceedItsEnd) {
    EXPECT_THROW(run_at("STS.128 [R2], R4", 48), MemoryFault);
    EXPECT_THROW(run_at("STS [R2], R4", 56), MemoryFault);
    EXPECT_EQ(run_at("STS.64 [R2], R4", 48), 0u);
}

}  // namespace
}  // namespace coalesce::sass
