// Decodes how the assembler scheduled an instruction, which is part of the instruction's encoding.
//
// METHOD
// An instruction has 16 bytes. Bits 105 to 121 have these fields, from the lowest bit:
// - cycles until the warp's next instruction (4 bits)
// - whether another warp may be issued in between (1 bit, not kept)
// - the scoreboard for its result, and the one for its operands (3 bits each, 7 for none)
// - the scoreboards for which it waits (6 bits)
// With scoreboards, an instruction waits for earlier ones; see Schedule in sim/program/program.hpp.
//
// Volta and later GPUs have this layout: Z. Jia et al., Dissecting the NVIDIA Volta GPU
// Architecture via Microbenchmarking, arXiv:1804.06826, section 2.1.
#pragma once

#include "sass/listing.hpp"
#include "sim/program/program.hpp"

namespace coalesce::sass {

[[nodiscard]] sim::Schedule schedule_of(const Instruction& in);

}  // namespace coalesce::sass
