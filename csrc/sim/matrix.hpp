// What an instruction on matrices does: the side table of Program that its Op points into.
//
// METHOD
// A warp holds a matrix in fragments: each lane some elements, in registers. The PTX ISA ("Matrix
// Fragments for mma") says which ones, for all types by one rule: lane 4g + t has of a register's
// E elements the rows g (and g + 8 in every second register) and the columns E * t, ... of a; of b
// columns and rows change places; of c and d rows g, g + 8 and columns 2t, 2t + 1.
//
// An Op has room for six operands, and mma has up to 24, so its payload is an index into
// Program::matrices. The last operand of a PTX instruction on matrices is a member mask of all
// lanes: the scheduler brings them together before (Control::synchronize).
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/module.hpp"
#include "sim/locator.hpp"

namespace coalesce::sim {

// How an element is stored.
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

// The element that a modifier names ("f16"); false if it is none.
[[nodiscard]] bool element_named(std::string_view name, Element& element);

// How the product of an instruction is computed. The tensor cores' own ways are those that were
// recorded on an H200 or are published; see matrix_arithmetic.hpp.
enum class Arithmetic : uint8_t {
    fused,      // exact products, aligned and truncated, added, rounded once
    in_halves,  // of fp8 without tensor cores for it: two fused sums of halves, then c is added
    in_floats,  // m8n8k4 of halves without tensor cores for it: by FFMA, each group of 8 lanes
    doubles,    // a chain of fused multiply-adds
    integers,
    bits_and,  // and.popc
    bits_xor,  // xor.popc
};

inline constexpr int most_fragment_registers = 16;

// d = a b + c, of tiles of m x 8; or a load, store or transposition of fragments.
struct Matrices {
    Locator d[most_fragment_registers], a[most_fragment_registers], b[most_fragment_registers],
        c[most_fragment_registers];
    uint8_t d_count = 0, a_count = 0, b_count = 0, c_count = 0;  // registers of a tile
    // Further tiles of the same product: how many registers on each tile's operands are.
    uint8_t tiles = 1, a_step = 0, b_step = 0, c_step = 0, d_step = 0;
    uint8_t m = 16;
    uint16_t k = 0;
    Element a_type{}, b_type{}, c_type{}, d_type{};
    Arithmetic arithmetic = Arithmetic::fused;
    uint8_t fraction_bits = 25;  // fused: below the largest exponent
    uint8_t result_bits = 23;    // fused: of the fraction of a result of 32 bits
    uint8_t step = 0;            // fused: so many products are added at once
    bool saturates = false;      // integers
    bool row_a = true;           // in_floats: how a and b are laid out
    bool row_b = false;
    bool pairs = false;  // doubles are in pairs of registers (machine code)

    // Loads and stores. ldmatrix, stmatrix: `count` matrices of 8 rows of 16 bytes. wmma: which
    // operand's fragment, of m x n x k, by rows or columns, `stride` elements apart.
    Locator address = no_operand, stride = no_operand;
    ptx::Space space = ptx::Space::shared;
    bool transposed = false;
    bool by_rows = true;
    char operand = 'a';
    uint8_t n = 8;
    uint8_t count = 1;
};

}  // namespace coalesce::sim
