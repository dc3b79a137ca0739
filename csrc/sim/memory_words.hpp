// Loads and stores of one, two or four words by whole warps: most of what kernels execute.
//
// METHOD
// Where all lanes are active and their addresses are one or follow each other, the address register
// tells all there is to know: no address is copied, and one check does for all lanes. Anything
// else, faults included, is left to access_memory.
#pragma once

#include <cstring>

#include "sim/memory_ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

template <Watch watch>
inline void announce_whole(Warp& w, const Op& op, ptx::Space space, Access access, Shape shape,
                           uint64_t first) {
    if constexpr (watch != Watch::nothing) {
        MemoryEvent event;
        event.pc = op.pc;
        event.space = space;
        event.access = access;
        event.shape = shape;
        event.bytes = op.bytes;
        event.mask = all_lanes;
        event.first = first;
        event.op = &op;
        w.block->announce->access(w.block->observer, w, event);
    }
}

// Between neighbouring registers from d on and the words of each lane from `host` on, or those
// there.
template <Access access, int words>
inline void move_words(uint32_t* d, std::byte* host, Shape shape) {
    constexpr size_t stride = 4 * words;
    for (int n = 0; n < words; ++n, d += warp_size, host += 4) {
        if constexpr (access == Access::load) {
            if (shape == Shape::uniform) {
                uint32_t value;
                std::memcpy(&value, host, 4);
                for (int i = 0; i < warp_size; ++i) d[i] = value;
            } else {
#pragma GCC ivdep
                for (size_t i = 0; i < warp_size; ++i) std::memcpy(&d[i], host + i * stride, 4);
            }
        } else if (shape == Shape::uniform) {
            std::memcpy(host, &d[warp_size - 1], 4);
        } else {
#pragma GCC ivdep
            for (size_t i = 0; i < warp_size; ++i) std::memcpy(host + i * stride, &d[i], 4);
        }
    }
}

// Of shared memory, through a 32-bit address register.
template <Watch watch, Access access, int words>
void access_shared_words(Warp& w, const Op& op) {
    constexpr uint32_t bytes = 4 * words;
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
    const Shape shape = shape_of(a, w.mask, bytes);
    const uint64_t first = uint32_t(a[0] + uint32_t(op.immediate));
    const uint64_t span = shape == Shape::uniform ? bytes : bytes * warp_size;
    if (shape == Shape::scattered || (first & (bytes - 1)) || first + span > w.block->shared_bytes)
        [[unlikely]] {
        return access_memory<watch, ptx::Space::shared, access>(w, op);
    }
    announce_whole<watch>(w, op, ptx::Space::shared, access, shape, first);
    move_words<access, words>(w.lanes<uint32_t>(op.operand[0]), w.block->shared + first, shape);
}

// The shape of addresses in pairs of registers, by their lower words where the upper ones agree.
inline Shape shape_of_pairs(const uint32_t* a, LaneMask mask, uint32_t bytes) {
    const uint32_t* const upper = a + warp_size;
    uint32_t different = 0;
    for (int i = 0; i < warp_size; ++i) different |= upper[i] ^ upper[0];
    if (different || a[0] > UINT32_MAX - bytes * warp_size) return Shape::scattered;
    return shape_of(a, mask, bytes);
}

// Of global memory, through a 64-bit address register or a pair of registers.
template <Watch watch, Access access, int words>
void access_global_words(Warp& w, const Op& op) {
    constexpr uint32_t bytes = 4 * words;
    Shape shape;
    uint64_t first;
    if (op.split_address) {
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
        shape = shape_of_pairs(a, w.mask, bytes);
        first = a[0] | uint64_t{a[warp_size]} << 32;
    } else {
        const uint64_t* a = w.lanes<const uint64_t>(op.operand[5]);
        shape = shape_of(a, w.mask, bytes);
        first = a[0];
    }
    first += uint64_t(op.immediate);
    if (shape != Shape::scattered && !(first & (bytes - 1))) [[likely]] {
        const uint64_t span = shape == Shape::uniform ? bytes : bytes * warp_size;
        const Buffer* b = w.block->memory->find(first, span, w.block->hints[op.pc]);
        if (b && (access == Access::load || b->writable)) [[likely]] {
            announce_whole<watch>(w, op, ptx::Space::global, access, shape, first);
            std::byte* const host = b->host + (first - b->address);
            return move_words<access, words>(w.lanes<uint32_t>(op.operand[0]), host, shape);
        }
    }
    access_memory<watch, ptx::Space::global, access>(w, op);
}

}  // namespace coalesce::sim::COALESCE_ISA
