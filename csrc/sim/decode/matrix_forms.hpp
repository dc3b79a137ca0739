// The forms of mma and wmma: the combinations of a shape, of element types and of layouts that PTX
// has (PTX ISA, "Matrix Shape" and "Warp-level Matrix Instructions").
//
// The decoder calls form_of() to read the modifiers of an instruction. The other functions then say
// whether such an instruction exists, and which compute capability it needs. They also say how many
// registers its fragments have, and how its product is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptx/module.hpp"
#include "sim/program/matrix.hpp"
#include "sim/warp/selection.hpp"

namespace coalesce::sim {

// The product of an m x k matrix and a k x n matrix.
struct Shape3 {
    int m = 0, n = 0, k = 0;
    bool operator==(const Shape3&) const = default;
};

// The modifiers that an instruction on matrices may have.
struct Form {
    Shape3 shape;
    std::vector<Element> elements;  // in the order of the modifiers
    std::vector<bool> by_rows;  // true for .row and false for .col, in the order of the modifiers
    bool saturates = false, known = true;
    bool and_popc = false, xor_popc = false;
    ptx::Space space = ptx::Space::generic;
    char operand = 0;  // the operand that wmma.load or wmma.store accesses
};
[[nodiscard]] Form form_of(const ptx::Instruction& in);

[[nodiscard]] bool is_form_of_mma(const Shape3& shape, Element a);
[[nodiscard]] bool is_form_of_wmma(const Shape3& shape, Element a);

// Returns the lowest compute capability that supports a form of mma (PTX ISA, "mma").
[[nodiscard]] uint32_t least_architecture(const Shape3& shape, Element a, bool and_popc);

// Returns the number of registers of a wmma fragment (PTX ISA, "Matrix Fragments for WMMA").
// `operand` is 'a', 'b', 'c' or 'd'.
[[nodiscard]] size_t fragment_registers(const Shape3& shape, char operand, Element element);

// Sets how a product is computed, and returns the kind of handler for it. This depends on the
// compute capability (`architecture`). `in_quads` is true for a product of halves with the shape
// m8n8k4. `of_fragments` is true for wmma.mma.
[[nodiscard]] MatrixKind choose_arithmetic(Matrices& matrices, const Form& form,
                                           uint32_t architecture, bool in_quads, bool of_fragments);

// Returns true for s8, u8, s4 and u4.
[[nodiscard]] bool is_integer(Element element);

}  // namespace coalesce::sim
