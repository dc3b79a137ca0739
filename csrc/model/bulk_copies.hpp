// Models which sectors of global memory a copy of the copy engine (TMA) reads or writes.
//
// METHOD
// A copy consists of pieces of adjacent bytes. A bulk copy is one piece, and in a box, each row is
// one. Each sector that a piece touches is transferred as a whole. Elements outside the array are
// not transferred. A multicast delivers the sectors to each of the chosen blocks, but requests each
// line only once.
//
// The model reproduces l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld,
// l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st and the related metrics of an H200 for all
// recorded copies (tests/data/hopper_h200.json). recorded() says which forms of copies these are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/units.hpp"
#include "sim/memory.hpp"

namespace coalesce::model {

struct CopyFootprint {
    uint64_t bytes = 0;    // the bytes of the pieces
    uint64_t sectors = 0;  // the sectors that one block gets or writes
    uint64_t lines = 0;    // the lines that these sectors are in
};

inline CopyFootprint footprint(const sim::CopyEvent& e) {
    CopyFootprint f;
    for (const sim::CopyPiece& piece : e.pieces) {
        if (piece.bytes == 0) continue;
        const uint64_t last = piece.address + piece.bytes - 1;
        f.bytes += piece.bytes;
        f.sectors += last / sector_bytes - piece.address / sector_bytes + 1;
        f.lines += last / line_bytes - piece.address / line_bytes + 1;
    }
    return f;
}

// Returns true if counters of a GPU were recorded for copies of this form: copies of whole lines,
// and bulk copies of 16 bytes to shared memory. The recorded boxes are inside arrays of two
// dimensions, without a swizzle and without element strides. The recorded multicasts are to both
// blocks of a cluster. `cluster` is the number of blocks of the cluster.
inline bool recorded(const sim::CopyEvent& e, uint64_t cluster) {
    constexpr uint32_t smallest = 16;
    const auto whole_lines = [](const sim::CopyPiece& p) {
        return p.bytes > 0 && p.address % line_bytes == 0 && p.bytes % line_bytes == 0;
    };
    if (e.multicast && (e.blocks != 2 || cluster != 2)) return false;
    if (!e.map)
        return std::ranges::all_of(e.pieces, [&](const sim::CopyPiece& p) {
            return whole_lines(p) || (!e.stores && p.bytes == smallest);
        });
    const sim::TensorMap& map = *e.map;
    return map.rank == 2 && map.swizzle == sim::Swizzle::none && map.step[0] == 1 &&
           map.step[1] == 1 && e.pieces.size() == map.rows() &&
           std::ranges::all_of(e.pieces, [&](const sim::CopyPiece& p) {
               return whole_lines(p) && p.bytes == map.row_bytes();
           });
}

}  // namespace coalesce::model
