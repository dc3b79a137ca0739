// Products of a warpgroup (wgmma): the side table of Program, and how operands lie in shared
// memory.
//
// METHOD
// Four warps multiply 64 x k by k x n: each warp 16 rows, whose sums are in its registers as those
// of mma (matrix.hpp), a tile of 8 columns after the other. The operands are 32 bytes deep. A
// matrix in shared memory is named by a descriptor of 64 bits (PTX ISA, "Matrix Descriptor"):
//
//     0-13   address / 16           16-29  leading distance / 16    32-45  stride distance / 16
//     49-51  base offset            62-63  swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
//
// Its smallest part is a row of 16 bytes, along k ("k-major") or, for elements of 16 bits, along
// the other dimension. Eight such rows are a core matrix. Without a swizzle they follow each other;
// with one they are `span` bytes apart, and parts of 16 bytes are exchanged by the address, as
// tensor maps do (tensor_map.hpp). The two distances lead from a core matrix to the next ones.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/matrix.hpp"
#include "sim/tensor_map.hpp"

namespace coalesce::sim {

inline constexpr uint32_t warpgroup_warps = 4;
inline constexpr uint32_t part_bytes = 16;  // of an operand in shared memory

struct WarpgroupProduct {
    Matrices product;  // types and arithmetic of a tile of 16 x 8; a's registers, if it is there
    std::vector<Locator> d;
    uint32_t n = 0;
    bool a_in_registers = false;
    Locator a = no_operand, b = no_operand;  // descriptors
    Locator adds = no_operand;               // predicate: d = a * b + d, else d = a * b
    bool adds_negated = false;
    bool negates_a = false, negates_b = false;
    bool transposed_a = false, transposed_b = false;  // not k-major
};

// A descriptor taken apart.
struct SharedMatrix {
    uint32_t start = 0, leading = 0, stride = 0, base = 0;
    Swizzle swizzle = Swizzle::none;

    explicit SharedMatrix(uint64_t bits)
        : start(field(bits, 0)),
          leading(field(bits, 16)),
          stride(field(bits, 32)),
          base(uint32_t(bits >> 49) & 7),
          swizzle(Swizzle((4 - (bits >> 62)) & 3)) {}

    // Where the 16 bytes of row or column `i` are that hold the bytes from 16 * part on along k.
    [[nodiscard]] uint32_t along_k(uint32_t i, uint32_t part) const {
        const bool plain = swizzle == Swizzle::none;
        const uint32_t row = plain ? part_bytes : span_of(swizzle);
        return at(i % 8 * row + i / 8 * stride + part * (plain ? leading : part_bytes));
    }
    // Where the 16 bytes of step `k` are that hold the elements (16 bits each) from 8 * part on.
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
    [[nodiscard]] uint32_t at(uint32_t offset) const { return swizzled(start + offset, swizzle); }
};

}  // namespace coalesce::sim
