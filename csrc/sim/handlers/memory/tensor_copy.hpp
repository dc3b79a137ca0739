// Executes cp.async.bulk.tensor. It copies a box between shared memory and an array in global
// memory. A box is a rectangular part of the array, which a tensor map describes.
//
// METHOD
// As for other bulk copies (mbarrier.hpp), a copy to shared memory is checked when it is
// issued, and performed when a thread tests the mbarrier of the copy. A copy to global memory is
// performed at once. A box is copied row by row. In each row, only the elements inside the array
// are accessed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/handlers/memory/mbarrier.hpp"
#include "sim/program/tensor_map.hpp"

namespace coalesce::sim::COALESCE_ISA {

// The address of a box in shared memory is a multiple of this number.
inline constexpr uint32_t box_alignment = 128;

// Returns the tensor map at lane i's address, which is in a kernel parameter, or in global or
// constant memory.
inline TensorMap tensor_map_of(Warp& w, const Op& op, int i, uint32_t rank) {
    read_addresses(w, op);
    const uint64_t address = w.address[i];
    if (address % tensor_map_alignment != 0)
        throw_misuse(w, op, i, "the address of a tensor map must be a multiple of 64 bytes");
    const std::byte* bytes = nullptr;
    const std::vector<std::byte>& parameters = w.block->launch->parameters;
    if (address - param_window < window_bytes) {
        if (holds(parameters.size(), address - param_window, tensor_map_bytes))
            bytes = parameters.data() + (address - param_window);
    } else {
        uint16_t hint = 0;
        if (const Buffer* b = w.block->memory->find(address, tensor_map_bytes, hint))
            bytes = b->host + (address - b->address);
    }
    if (bytes == nullptr)
        throw_misuse(w, op, i,
                     "there is no tensor map at this address; pass it as a parameter "
                     "`const __grid_constant__`, or keep it in constant or global memory");
    const std::optional<TensorMap> map = tensor_map_in(bytes);
    if (!map)
        throw_misuse(w, op, i,
                     "the 128 bytes at this address are not a tensor map that the simulator made; "
                     "make it with cuTensorMapEncodeTiled in a program that coalesce runs");
    if (map->rank != rank)
        throw_misuse(w, op, i, "the tensor map has # dimensions, but the instruction is for #",
                     {map->rank, rank});
    return *map;
}

// Calls visit(global address, skipped bytes, bytes) for each row of a lane's box. The address and
// `bytes` describe the part of the row that is inside the array. `skipped bytes` is the number of
// bytes of the row before this part.
template <class F>
inline void for_each_row(Warp& w, const Op& op, const TensorCopy& copy, const TensorMap& map, int i,
                         F&& visit) {
    int64_t at[max_dimensions];
    for (uint32_t d = 0; d < map.rank; ++d) at[d] = w.lanes<const int32_t>(copy.coordinate[d])[i];
    const int64_t item = bytes_of(map.element), extent = int64_t(map.extent[0]);
    if (at[0] * item % int64_t{bulk_unit} != 0) throw_misaligned_box(w, op, i, at[0], item);
    const int64_t first = std::clamp<int64_t>(-at[0], 0, map.box[0]);
    const int64_t last = std::clamp<int64_t>(extent - at[0], first, map.box[0]);
    for (uint64_t row = 0, rows = map.rows(); row < rows; ++row) {
        uint64_t address = map.address + uint64_t((at[0] + first) * item), rest = row;
        bool inside = last > first;
        for (uint32_t d = 1; d < map.rank; ++d) {
            const int64_t x = at[d] + int64_t(rest % map.copied(d) * map.step[d]);
            rest /= map.copied(d);
            inside = inside && x >= 0 && x < int64_t(map.extent[d]);
            address += uint64_t(x) * map.stride[d];
        }
        if (!visit(address, uint32_t(first * item), inside ? uint32_t((last - first) * item) : 0))
            return;
    }
}

// Announces one lane's accesses to adjacent bytes to checkers.
template <Watch watch>
inline void announce_bytes(Warp& w, const Op& op, ptx::Space space, Access access, int lane,
                           uint64_t address, uint32_t bytes) {
    if constexpr (watch == Watch::faults)
        with_only_lane(w, lane, [&] {
            for (uint32_t at = 0; at < bytes; at += bulk_unit)
                announce_lane<watch>(w, op, space, access, lane, address + at,
                                     uint8_t(std::min(bulk_unit, bytes - at)));
        });
}

// Finds the rows of lane i's box in global memory, and the address of the box in shared memory.
// Stores both in `box`. Returns false if a fault was announced.
template <Watch watch>
inline bool find_box(Warp& w, const Op& op, const TensorCopy& copy, const TensorMap& map, int i,
                     Access global_access, TensorBox& box) {
    const auto refuse = [&](Access access, ptx::Space space, Fault why, uint64_t address) {
        w.address[i] = address;
        fault<watch>(w, op, access, space, why, 1u << i);
        return false;
    };
    const uint64_t shared = shared_place(w, copy.shared, copy.shared_offset, copy.narrow_shared, i);
    if (shared % box_alignment != 0)
        throw_misuse(
            w, op, i,
            "a box must lie at a multiple of 128 bytes in shared memory; it lies at byte #",
            {shared});
    box.row_bytes = map.row_bytes();
    box.row_pitch = map.row_pitch();
    box.swizzle = map.swizzle;
    box.element = map.element;
    box.nan = map.nan;
    const bool stores = global_access == Access::store;
    if (!holds(w.block->shared_bytes, shared, map.rows() * box.row_pitch))
        return refuse(stores ? Access::load : Access::store, ptx::Space::shared, Fault::outside,
                      std::max<uint64_t>(shared, w.block->shared_bytes));
    box.start = uint32_t(shared);
    box.reserved = w.block->program->reserved_shared;
    bool valid = true;
    uint16_t hint = w.block->hints[op.pc];
    for_each_row(w, op, copy, map, i, [&](uint64_t address, uint32_t skipped, uint32_t row_bytes) {
        TensorBox::Row row{nullptr, skipped, row_bytes, address};
        if (row_bytes > 0) {
            const Buffer* b = w.block->memory->find(address, row_bytes, hint);
            if (!b) {
                const Buffer* start = w.block->memory->find(address, 1, hint);
                valid = refuse(global_access, ptx::Space::global, Fault::outside,
                               start ? start->end() : address);
                return false;
            }
            if (stores && !b->writable) {
                valid = refuse(global_access, ptx::Space::global, Fault::read_only, address);
                return false;
            }
            row.source = b->host + (address - b->address);
            if constexpr (watch == Watch::faults) {
                // In copies to global memory, checkers treat two neighbouring bytes as one unit. If
                // the elements have one byte, a row may begin or end in the middle of such a unit.
                // These half units are not announced.
                const bool odd = stores && bytes_of(map.element) == 1;
                const uint32_t before = odd ? uint32_t(address % 2) : 0;
                const uint32_t seen = odd ? (row_bytes - before) / 2 * 2 : row_bytes;
                announce_bytes<watch>(w, op, ptx::Space::global, global_access, i, address + before,
                                      seen);
            }
        }
        box.rows.push_back(row);
        return true;
    });
    w.block->hints[op.pc] = hint;
    return valid;
}

// Announces the parts of a box in shared memory to checkers.
template <Watch watch>
inline void announce_box(Warp& w, const Op& op, Access access, int lane, const TensorBox& box) {
    if constexpr (watch == Watch::faults)
        with_only_lane(w, lane, [&] {
            for (size_t row = 0; row < box.rows.size(); ++row)
                for (uint32_t part = 0; part < box.row_bytes; part += bulk_unit)
                    announce_lane<watch>(w, op, ptx::Space::shared, access, lane,
                                         box.place_of(row, part), bulk_unit);
        });
}

// Announces the copy of a box to observers that do not listen to faults. `e` describes the copy,
// but its pieces are still missing. This function adds them.
template <Watch watch>
inline void announce_rows(Warp& w, const TensorBox& box, CopyEvent e) {
    if constexpr (watch == Watch::accesses) {
        std::vector<CopyPiece> pieces;
        for (const TensorBox::Row& row : box.rows)
            pieces.push_back({row.address, row.bytes, row.bytes ? row.skipped : box.row_bytes,
                              row.bytes ? box.row_bytes - row.skipped - row.bytes : 0});
        e.pieces = pieces;
        announce_copy<watch>(w, e);
    }
}

// Copies the box for one block. `to` is the issuing block, or another block of its cluster
// (multicast).
template <Watch watch>
inline void start_box(Warp& w, const Op& op, int i, uint32_t bytes, uint32_t barrier,
                      const TensorBox& box) {
    if (!check_mbarrier_of_copy<watch>(w, op, i, barrier)) return;
    announce_box<watch>(w, op, Access::async_copy, i, box);
    w.block->bulk_copies.push_back({op.pc, w.index, uint32_t(i), bytes, barrier, box.start, nullptr,
                                    store_box(*w.block, box)});
}

template <Watch watch>
void box_to_shared(Warp& w, const Op& op) {
    const TensorCopy& copy = w.block->program->tensor_copies[op.get<TensorCopyOperand>().index];
    for_each_lane(w.mask, [&](int i) {
        const TensorMap map = tensor_map_of(w, op, i, copy.rank);
        TensorBox box;
        if (!find_box<watch>(w, op, copy, map, i, Access::async_copy, box)) return;
        const uint32_t barrier =
            uint32_t(shared_place(w, copy.barrier, copy.barrier_offset, copy.narrow_barrier, i));
        const uint32_t bytes = uint32_t(map.rows()) * box.row_bytes;
        CopyEvent event{.pc = op.pc, .map = &map};
        if (copy.blocks == no_operand) {
            announce_rows<watch>(w, box, event);
            start_box<watch>(w, op, i, bytes, barrier, box);
            return;
        }
        // Each selected block of the cluster gets the box. In each block, the copy is treated as if
        // the warp with the same number in that block had issued it.
        const uint32_t ranks = w.lanes<const uint16_t>(copy.blocks)[i];
        if (!w.block->cluster)
            throw_misuse(w, op, i,
                         "a copy to the blocks of a cluster needs a launch with clusters");
        event.multicast = true;
        event.blocks = uint32_t(std::popcount(ranks));
        announce_rows<watch>(w, box, event);
        for (uint32_t rank = 0; rank < 16; ++rank) {
            if (!(ranks >> rank & 1)) continue;
            Block& to = block_of_rank(w, op, i, rank);
            start_box<watch>(to.warps[w.index], op, i, bytes, barrier, box);
        }
    });
}

template <Watch watch>
void box_to_global(Warp& w, const Op& op) {
    const TensorCopy& copy = w.block->program->tensor_copies[op.get<TensorCopyOperand>().index];
    for_each_lane(w.mask, [&](int i) {
        const TensorMap map = tensor_map_of(w, op, i, copy.rank);
        TensorBox box;
        for (uint32_t d = 0; d < map.rank; ++d)
            if (const int32_t at = w.lanes<const int32_t>(copy.coordinate[d])[i]; at < 0)
                throw_negative_store(w, op, i, d, at);
        if (!find_box<watch>(w, op, copy, map, i, Access::store, box)) return;
        announce_box<watch>(w, op, Access::load, i, box);
        announce_rows<watch>(w, box, {.pc = op.pc, .stores = true, .map = &map});
        std::vector<std::byte> row(box.row_bytes);
        for (size_t n = 0; n < box.rows.size(); ++n) {
            const TensorBox::Row& r = box.rows[n];
            for (uint32_t part = 0; part < box.row_bytes; part += 16)
                std::memcpy(row.data() + part, w.block->shared + box.place_of(n, part), 16);
            if (r.bytes > 0)
                std::memcpy(const_cast<std::byte*>(r.source), row.data() + r.skipped, r.bytes);
        }
    });
}

}  // namespace coalesce::sim::COALESCE_ISA
