// The functions that choose the handlers of operations, for the host instruction set that is being
// compiled (isa.hpp). Only files that are compiled once for each instruction set include this
// header.
//
// Each file of sim/handlers defines some of these functions. table.cpp makes a table of them, from
// which the decoder and the lifter take them.
#pragma once

#include "sim/warp/isa.hpp"

namespace coalesce::sim::COALESCE_ISA {

// These functions are the entries of the column `select` in ops.inc. Each function chooses the
// handler for an instruction with given types and modifiers.
#define COALESCE_SELECT(name) Selection name(const InstructionForm& request, Modifiers& modifiers);
COALESCE_SELECT(select_activemask)
COALESCE_SELECT(select_arithmetic)
COALESCE_SELECT(select_bfe)
COALESCE_SELECT(select_bfi)
COALESCE_SELECT(select_bfind)
COALESCE_SELECT(select_bit_count)
COALESCE_SELECT(select_bmsk)
COALESCE_SELECT(select_brev)
COALESCE_SELECT(select_cnot)
COALESCE_SELECT(select_compare)
COALESCE_SELECT(select_convert)
COALESCE_SELECT(select_createpolicy)
COALESCE_SELECT(select_cvta)
COALESCE_SELECT(select_elect)
COALESCE_SELECT(select_floating)
COALESCE_SELECT(select_fns)
COALESCE_SELECT(select_getctarank)
COALESCE_SELECT(select_hint)
COALESCE_SELECT(select_integer)
COALESCE_SELECT(select_isspacep)
COALESCE_SELECT(select_logic)
COALESCE_SELECT(select_lop3)
COALESCE_SELECT(select_mapa)
COALESCE_SELECT(select_match)
COALESCE_SELECT(select_mov)
COALESCE_SELECT(select_not)
COALESCE_SELECT(select_prmt)
COALESCE_SELECT(select_redux)
COALESCE_SELECT(select_shf)
COALESCE_SELECT(select_shfl)
COALESCE_SELECT(select_shift)
COALESCE_SELECT(select_szext)
COALESCE_SELECT(select_video)
COALESCE_SELECT(select_vote)
COALESCE_SELECT(select_vset)
COALESCE_SELECT(select_warp_barrier)
// select_arithmetic calls these two functions.
COALESCE_SELECT(select_half)
COALESCE_SELECT(select_rounding)
// select_convert calls this function.
COALESCE_SELECT(select_small_float)
#undef COALESCE_SELECT

Selection select_special(Special which, ptx::Type type);
Handler select_resize(ptx::Type from, uint32_t to_bytes);
void guarded(Warp& warp, const Op& op);
void predicate_not(Warp& warp, const Op& op);
void local_address(Warp& warp, const Op& op);
Mover choose_load(ptx::Type memory, uint32_t register_bytes, int elements);
Mover choose_store(ptx::Type memory, uint32_t register_bytes, int elements);
Mover choose_atomic(AtomicUpdate update, ptx::Type type, int elements);
Mover choose_swap_attempt(uint32_t bytes);
Handler select_machine(MachineOp op);
Handler select_matrix(MatrixKind kind);

}  // namespace coalesce::sim::COALESCE_ISA
