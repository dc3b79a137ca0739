// Translates the operations of a kernel to LLVM code.
//
// METHOD
// Two functions are made of the kernel's own body (not of functions that it calls): `whole` for
// warps in which all lanes are active, and `part` for others; compiled.hpp says how they are used.
// Each block of operations becomes code that keeps its registers in values of LLVM. Values that
// other blocks read are stored in local variables, which LLVM turns into registers of the host.
//
// In `whole`, a value may be the same in all lanes (uniform), or grow by a constant from lane to
// lane (affine). Such a value is one number of the host, also threadIdx.x / 32 and threadIdx.x
// % 32. Which registers are uniform or affine at the start of a block is computed by translating
// all blocks repeatedly, until nothing changes. This is an assumption about the other blocks only:
// where the function is entered, the assumption is tested, and the interpreter executes the block
// if it is wrong.
//
// A check of an address that fails ends the function before the operation. Accesses of a block with
// the same base address share one check.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"
#include "sim/warp/engine.hpp"

namespace coalesce::sim {

// Which coordinates of threads compiled code may assume to be simple in all warps.
struct ThreadShape {
    bool rising_x = false;                // threadIdx.x grows by 1 from lane to lane
    bool same_y = false, same_z = false;  // the same in all lanes
    [[nodiscard]] int number() const { return rising_x | same_y << 1 | same_z << 2; }
};
[[nodiscard]] ThreadShape shape_of_block(const Dim3& block);

struct Translation {
    std::string whole, part;  // one function each
    // For each op: whether the function can be entered there.
    std::vector<uint8_t> whole_entries, part_entries;
    uint32_t translated = 0, called = 0;  // the ops with a translation, and the others
    const char* why_not = "it has operations that cannot be translated";  // if `whole` is empty
};

// Returns a translation without code if the kernel cannot be translated.
[[nodiscard]] Translation translate(const Program& program, const Engine& engine,
                                    ThreadShape shape);

}  // namespace coalesce::sim
