// Models which sectors of global memory a copy of the copy engine (TMA) reads or writes.
//
// METHOD
// A copy consists of pieces of adjacent bytes. A bulk copy is one piece, and in a box, each row is
// one. Each sector that a piece touches is transferred as a whole. The part of a row outside the
// array is not written to global memory. In a copy to shared memory, this part becomes zeros. An
// H200 also counts sectors for these zeros: n bytes at one end of a row count as n / 32 sectors,
// rounded up. A multicast delivers the sectors to each of the chosen blocks, but requests each line
// only once.
//
// The model reproduces l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld,
// l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st and the related metrics of an H200 for all
// recorded copies (tests/data/hopper_h200.json, copies_h200.json). recorded() says which forms of
// copies these are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

struct CopyFootprint {
    uint64_t bytes = 0;    // the bytes of the pieces
    uint64_t sectors = 0;  // the sectors that one block gets or writes
    uint64_t lines = 0;    // the lines that these sectors are in, without those of zeros
    uint64_t zeros = 0;    // how many of the sectors have only zeros from outside the array
};

inline CopyFootprint footprint(const sim::CopyEvent& e) {
    const auto sectors_of = [](uint64_t bytes) {
        return (bytes + sector_bytes - 1) / sector_bytes;
    };
    CopyFootprint f;
    for (const sim::CopyPiece& piece : e.pieces) {
        if (!e.stores) f.zeros += sectors_of(piece.before) + sectors_of(piece.after);
        if (piece.bytes == 0) continue;
        const uint64_t last = piece.address + piece.bytes - 1;
        f.bytes += piece.bytes;
        f.sectors += last / sector_bytes - piece.address / sector_bytes + 1;
        f.lines += last / line_bytes - piece.address / line_bytes + 1;
    }
    f.sectors += f.zeros;
    return f;
}

// Returns true if counters of a GPU were recorded for copies of this form. `cluster` is the number
// of blocks of the cluster. The recorded forms are:
// - bulk copies to shared memory, and those of whole lines to global memory;
// - boxes to shared memory whose rows leave the array on at most one side;
// - boxes of arrays of two dimensions to global memory, without a step in the first dimension;
// - multicasts to both blocks of a cluster, of whole lines, and for boxes without a swizzle,
//   without steps, and inside arrays of two dimensions.
inline bool recorded(const sim::CopyEvent& e, uint64_t cluster) {
    const auto whole_lines = [](const sim::CopyPiece& p) {
        return p.bytes > 0 && p.address % line_bytes == 0 && p.bytes % line_bytes == 0 &&
               p.before == 0 && p.after == 0;
    };
    const bool lines = std::ranges::all_of(e.pieces, whole_lines);
    const sim::TensorMap* map = e.map;
    if (e.multicast && (!lines || e.blocks != 2 || cluster != 2)) return false;
    if (!map) return !e.stores || lines;
    if (e.multicast)
        return map->rank == 2 && map->swizzle == sim::Swizzle::none && map->step[0] == 1 &&
               map->step[1] == 1;
    if (e.stores) return map->rank == 2 && map->step[0] == 1;
    return std::ranges::all_of(
        e.pieces, [](const sim::CopyPiece& p) { return p.before == 0 || p.after == 0; });
}

}  // namespace coalesce::model
