// Copies the elements of a tile from the registers of a warp to an array, and back. matrix.hpp says
// which elements of a tile each lane has, and in which registers.
#pragma once

#include "sim/handlers/matrix/arithmetic.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Copies the elements of a tile from the registers to an array. The array has the indices [k][row]
// for a tile of matrix a, and [k][column] for a tile of matrix b. `halves` is true for a tile of 16
// rows, in which every second register has rows 8 to 15.
template <int bits, int rows>
void gather(Warp& w, const Locator* registers, int count, bool halves, uint32_t (*out)[rows]) {
    constexpr int each = 32 / bits;
    constexpr uint32_t mask = bits == 32 ? ~0u : (1u << bits % 32) - 1;
    for (int r = 0; r < count; ++r) {
        const uint32_t* const word = w.lanes<const uint32_t>(registers[r]);
        const int row = halves ? 8 * (r & 1) : 0, k = (halves ? r >> 1 : r) * 4 * each;
        for (int lane = 0; lane < warp_size; ++lane) {
            uint32_t (*const to)[rows] = out + k + lane % 4 * each;
            for (int e = 0; e < each; ++e) to[e][row + lane / 4] = word[lane] >> (bits * e) & mask;
        }
    }
}

template <int rows>
void gather(Warp& w, const Locator* registers, int count, int bits, bool halves,
            uint32_t (*out)[rows]) {
    switch (bits) {
        case 16:
            return gather<16, rows>(w, registers, count, halves, out);
        case 8:
            return gather<8, rows>(w, registers, count, halves, out);
        case 4:
            return gather<4, rows>(w, registers, count, halves, out);
        default:
            // Elements of 32 bits. A word of 32 single bits is handled as one element.
            return gather<32, rows>(w, registers, count, halves, out);
    }
}

inline void gather_sums(Warp& w, const Locator* registers, int count, Element type, Tile& t) {
    for (int r = 0; r < count; ++r) {
        const uint32_t* const word = w.lanes<const uint32_t>(registers[r]);
        for (int lane = 0; lane < warp_size; ++lane) {
            const int row = lane / 4, column = 2 * (lane % 4);
            if (type == Element::f16) {
                t.c[column][row + 8 * r] = word[lane] & 0xffff;
                t.c[column + 1][row + 8 * r] = word[lane] >> 16;
            } else {
                t.c[column + (r & 1)][row + 8 * (r >> 1)] = word[lane];
            }
        }
    }
}

inline void scatter_sums(Warp& w, const Locator* registers, int count, Element type,
                         const Tile& t) {
    for (int r = 0; r < count; ++r) {
        uint32_t* const word = w.lanes<uint32_t>(registers[r]);
        for (int lane = 0; lane < warp_size; ++lane) {
            const int row = lane / 4, column = 2 * (lane % 4);
            word[lane] = type == Element::f16
                             ? t.d[column][row + 8 * r] | t.d[column + 1][row + 8 * r] << 16
                             : t.d[column + (r & 1)][row + 8 * (r >> 1)];
        }
    }
}

inline void must_be_whole(const Warp& w, const Op& op) {
    if (w.mask != all_lanes) throw_part_of_warp(w, op);
}

}  // namespace coalesce::sim::COALESCE_ISA
