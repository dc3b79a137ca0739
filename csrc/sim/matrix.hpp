// The description of an instruction on matrices, to which its Op refers.
//
// METHOD
// A warp stores a matrix as fragments: each lane has some elements in registers. The PTX ISA
// ("Matrix Fragments for mma") says which ones. One rule describes all types. Let a register hold E
// elements:
// - a: lane 4g + t has row g, or row g + 8 in every second register, and columns E * t, ...
// - b: as for a, with rows and columns exchanged.
// - c and d: rows g and g + 8, columns 2t and 2t + 1.
//
// An Op has six operands, but mma needs up to 24. Therefore its payload is an index into
// Program::matrices. The last operand of a PTX instruction on matrices is a member mask of all
// lanes. The scheduler makes these lanes reconverge before the instruction (Control::synchronize).
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/module.hpp"
#include "sim/locator.hpp"

namespace coalesce::sim {

// The format of an element.
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

// Reads the element type that a modifier names ("f16"). Returns false if it names none.
[[nodiscard]] bool element_named(std::string_view name, Element& element);

// How the handler MatrixKind::product computes. The arithmetic of tensor cores was recorded on an
// H200 or is published; see matrix_arithmetic.hpp.
enum class Arithmetic : uint8_t {
    fused,      // exact products, aligned and truncated, then added and rounded once
    in_halves,  // fp8 on tensor cores without fp8: two fused sums of halves, to which c is added
    integers,
    bits_and,  // and.popc
    bits_xor,  // xor.popc
};

inline constexpr int most_fragment_registers = 16;

// d = a b + c for tiles of m x 8; or a load, store or transposition of fragments.
struct Matrices {
    Locator d[most_fragment_registers], a[most_fragment_registers], b[most_fragment_registers],
        c[most_fragment_registers];
    uint8_t d_count = 0, a_count = 0, b_count = 0, c_count = 0;  // registers per tile
    // The number of tiles of this product, and the distance in registers between their operands.
    uint8_t tiles = 1, a_step = 0, b_step = 0, c_step = 0, d_step = 0;
    uint8_t m = 16;
    uint16_t k = 0;
    Element a_type{}, b_type{}, c_type{}, d_type{};
    Arithmetic arithmetic = Arithmetic::fused;
    uint8_t fraction_bits = 25;  // fused: bits that are kept below the largest exponent
    uint8_t result_bits = 23;    // fused: fraction bits of a 32-bit result
    uint8_t step = 0;            // fused: number of products that are added at once
    bool saturates = false;      // for integers
    bool row_a = true;           // MatrixKind::in_floats: the layout of a and b
    bool row_b = false;
    bool pairs = false;  // doubles are in pairs of registers (machine code)

    // For loads and stores. ldmatrix, stmatrix: `count` matrices of 8 rows with 16 bytes. wmma: the
    // operand whose fragment is accessed, of m x n x k, by rows or columns with this stride in
    // elements.
    Locator address = no_operand, stride = no_operand;
    ptx::Space space = ptx::Space::shared;
    bool transposed = false;
    bool by_rows = true;
    char operand = 'a';
    uint8_t n = 8;
    uint8_t count = 1;
};

}  // namespace coalesce::sim
