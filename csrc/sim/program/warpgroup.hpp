// Products of a warpgroup (wgmma): their description, and the layout of operands in shared memory.
//
// METHOD
// A warpgroup consists of four warps. Together they multiply a 64 x k matrix by a k x n matrix.
// Each warp computes 16 rows of the result. Its registers hold the sums in the layout of mma
// (matrix.hpp), one tile of 8 columns after another. k depends on the type of the elements: a row
// of the first operand always has 32 bytes. A matrix in shared memory is described by a 64-bit
// descriptor (PTX ISA, "Matrix Descriptor"):
//
//    0-13   address / 16           16-29  leading distance / 16    32-45  stride distance / 16
//    49-51  base offset            62-63  swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
//
// The smallest unit is a piece of 16 bytes, called a row. Its elements are neighbours along k
// ("k-major"). If the elements have 16 bits, they may instead be neighbours along the other
// dimension. Eight such rows form a core matrix. Without a swizzle, these rows are adjacent in
// memory. With a swizzle, they are `span` bytes apart, and the 16-byte parts are permuted depending
// on the address, as with tensor maps (tensor_map.hpp). The leading distance and the stride
// distance in the descriptor are the distances between core matrices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/program/matrix.hpp"
#include "sim/program/tensor_map.hpp"

namespace coalesce::sim {

inline constexpr uint32_t warpgroup_warps = 4;
inline constexpr uint32_t part_bytes = 16;  // the size of a part of an operand in shared memory

// A matrix product of a warpgroup. Its Op has an index into Program::warpgroup_products.
struct WarpgroupProduct {
    // The types and the arithmetic of a 16 x 8 tile of the product. If the first operand is in
    // registers, `product` also has these registers.
    Matrices product;
    std::vector<Locator> d;
    uint32_t n = 0;
    bool a_in_registers = false;
    Locator a = no_operand, b = no_operand;  // the descriptors of a and b
    Locator adds = no_operand;  // A predicate. If it is true, d = a * b + d, otherwise d = a * b.
    bool adds_negated = false;
    bool negates_a = false, negates_b = false;
    bool transposed_a = false, transposed_b = false;  // true if the matrix is not k-major
};

// Returns the description of a product with n columns and depth k, without its operands. Returns
// nothing if no instruction computes such a product.
[[nodiscard]] std::optional<WarpgroupProduct> product_of_warpgroup(Element d, Element a, Element b,
                                                                   uint32_t n, uint32_t k);

// A matrix in shared memory: the fields of its descriptor.
struct SharedMatrix {
    uint32_t start = 0, leading = 0, stride = 0, base = 0;
    Swizzle swizzle = Swizzle::none;

    explicit SharedMatrix(uint64_t bits)
        : start(field(bits, 0)),
          leading(field(bits, 16)),
          stride(field(bits, 32)),
          base(uint32_t(bits >> 49) & 7),
          swizzle(Swizzle((4 - (bits >> 62)) & 3)) {}

    // A row of a (or a column of b) is divided into parts of 16 bytes. Returns the address of part
    // number `part` of row (or column) `i`. The elements must be contiguous along k, the dimension
    // that the product sums over.
    [[nodiscard]] uint32_t along_k(uint32_t i, uint32_t part) const {
        const bool plain = swizzle == Swizzle::none;
        const uint32_t row = plain ? part_bytes : span_of(swizzle);
        return at(i % 8 * row + i / 8 * stride + part * (plain ? leading : part_bytes));
    }
    // Returns the address of eight 16-bit elements (16 bytes) that have the same index `k`. These
    // elements are neighbours along the other dimension (the rows of a, or the columns of b), and
    // the first of them has the number 8 * part. The elements must be contiguous along this
    // dimension.
    [[nodiscard]] uint32_t across_k(uint32_t k, uint32_t part) const {
        if (swizzle == Swizzle::none)
            return at(part * stride + k % 8 * part_bytes + k / 8 * leading);
        const uint32_t span = span_of(swizzle), parts = span / part_bytes;
        return at(part % parts * part_bytes + part / parts * leading + k % 8 * span +
                  k / 8 * stride);
    }

  private:
    static uint32_t field(uint64_t bits, int from) {
        return uint32_t(bits >> from & 0x3fff) * part_bytes;
    }
    // The permutation of a swizzle repeats every 1024 bytes. Usually a matrix begins at the start
    // of such a period. Otherwise it begins later. The base offset is then the number of units of
    // 128 bytes from the start of the period to the matrix (recorded on an H100 by
    // tools/record_results.py).
    [[nodiscard]] uint32_t at(uint32_t offset) const {
        const uint32_t address = start + offset, since = address - base * 128;
        return address ^ since ^ swizzled(since, swizzle);
    }
};

}  // namespace coalesce::sim
