// Loads and stores of matrices: ldmatrix and stmatrix (LDSM, STSM), wmma.load and wmma.store.
//
// METHOD
// ldmatrix loads matrices with 8 rows of 16 bytes. Lanes 8n to 8n + 7 provide the addresses of the
// rows of matrix n, and each lane receives 4 bytes of every matrix. Observers that count accesses
// get one event: an access of 16 bytes by each lane that provides an address. But a checker must
// know which thread reads which bytes. So a checker gets other events, one for each part of the
// matrix that a lane receives. A part has 4 bytes. If the matrix is transposed, there are two parts
// of 2 bytes instead.
//
// PTX does not say how wmma.load accesses memory. The simulator reads each register of a fragment
// separately. One access reads all adjacent bytes of a register.
#pragma once

#include <algorithm>
#include <cstring>

#include "sim/handlers/memory/memory_ops.hpp"
#include "sim/program/matrix.hpp"

namespace coalesce::sim::COALESCE_ISA {

inline constexpr int matrix_rows = 8;
inline constexpr uint32_t row_bytes = 16;

// The row that contains part `part` of the lane's elements, and the part's byte offset in the row.
struct RowPart {
    int row;
    uint32_t byte;
};
inline RowPart row_part(bool transposed, int lane, int part) {
    if (transposed) return {2 * (lane % 4) + part, uint32_t(lane / 4 * 2)};
    return {lane / 4, uint32_t(lane % 4 * 4)};
}

// Executes ldmatrix or stmatrix. Operand 5, which is the address register in other memory
// instructions, is the member mask here. The address register is in the instruction's entry of
// Program::matrices.
template <Watch watch, Access access>
void access_matrices(Warp& w, const Op& op) {
    if (w.mask != all_lanes) throw_part_of_warp(w, op);
    const Matrices& x = w.block->program->matrices[op.get<MatrixOperand>().index];
    Op rows = op;
    rows.operand[5] = x.address;
    rows.memory().bytes = row_bytes;
    read_addresses(w, rows);
    if (x.space == ptx::Space::generic) {
        const uint64_t start = shared_window + w.block->program->reserved_shared;
        for (int i = 0; i < warp_size; ++i) w.address[i] -= start;
    }
    w.mask = x.count == 4 ? all_lanes : (1u << (matrix_rows * x.count)) - 1;
    Resolved r;
    resolve<watch, ptx::Space::shared>(w, rows, access, r);
    alignas(16) std::byte nowhere[row_bytes] = {};  // used in place of rows that cannot be accessed
    std::byte* host[warp_size];
    uint64_t address[warp_size];
    for (int i = 0; i < matrix_rows * x.count; ++i) {
        address[i] = w.address[i];
        host[i] = !has_lane(r.mask, i)            ? nowhere
                  : r.shape == Shape::scattered   ? r.lane[i]
                  : r.shape == Shape::consecutive ? r.host + size_t(i) * row_bytes
                                                  : r.host;
    }
    w.mask = r.mask;
    const int parts = x.transposed ? 2 : 1;
    if constexpr (watch == Watch::accesses) {
        announce<watch>(w, rows, ptx::Space::shared, access, Shape::scattered);
    } else if constexpr (watch == Watch::faults) {
        rows.memory().bytes = uint8_t(4 / parts);
        for (int n = 0; n < x.count; ++n) {
            for (int part = 0; part < parts; ++part) {
                w.mask = 0;
                for (int i = 0; i < warp_size; ++i) {
                    const RowPart at = row_part(x.transposed, i, part);
                    w.address[i] = address[n * matrix_rows + at.row] + at.byte;
                    w.mask |= LaneMask(has_lane(r.mask, n * matrix_rows + at.row)) << i;
                }
                if (w.mask) announce<watch>(w, rows, ptx::Space::shared, access, Shape::scattered);
            }
        }
    }
    w.mask = all_lanes;
    for (int n = 0; n < x.count; ++n) {
        std::byte* const* const row = host + n * matrix_rows;
        uint32_t* const d = w.lanes<uint32_t>(access == Access::load ? x.d[n] : x.a[n]);
        const auto move = [](std::byte* memory, std::byte* lane, size_t bytes) {
            if constexpr (access == Access::load)
                std::memcpy(lane, memory, bytes);
            else
                std::memcpy(memory, lane, bytes);
        };
        for (int i = 0; i < warp_size; ++i) {
            std::byte* const value = reinterpret_cast<std::byte*>(d + i);
            const RowPart at = row_part(x.transposed, i, 0);
            if (!x.transposed) {
                move(row[at.row] + at.byte, value, 4);
            } else {
                move(row[at.row] + at.byte, value, 2);
                move(row[at.row + 1] + at.byte, value + 2, 2);
            }
        }
    }
}

// The position of an element of a fragment in its matrix.
struct ElementPosition {
    int row, column;
};

// Returns the position in the matrix of one element of this lane's fragment: element e of register
// r. The matrix is a, b or c; d is stored like c.
inline ElementPosition position_of(const Matrices& x, int each, int lane, int r, int e) {
    const int group = lane / 4, member = lane % 4;
    // For m8n32, the fragments are those of the transposed 32 x 8 product.
    const bool is_transposed = x.m == 8 && x.n == 32;
    const bool halves = x.m != 8 || is_transposed;
    // The order of the elements of a.
    const auto across_k = [&](int register_in_tile, int tile_row) {
        const int half = halves ? 8 * (register_in_tile & 1) : 0;
        const int step = halves ? register_in_tile >> 1 : register_in_tile;
        return ElementPosition{tile_row + half + group, 4 * each * step + each * member + e};
    };
    // The order of the elements of b.
    const auto down_k = [&](int register_in_tile, int tile_column) {
        return ElementPosition{4 * each * register_in_tile + each * member + e,
                               tile_column + group};
    };
    const auto other = [](ElementPosition p) { return ElementPosition{p.column, p.row}; };
    if (x.operand == 'c') {
        const int in_tile = halves ? 4 / each : 2;
        const int i = (r % in_tile) * each + e, tile = r / in_tile;
        const ElementPosition p{group + 8 * (i >> 1), 2 * member + (i & 1)};
        if (is_transposed) return other(ElementPosition{p.row + 16 * tile, p.column});
        return x.m == 32 ? ElementPosition{p.row + 16 * tile, p.column}
                         : ElementPosition{p.row, p.column + 8 * tile};
    }
    // A tile of a (16 x k or 8 x k elements) takes `of_a` registers, and a tile of b (k x 8) takes
    // `of_b`. The next registers hold the next tiles. If a fragment has more registers than its
    // elements need, the other registers hold copies.
    const int of_a = std::max(1, (halves ? 16 : 8) * x.k / 32 / each);
    const int of_b = std::max(1, 8 * x.k / 32 / each);
    const bool as_a = (x.operand == 'a') != is_transposed;
    if (as_a) {
        const int tiles = x.m == 32 || is_transposed ? 2 : 1, tile = r / of_a % tiles;
        const ElementPosition p = across_k(r % of_a, 16 * tile);
        return is_transposed ? other(p) : p;
    }
    const int tiles = x.m == 16 && x.n == 16 ? 2 : 1, tile = r / of_b % tiles;
    const ElementPosition p = down_k(r % of_b, 8 * tile);
    return is_transposed ? other(p) : p;
}

template <Watch watch, ptx::Space space>
void move_part(Warp& w, const Op& op, Access access, Locator at, uint32_t shift, uint32_t bytes) {
    Resolved r;
    resolve<watch, space>(w, op, access, r);
    const LaneMask all = w.mask;
    w.mask = r.mask;
    if (w.mask) {
        announce<watch>(w, op, space, access, Shape::scattered);
        std::byte* const lanes = w.lanes<std::byte>(at) + shift;
        const size_t apart = std::max<size_t>(4, bytes);
        for_each_lane(w.mask, [&](int i) {
            std::byte* const memory = r.shape == Shape::scattered ? r.lane[i]
                                      : r.shape == Shape::uniform ? r.host
                                                                  : r.host + size_t(i) * bytes;
            std::byte* const lane = lanes + size_t(i) * apart;
            if (access == Access::load)
                std::memcpy(lane, memory, bytes);
            else
                std::memcpy(memory, lane, bytes);
        });
    }
    w.mask = all;
}

template <Watch watch>
[[gnu::noinline]] void access_fragment_as(Warp& w, const Op& op, Access access) {
    if (w.mask != all_lanes) throw_part_of_warp(w, op);
    const Matrices& x = w.block->program->matrices[op.get<MatrixOperand>().index];
    const int bits = bits_of(x.a_type);
    const int each = bits == 64 ? 1 : 32 / bits;
    Op part = op;
    part.operand[5] = x.address;
    read_addresses(w, part);
    uint64_t base[warp_size];
    std::copy_n(w.address, warp_size, base);
    // All lanes provide the same address, and therefore the same space.
    ptx::Space space = x.space;
    if (space == ptx::Space::generic) {
        const uint64_t shared = shared_window + w.block->program->reserved_shared;
        space = ptx::Space::global;
        uint64_t window = 0;
        if (base[0] - shared < window_bytes) space = ptx::Space::shared, window = shared;
        if (base[0] - local_window < window_bytes) space = ptx::Space::local, window = local_window;
        for (uint64_t& a : base) a -= window;
    }
    const uint32_t* const strides =
        x.stride == no_operand ? nullptr : w.lanes<const uint32_t>(x.stride);
    const int columns = x.operand == 'a' ? x.k : x.n, rows = x.operand == 'b' ? x.k : x.m;
    for (int i = 1; i < warp_size; ++i) {
        if (base[i] == base[0] && (!strides || strides[i] == strides[0])) continue;
        throw_misuse(w, op, i, "the threads of a warp pass different matrices");
    }
    const uint64_t stride = strides ? strides[0] : uint64_t(x.by_rows ? columns : rows);
    const bool together = x.operand == 'a'   ? x.by_rows
                          : x.operand == 'b' ? !x.by_rows
                                             : x.by_rows != (x.m == 8 && x.n == 32);
    // PTX ISA, wmma.load and wmma.store: rows and columns must begin at multiples of 16 bytes. The
    // machine code needs less: a thread moves two neighbouring elements of an accumulator of 4 or 8
    // bytes at once, single bytes that are not neighbours, and 4 bytes otherwise.
    const bool in_pairs = x.operand != 'a' && x.operand != 'b' && together && bits >= 32;
    const uint64_t unit = in_pairs ? 2 * bits : bits == 8 && !together ? 8 : std::max(32, bits);
    if (stride * uint64_t(bits) % unit != 0)
        throw_misuse(w, op, 0,
                     "rows or columns of a matrix must be a multiple of # bytes apart, not # "
                     "elements of # bits",
                     {unit / 8, stride, uint64_t(bits)});
    if (base[0] % (unit / 8) != 0)
        throw_misuse(w, op, 0, "the address of a matrix must be a multiple of # bytes", {unit / 8});
    const int parts = together ? 1 : each;
    const uint8_t bytes = part.memory().bytes = uint8_t(bits == 64 ? 8 : 4 / parts);
    const int registers = access == Access::load ? x.d_count : x.a_count;
    for (int r = 0; r < registers; ++r) {
        for (int e = 0; e < parts; ++e) {
            for (int i = 0; i < warp_size; ++i) {
                const ElementPosition p = position_of(x, each, i, r, e);
                const uint64_t n = x.by_rows ? uint64_t(p.row) * stride + uint64_t(p.column)
                                             : uint64_t(p.column) * stride + uint64_t(p.row);
                w.address[i] = base[i] + n * uint64_t(bits) / 8;
            }
            const Locator at = access == Access::load ? x.d[r] : x.a[r];
            const uint32_t shift = uint32_t(e) * bytes;
            if (space == ptx::Space::shared)
                move_part<watch, ptx::Space::shared>(w, part, access, at, shift, bytes);
            else if (space == ptx::Space::local)
                move_part<watch, ptx::Space::local>(w, part, access, at, shift, bytes);
            else
                move_part<watch, ptx::Space::global>(w, part, access, at, shift, bytes);
        }
    }
}
template <Watch watch, Access access>
void access_fragment(Warp& w, const Op& op) {
    access_fragment_as<watch>(w, op, access);
}

}  // namespace coalesce::sim::COALESCE_ISA
