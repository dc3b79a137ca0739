// Fast handlers for loads and stores of one, two or four 32-bit words by whole warps. Most memory
// instructions of kernels are of this kind.
//
// METHOD
// If all lanes are active and their addresses have a constant stride, the first address and the
// stride determine all other addresses. So the 32 addresses are not copied, and one check suffices
// for all lanes. A plain run (a run without observers) usually knows the stride already
// (lane_strides.hpp). In other runs, the stride is also part of the event for the observers. All
// other cases, including faults, are left to access_memory() in memory_ops.hpp.
#pragma once

#include <cstring>
#include <type_traits>

#include "sim/memory_ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

// The host memory that a full warp accesses at a constant stride, starting with the words of lane
// 0.
struct Words {
    std::byte* host = nullptr;  // null if the words cannot be moved in this way
    int64_t stride = 0;         // the distance in bytes between neighbouring lanes
    // The numbers of bytes of the same memory before the first word and after the last word.
    uint64_t before = 0, behind = 0;
};

// The memory that the 32 lanes of a warp access: lane i accesses `bytes` bytes at the address
// `first` + i * `stride`.
struct Span {
    uint64_t begin, bytes;
    Span(uint64_t first, int64_t stride, uint32_t of_lane) {
        const uint64_t rise = uint64_t(stride) * (warp_size - 1);
        begin = stride < 0 ? first + rise : first;
        bytes = (stride < 0 ? 0 - rise : rise) + of_lane;
    }
};
// The largest stride for which these handlers are used. With a larger stride, the end of a Span
// could exceed 64 bits.
inline constexpr int64_t most_stride = int64_t{1} << 48;

// Returns the stride of addresses that are in pairs of 32-bit registers. If the stride is not
// constant, or if the upper words of the addresses are not all equal, returns `irregular`.
inline int64_t stride_of_pairs(const uint32_t* a) {
    const uint32_t* const upper = a + warp_size;
    uint32_t different = 0;
    for (int i = 0; i < warp_size; ++i) different |= upper[i] ^ upper[0];
    if (different) return LaneStrides::irregular;
    const int64_t stride = stride_of(a);
    if (stride == LaneStrides::irregular) return stride;
    const int64_t last = a[0] + stride * (warp_size - 1);
    return last >= 0 && last <= UINT32_MAX ? stride : LaneStrides::irregular;
}

// Returns the stride of a full warp's addresses, if the lanes access words at a constant stride.
template <Watch watch, class A>
inline int64_t stride_of_words(Warp& w, const Op& op, const A* a) {
    if (op.memory().form == AddressForm::pair)
        return stride_of_pairs(w.lanes<const uint32_t>(op.operand[5]));
    const int64_t stride = watch == Watch::nothing ? known_stride(w, op, a) : stride_of(a);
    return stride < most_stride && stride > -most_stride ? stride : LaneStrides::irregular;
}

template <Watch watch>
inline void announce_whole(Warp& w, const Op& op, ptx::Space space, Access access, int64_t stride,
                           uint64_t first) {
    if constexpr (watch != Watch::nothing) {
        MemoryEvent event;
        event.pc = op.pc;
        event.space = space;
        event.access = access;
        event.bytes = op.memory().bytes;
        event.shape = shape_of_stride(stride, event.bytes);
        event.mask = all_lanes;
        event.first = first;
        event.stride = stride;
        event.op = &op;
        w.block->announce->access(w.block->observer, w, event);
    }
}

