// Finds the registers and predicates that a machine instruction reads and writes.
//
// METHOD
// The text of an instruction names only the first of several consecutive registers, and does not
// say which operands are results. Both follow from the opcode and its modifiers. Where this is not
// certain, the functions below return too much: all registers that an instruction may use. The
// comment of each function says so.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "sass/listing.hpp"
#include "sim/ptx_analysis/opcode.hpp"

namespace coalesce::sass {

// A set of registers and predicates. The general registers come first. The bits from these numbers
// on are for uniform registers, predicates and uniform predicates.
inline constexpr size_t uniform_values = 256, predicate_values = uniform_values + 64,
                        uniform_predicate_values = predicate_values + 8,
                        all_values = uniform_predicate_values + 8;
using Values = std::bitset<all_values>;

[[nodiscard]] inline bool has_trait(const Instruction& in, uint32_t traits) {
    return sim::operation(in.code).has(traits);
}

// Returns true for a register or predicate that can be written. RZ and PT cannot.
[[nodiscard]] bool is_value(const Operand& o);

// Returns the bit of the operand's register or predicate. If the operand stands for several
// registers, this is the first one.
[[nodiscard]] size_t value_of(const Operand& o);

// Returns true if the instruction may not be executed in all lanes.
[[nodiscard]] bool is_guarded(const Instruction& in);

// The results of an instruction are among its first operands. The first `certain` operands are
// results. The operands after them, up to number `possible`, are results or sources.
struct Results {
    size_t certain = 0, possible = 0;
};
[[nodiscard]] Results results_of(const Instruction& in);

// Adds to `values` (or removes from it) the first `width` registers of an operand, or its
// predicate.
void set(Values& values, const Operand& o, size_t width, bool value = true);

// width_of() returns the largest number of registers that a result or a source can have.
// least_width_of() returns the smallest number of registers that a result can have.
[[nodiscard]] size_t width_of(const Instruction& in, bool is_result);
[[nodiscard]] size_t least_width_of(const Instruction& in);

// Returns true if the instruction's operand uses one of these values. An operand that is a register
// stands for `width` consecutive registers.
[[nodiscard]] bool is_any(const Instruction& in, const Operand& o, const Values& values,
                          size_t width);

// Returns true if the instruction may read one of these values.
[[nodiscard]] bool reads(const Instruction& in, const Values& values);

// Returns the values that the instruction may write.
[[nodiscard]] Values written_by(const Instruction& in);

}  // namespace coalesce::sass
