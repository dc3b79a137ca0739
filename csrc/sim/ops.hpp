// The op families of the instruction set that is being compiled; see isa.hpp.
#pragma once

#include "sim/isa.hpp"

namespace coalesce::sim::COALESCE_ISA {

Selection select_integer(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_bits(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_video(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_logic(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_floating(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_rounding(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_half(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_convert(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_compare(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_move(const ptx::Instruction& instruction, Modifiers& modifiers);
Selection select_warp(const ptx::Instruction& instruction, Modifiers& modifiers);

Selection select_special(std::string_view name, ptx::Type type);
Handler select_resize(ptx::Type from, uint32_t to_bytes);
void guarded(Warp& warp, const Op& op);
void predicate_not(Warp& warp, const Op& op);
void local_address(Warp& warp, const Op& op);
Mover load_mover(ptx::Type memory, uint32_t register_bytes, int elements);
Mover store_mover(ptx::Type memory, uint32_t register_bytes, int elements);
Mover atomic_mover(std::string_view operation, ptx::Type type);
Handler select_machine(std::string_view name);
Mover machine_mover(std::string_view name);

}  // namespace coalesce::sim::COALESCE_ISA
