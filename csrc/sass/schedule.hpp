// How the assembler scheduled an instruction: it is part of the instruction's encoding.
//
// METHOD
// An instruction has 16 bytes, of which bits 105 to 121 say, from the lowest on: cycles until the
// warp's next instruction (4 bits), whether another warp may come between (1, not kept), the
// scoreboard that awaits its result and the one that awaits its operands (3 each, 7 for none), and
// the scoreboards it waits for (6). The layout is that of Volta and later: Z. Jia et al.,
// Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, arXiv:1804.06826,
// section 2.1.
#pragma once

#include "sass/listing.hpp"
#include "sim/program.hpp"

namespace coalesce::sass {

[[nodiscard]] sim::Schedule schedule_of(const Instruction& in);

}  // namespace coalesce::sass
