// Contracts products and sums of floats, as NVIDIA's assembler does.
//
// PTX allows this if neither instruction has a rounding modifier: mul.f16 and add.f16 may become
// one fma, which rounds once. The assembler does so, and then the machine code that a GPU executes,
// and that profiles execute, has other bits than separate instructions. CUDA's headers write halves
// in this way: `a * b + c` is mul.f16 and add.f16. For float and double, the compiler itself makes
// most of the fma, and leaves a few to the assembler.
//
// METHOD
// The assembler's choice was found by experiment (CUDA 13.0 and 13.5). A product can become a part
// of a sum or difference if all instructions that read it are such sums, of the same type and with
// the same .ftz, and if nothing lies between that ends a block of code: a branch, its target, a
// call, a fence, or an instruction such as div.rn.f32, from which the assembler makes branches. If
// both terms of a sum are such products, the one that fewer instructions read is taken, otherwise
// the first.
// The sums are decided in the order of the text. A product that a sum reads but does not take is no
// longer one for later sums. Except for pairs (.f16x2, .bf16x2), the products that only one sum
// reads come first: all sums with such a product are decided before the others.
// Code for debuggers (.target sm_90, debug) is not contracted.
#pragma once

#include "ptx/module.hpp"

namespace coalesce::sim {

// Returns the module with contracted products and sums. Products that nothing reads any more are
// removed.
[[nodiscard]] ptx::Module contracted(ptx::Module module);

}  // namespace coalesce::sim
