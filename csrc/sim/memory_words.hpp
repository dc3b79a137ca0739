// Loads and stores of words by whole warps: most of what kernels execute.
//
// METHOD
// Where all lanes are active and their addresses are one or follow each other, the address register
// tells all there is to know: no address is copied, and one check does for all lanes. Anything
// else, faults included, is left to access_memory.
#pragma once

#include <cstring>

#include "sim/memory_ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

template <class Observer>
inline void announce_whole(Warp& w, const Op& op, ptx::Space space, Access access, Shape shape,
                           uint64_t first) {
    if constexpr (!std::is_same_v<Observer, SilentObserver>) {
        MemoryEvent event;
        event.pc = op.pc;
        event.space = space;
        event.access = access;
        event.shape = shape;
        event.bytes = op.bytes;
        event.mask = all_lanes;
        event.first = first;
        event.op = &op;
        static_cast<Observer*>(w.block->observer)->access(w, event);
    }
}

// Between register d and the words from `host` on, or the one there.
template <Access access>
inline void move_words(uint32_t* d, std::byte* host, Shape shape) {
    if constexpr (access == Access::load) {
        if (shape == Shape::uniform) {
            uint32_t value;
            std::memcpy(&value, host, 4);
            for (int i = 0; i < warp_size; ++i) d[i] = value;
        } else {
            std::memcpy(d, host, 4 * warp_size);
        }
    } else if (shape == Shape::uniform) {
        std::memcpy(host, &d[warp_size - 1], 4);
    } else {
        std::memcpy(host, d, 4 * warp_size);
    }
}

// 4 bytes a lane of shared memory through a 32-bit address register.
template <class Observer, Access access>
void access_shared_word(Warp& w, const Op& op) {
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
    const Shape shape = shape_of(a, w.mask, 4);
    const uint64_t first = uint32_t(a[0] + uint32_t(op.immediate));
    const uint64_t span = shape == Shape::uniform ? 4 : 4 * warp_size;
    if (shape == Shape::scattered || (first & 3) || first + span > w.block->shared_bytes)
        [[unlikely]] {
        return access_memory<Observer, ptx::Space::shared, access>(w, op);
    }
    announce_whole<Observer>(w, op, ptx::Space::shared, access, shape, first);
    move_words<access>(w.lanes<uint32_t>(op.operand[0]), w.block->shared + first, shape);
}

// The same for what the assembler merged: 8 or 16 bytes a lane into neighbouring registers.
template <class Observer, int words>
void load_shared_words(Warp& w, const Op& op) {
    constexpr uint32_t bytes = 4 * words;
    const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
    const Shape shape = shape_of(a, w.mask, bytes);
    const uint64_t first = uint32_t(a[0] + uint32_t(op.immediate));
    const uint64_t span = shape == Shape::uniform ? bytes : bytes * warp_size;
    if (shape == Shape::scattered || (first & (bytes - 1)) || first + span > w.block->shared_bytes)
        return access_memory<Observer, ptx::Space::shared, Access::load>(w, op);
    announce_whole<Observer>(w, op, ptx::Space::shared, Access::load, shape, first);
    const std::byte* const host = w.block->shared + first;
    uint32_t* const d = w.lanes<uint32_t>(op.operand[0]);
    for (int n = 0; n < words; ++n) {
        const std::byte* const from = host + 4 * size_t(n);
        uint32_t* const to = d + n * warp_size;
        if (shape == Shape::uniform) {
            uint32_t value;
            std::memcpy(&value, from, 4);
            for (int i = 0; i < warp_size; ++i) to[i] = value;
        } else {
            for (int i = 0; i < warp_size; ++i) std::memcpy(&to[i], from + size_t(i) * bytes, 4);
        }
    }
}

// The shape of addresses in pairs of registers, by their lower words where the upper ones agree.
inline Shape shape_of_pairs(const uint32_t* a, LaneMask mask, uint32_t bytes) {
    const uint32_t* const upper = a + warp_size;
    uint32_t different = 0;
    for (int i = 0; i < warp_size; ++i) different |= upper[i] ^ upper[0];
    if (different || a[0] > UINT32_MAX - bytes * warp_size) return Shape::scattered;
    return shape_of(a, mask, bytes);
}

// 4 bytes a lane of global memory through a 64-bit address register or a pair of registers.
template <class Observer, Access access>
void access_global_word(Warp& w, const Op& op) {
    Shape shape;
    uint64_t first;
    if (op.split_address) {
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
        shape = shape_of_pairs(a, w.mask, 4);
        first = a[0] | uint64_t{a[warp_size]} << 32;
    } else {
        const uint64_t* a = w.lanes<const uint64_t>(op.operand[5]);
        shape = shape_of(a, w.mask, 4);
        first = a[0];
    }
    first += uint64_t(op.immediate);
    if (shape != Shape::scattered && !(first & 3)) [[likely]] {
        const uint64_t span = shape == Shape::uniform ? 4 : 4 * warp_size;
        const Buffer* b = w.block->memory->find(first, span, w.block->hints[op.pc]);
        if (b && (access == Access::load || b->writable)) [[likely]] {
            announce_whole<Observer>(w, op, ptx::Space::global, access, shape, first);
            std::byte* const host = b->host + (first - b->address);
            return move_words<access>(w.lanes<uint32_t>(op.operand[0]), host, shape);
        }
    }
    access_memory<Observer, ptx::Space::global, access>(w, op);
}

}  // namespace coalesce::sim::COALESCE_ISA
