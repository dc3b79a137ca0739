// Describes an instruction on matrices, such as mma or ldmatrix. The Op of the instruction has the
// index of this description.
//
// METHOD
// A warp stores a matrix in registers. Each lane has some of the elements; they are called its
// fragment. The PTX ISA ("Matrix Fragments for mma") says which lane has which elements. One rule
// describes all types. Here E is the number of elements in a register (2 for f16). A lane has two
// numbers, g = lane / 4 and t = lane % 4. Then lane 4g + t has these elements:
// - a: row g, and in every second register row g + 8. The columns are E * t to E * t + E - 1.
//   In the next registers, the numbers of the columns are larger by 4E, 8E, ...
// - b: as for a, with rows and columns exchanged.
// - c and d: rows g and g + 8, columns 2t and 2t + 1.
//
// An Op has six operands, but mma needs up to 24. Therefore the operands are in Program::matrices,
// and the payload of the Op is an index into this list. All lanes of the warp must execute an
// instruction on matrices together. So the decoder gives its Op a member mask of all lanes as the
// last operand. The scheduler makes these lanes reconverge before the instruction
// (Control::synchronize).
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/module.hpp"
#include "sim/memory/locator.hpp"

namespace coalesce::sim {

// The format of a matrix element.
enum class Element : uint8_t {
    f16,
    bf16,
    tf32,
    f32,
    f64,
    e4m3,
    e5m2,
    s8,
    u8,
    s4,
    u4,
    b1,
    s32,
};

[[nodiscard]] constexpr int bits_of(Element e) {
    switch (e) {
        case Element::f64:
            return 64;
        case Element::f16:
        case Element::bf16:
            return 16;
        case Element::e4m3:
        case Element::e5m2:
        case Element::s8:
        case Element::u8:
            return 8;
        case Element::s4:
        case Element::u4:
            return 4;
        case Element::b1:
            return 1;
        default:
            return 32;
    }
}

// Sets `element` to the format whose name is `name`, such as "f16". Returns false if there is no
// format with this name.
[[nodiscard]] bool element_named(std::string_view name, Element& element);

// How the products of a matrix product are added. The handler MatrixKind::product uses this. The
// rules of tensor cores were recorded on an H200 or are published; see matrix/arithmetic.hpp.
enum class Arithmetic : uint8_t {
    fused,  // exact products are aligned and truncated, then added and rounded once
    // For fp8 on tensor cores without fp8 units: two fused products of halves are added, and c is
    // added last (multiply_in_halves).
    in_halves,
    integers,
    bits_and,  // and, then a count of bits (and.popc)
    bits_xor,  // exclusive or, then a count of bits (xor.popc)
};

inline constexpr int max_fragment_registers = 16;

// Describes d = a b + c for tiles of m x 8, or a load, store or transposition of fragments.
struct Matrices {
    Locator d[max_fragment_registers], a[max_fragment_registers], b[max_fragment_registers],
        c[max_fragment_registers];
    // The number of registers per tile.
    uint8_t d_count = 0, a_count = 0, b_count = 0, c_count = 0;
    // A larger product consists of several tiles. `tiles` is their number. `a_step` is the number
    // of registers from the start of a in one tile to the start of a in the next tile. The other
    // steps are the same for b, c and d.
    uint8_t tiles = 1, a_step = 0, b_step = 0, c_step = 0, d_step = 0;
    uint8_t m = 16;
    uint16_t k = 0;
    Element a_type{}, b_type{}, c_type{}, d_type{};
    Arithmetic arithmetic = Arithmetic::fused;
    // For `fused`: the number of bits of each term that are kept below the largest exponent
    // (matrix/arithmetic.hpp).
    uint8_t fraction_bits = 25;
    uint8_t result_bits = 23;  // for `fused`: the number of fraction bits of a 32-bit result
    uint8_t step = 0;          // for `fused`: the number of products that are added at once
    bool saturates = false;    // true if integer results are saturated
    bool row_a = true;         // for MatrixKind::in_floats: true if the matrix is row-major
    bool row_b = false;
    bool pairs = false;  // true if doubles are in pairs of registers, as in machine code

    // The following members are for loads and stores. ldmatrix and stmatrix access `count` matrices
    // with 8 rows of 16 bytes. wmma accesses the fragment of one operand of an m x n x k product.
    // The rows (or columns) of this operand are `stride` elements apart in memory.
    Locator address = no_operand, stride = no_operand;
    ptx::Space space = ptx::Space::shared;
    bool transposed = false;
    bool by_rows = true;
    char operand = 'a';
    uint8_t n = 8;
    uint8_t count = 1;
};

}  // namespace coalesce::sim
