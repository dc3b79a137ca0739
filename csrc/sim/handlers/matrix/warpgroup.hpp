// Executes matrix products of a warpgroup (wgmma): four warps that work together.
//
// METHOD
// Each warp computes its 16 rows when it executes the instruction, tile by tile as for mma
// (matrix/arithmetic.hpp). On a GPU, the sums are available only after wgmma.wait_group. On the
// simulator, a missing wait has no effect on the sums. The warps of a warpgroup wait for each other
// at wgmma.wait_group. So when one warp continues after it, the products of all four warps have
// finished reading shared memory.
//
// Accesses to operands in shared memory are announced only to checkers. Other observers count
// requests of the load/store unit, which these accesses do not use. Each access is announced twice,
// at the product and at wgmma.wait_group, because the tensor cores may read at any time in between.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "sim/handlers/matrix/arithmetic.hpp"
#include "sim/handlers/matrix/fragments.hpp"
#include "sim/handlers/memory/memory_ops.hpp"
#include "sim/program/warpgroup.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Announces the reads of a product. The data are read by the tensor cores, and not by single lanes.
// So each lane of an event stands for one part of 16 bytes that was read.
inline void announce_reads(Warp& w, const ProductReads& reads) {
    const LaneMask all = w.mask;
    for (size_t first = 0; first < reads.places.size(); first += warp_size) {
        const size_t count = std::min<size_t>(warp_size, reads.places.size() - first);
        std::copy_n(reads.places.begin() + ptrdiff_t(first), count, w.address);
        w.mask = count == warp_size ? all_lanes : (1u << count) - 1;
        announce<Watch::faults>(w, *reads.op, ptx::Space::shared, Access::load, Shape::scattered);
    }
    w.mask = all;
}

inline void warpgroup_commit(Warp& w, const Op&) {
    w.read_groups.push_back(std::move(w.reads_open));
    w.reads_open.clear();
}

inline void warpgroup_wait(Warp& w, const Op& op) {
    const size_t pending = op.get<AsyncGroups>().pending;
    while (w.read_groups.size() > pending) {
        for (const ProductReads& reads : w.read_groups.front()) announce_reads(w, reads);
        w.read_groups.erase(w.read_groups.begin());
    }
}

// Reads parts of 16 bytes of an operand and stores their addresses for checkers.
template <Watch watch>
class OperandReader {
  public:
    OperandReader(Warp& w, const Op& op) : w_(w), op_(op) {}

    // Copies 16 bytes from shared memory. `address` is as the kernel sees it, and includes the
    // reserved bytes (Program::reserved_shared). If the access is a fault, copies zeros.
    void read(uint32_t address, std::byte* to) {
        const Block& block = *w_.block;
        const uint64_t at = uint64_t{address} - block.program->reserved_shared;
        if (!holds(block.shared_bytes, at, part_bytes)) [[unlikely]] {
            if (!failed_) {
                const int lane = std::countr_zero(w_.mask);
                w_.address[lane] = at;
                fault<watch>(w_, op_, Access::load, ptx::Space::shared, Fault::outside, 1u << lane);
            }
            failed_ = true;
            std::memset(to, 0, part_bytes);
            return;
        }
        std::memcpy(to, block.shared + at, part_bytes);
        if constexpr (watch == Watch::faults) places_.push_back(at);
    }

    void announce_all() {
        if constexpr (watch == Watch::faults) {
            w_.reads_open.push_back({&op_, std::move(places_)});
            announce_reads(w_, w_.reads_open.back());
        }
    }

  private:
    Warp& w_;
    const Op& op_;
    bool failed_ = false;
    std::vector<uint64_t> places_;
};

// Unpacks 16 bytes, which contain elements of `bits` bits each. Stores the elements to `out`, and
// returns their number. Elements of one bit are stored as words of 32 elements.
inline int take_elements(const std::byte* bytes, int bits, uint32_t* out) {
    const int count = 128 / bits;
    for (int e = 0; e < count; ++e) {
        uint32_t word = 0;
        std::memcpy(&word, bytes + e * bits / 8, size_t(bits) / 8);
        out[e] = word;
    }
    return count;
}

