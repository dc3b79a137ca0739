// The operations of machine code that PTX does not have. The lifter chooses them (sass/lift_*.cpp).
// The comments of their handlers say what they do (handlers/machine.cpp, arithmetic/pairs.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace coalesce::sim {

enum class MachineOp : uint8_t {
    move,
    add3,
    add_carry,
    add3_carry,
    shift_add,
    shift_add_carry,
    multiply_add_carry,
    multiply_high_u32,
    multiply_high_s32,
    shift_pair,
    shift_funnel,
    shift_left,
    shift_right_u32,
    shift_right_s32,
    compare_upper_u32,
    compare_upper_s32,
    predicate_logic,
    not_zero_or,
    not_zero_and,
    predicates_to_word,
    word_to_predicates,
    vote,
    broadcast,
    whole_warp,
    one_lane,
    has_diverged,
    has_converged,
    load_bank_u8,
    load_bank_s8,
    load_bank_u16,
    load_bank_s16,
    load_bank_b32,
    load_bank_b64,
    needs_slow_division,
    add_min_max_s32,
    add_min_max_u32,
    byte_differences,
    byte_differences_sum,
    min_max_f32,
    sine_of_turns,
    cosine_of_turns,
    nothing,
    // The operations from here on use 64-bit values in pairs of registers.
    join_pair,
    split_pair,
    pair_sign,
    shift_add_wide_u32,
    shift_add_wide_s32,
    multiply_wide_carry_u32,
    multiply_wide_carry_s32,
    multiply_wide_u32,
    multiply_wide_s32,
    add_f64,
    mul_f64,
    fma_f64,
    first_is_least_f64,
    first_is_greatest_f64,
    in_window,
    add_word_to_pair,
    add_pairs,
    add_wide,
};
inline constexpr size_t machine_ops = size_t(MachineOp::add_wide) + 1;

}  // namespace coalesce::sim