// Finds the words that a full warp accesses. For shared memory, the address register has 32 bits.
// For global memory, it has 64 bits, or it is a pair of 32-bit registers.
template <Watch watch, ptx::Space space, Access access, int words>
inline Words find_words(Warp& w, const Op& op) {
    constexpr uint32_t bytes = 4 * words;
    int64_t stride;
    uint64_t first;
    if constexpr (space == ptx::Space::shared) {
        const uint32_t* a = w.lanes<const uint32_t>(op.operand[5]);
        stride = stride_of_words<watch>(w, op, a);
        first = uint32_t(a[0] + uint32_t(op.memory().offset));
    } else {
        const uint64_t* a = w.lanes<const uint64_t>(op.operand[5]);
        const uint32_t* pair = w.lanes<const uint32_t>(op.operand[5]);
        stride = stride_of_words<watch>(w, op, a);
        first = op.memory().form == AddressForm::pair ? pair[0] | uint64_t{pair[warp_size]} << 32
                                                      : a[0];
        first += uint64_t(op.memory().offset);
    }
    if (stride == LaneStrides::irregular || ((first | uint64_t(stride)) & (bytes - 1))) return {};
    const Span span(first, stride, bytes);
    std::byte* host = w.block->shared;
    uint64_t address = 0, size = w.block->shared_bytes;
    if constexpr (space == ptx::Space::global) {
        const Buffer* b = w.block->memory->find(span.begin, span.bytes, w.block->hints[op.pc]);
        if (!b || (access == Access::store && !b->writable)) return {};
        host = b->host, address = b->address, size = b->bytes;
    } else if (!holds(size, span.begin, span.bytes)) {
        return {};
    }
    announce_whole<watch>(w, op, space, access, stride, first);
    const uint64_t before = span.begin - address;
    return {host + (first - address), stride, before, size - before - span.bytes};
}

// Moves words between memory and neighbouring registers. `d` points to the first register. Two
// words in one aligned group of 8 bytes are moved as one 64-bit number, because in the source they
// may be one number. Another block may access this number at the same time, on another host thread,
// and must never see only half of it.
template <Access access, int words>
inline void move_words(uint32_t* d, Words at) {
    using Unit = std::conditional_t<words == 1, uint32_t, uint64_t>;
    const auto move = [](uint32_t* d, std::byte* host, int64_t stride) {
#pragma GCC ivdep
        for (int64_t i = 0; i < warp_size; ++i) {
            Unit value;
            if constexpr (access == Access::load) {
                std::memcpy(&value, host + i * stride, sizeof value);
                d[i] = uint32_t(value);
                if constexpr (words > 1) d[warp_size + i] = uint32_t(value >> 32);
            } else {
                value = d[i];
                if constexpr (words > 1) value |= Unit{d[warp_size + i]} << 32;
                std::memcpy(host + i * stride, &value, sizeof value);
            }
        }
    };
    constexpr int64_t consecutive = 4 * words;
    for (int n = 0; n < words; n += sizeof(Unit) / 4) {
        if (at.stride == consecutive) {
            // Here the stride is a compile-time constant, so the compiler can vectorize the loop.
            move(d, at.host, consecutive);
        } else if (at.stride != 0) {
            move(d, at.host, at.stride);
        } else if constexpr (access == Access::load) {
            Unit value;
            std::memcpy(&value, at.host, sizeof value);
            for (int i = 0; i < warp_size; ++i) d[i] = uint32_t(value);
            if constexpr (words > 1)
                for (int i = 0; i < warp_size; ++i) d[warp_size + i] = uint32_t(value >> 32);
        } else {
            Unit value = d[warp_size - 1];
            if constexpr (words > 1) value |= Unit{d[2 * warp_size - 1]} << 32;
            std::memcpy(at.host, &value, sizeof value);
        }
        d += warp_size * (sizeof(Unit) / 4);
        at.host += sizeof(Unit);
    }
}

template <Watch watch, ptx::Space space, Access access, int words>
void access_words(Warp& w, const Op& op) {
    if (w.mask == all_lanes) [[likely]] {
        if (const Words at = find_words<watch, space, access, words>(w, op); at.host) [[likely]]
            return move_words<access, words>(w.lanes<uint32_t>(op.operand[0]), at);
    }
    access_memory<watch, space, access>(w, op);
}

}  // namespace coalesce::sim::COALESCE_ISA