// Reads `rows` rows of a, or columns of b, from an operand in shared memory. The first of them has
// the number `first`. `out` has the indices [k][row or column].
template <Watch watch, int rows>
void read_operand(OperandReader<watch>& reader, const SharedMatrix& matrix, bool transposed,
                  uint32_t first, int bits, uint32_t (*out)[rows]) {
    std::byte bytes[part_bytes];
    uint32_t elements[part_bytes];
    if (transposed) {
        for (uint32_t k = 0; k < 16; ++k) {
            for (int i = 0; i < rows; i += 8) {
                reader.read(matrix.across_k(k, (first + uint32_t(i)) / 8), bytes);
                take_elements(bytes, bits, elements);
                std::copy_n(elements, 8, &out[k][i]);
            }
        }
        return;
    }
    for (int i = 0; i < rows; ++i) {
        for (uint32_t part = 0; part < 2; ++part) {
            reader.read(matrix.along_k(first + uint32_t(i), part), bytes);
            const int count = take_elements(bytes, bits, elements);
            for (int e = 0; e < count; ++e) out[int(part) * count + e][i] = elements[e];
        }
    }
}

template <int rows>
void negate(Element type, int k, uint32_t (*elements)[rows]) {
    const uint32_t sign = 1u << (bits_of(type) - 1);
    for (int n = 0; n < k; ++n) {
        for (int i = 0; i < rows; ++i) elements[n][i] ^= sign;
    }
}

inline void multiply_tile(const Matrices& x, Tile& t) {
    if (x.arithmetic == Arithmetic::integers) return multiply_integers(x, t);
    if (x.arithmetic == Arithmetic::bits_and) return multiply_bits(x, t);
    multiply_fused(x, t);
}

// Returns the matrix that a descriptor describes. The descriptor must be the same in all lanes.
inline SharedMatrix shared_matrix(Warp& w, const Op& op, Locator at) {
    const uint64_t* const bits = w.lanes<const uint64_t>(at);
    for (int lane = 1; lane < warp_size; ++lane) {
        if (bits[lane] != bits[0])
            throw_misuse(w, op, lane, "the threads of a warp pass different matrix descriptors");
    }
    return SharedMatrix(bits[0]);
}

template <Watch watch>
void warpgroup_product(Warp& w, const Op& op) {
    const WarpgroupProduct& p =
        w.block->program->warpgroup_products[op.get<WarpgroupOperand>().index];
    const Matrices& x = p.product;
    must_be_whole(w, op);
    const uint32_t first_warp = w.index / warpgroup_warps * warpgroup_warps;
    if ((first_warp + warpgroup_warps) * warp_size > w.block->threads)
        throw_misuse(w, op, 0,
                     "a warpgroup has 4 whole warps, and the number of its first warp is a "
                     "multiple of 4; the block has # threads",
                     {w.block->threads});
    const LaneMask adds = p.adds_negated ? ~w.predicate(p.adds) : w.predicate(p.adds);
    if (adds != 0 && adds != all_lanes)
        throw_misuse(w, op, 0, "the threads of a warp pass different values of scale-d");

    const int bits = x.a_type == Element::b1 ? 32 : bits_of(x.a_type);
    const int depth = 256 / bits;
    OperandReader<watch> reader(w, op);
    Tile tile;
    if (p.a_in_registers)
        gather(w, x.a, x.a_count, bits, true, tile.a);
    else
        read_operand<watch>(reader, shared_matrix(w, op, p.a), p.transposed_a,
                            w.index % warpgroup_warps * tile_rows, bits, tile.a);
    if (p.negates_a) negate(x.a_type, depth, tile.a);
    const SharedMatrix b = shared_matrix(w, op, p.b);
    for (uint32_t column = 0; column < p.n; column += tile_columns) {
        read_operand<watch>(reader, b, p.transposed_b, column, bits, tile.b);
        if (p.negates_b) negate(x.b_type, depth, tile.b);
        const Locator* const d = p.d.data() + size_t{column} / tile_columns * x.d_count;
        if (adds)
            gather_sums(w, d, x.c_count, x.c_type, tile);
        else
            std::fill_n(&tile.c[0][0], tile_rows * tile_columns, 0u);
        multiply_tile(x, tile);
        scatter_sums(w, d, x.d_count, x.d_type, tile);
    }
    reader.announce_all();
}

}  // namespace coalesce::sim::COALESCE_ISA
