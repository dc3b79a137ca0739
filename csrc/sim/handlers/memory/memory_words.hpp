// Fast handlers for loads and stores of one, two or four 32-bit words by whole warps. Most memory
// instructions of kernels are of this kind.
//
// METHOD
// If all lanes are active and their addresses have a constant stride, the first address and the
// stride determine all other addresses. So the 32 addresses are not copied, and one check suffices
// for all lanes. The stride is often known already (lane_strides.hpp). It is also part of the event
// for the observers. All other cases, including faults, are left to access_memory() in
// memory_ops.hpp.
#pragma once

#include <cstring>
#include <type_traits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "sim/handlers/arithmetic/pair_strides.hpp"
#include "sim/handlers/memory/memory_ops.hpp"
#include "sim/warp/repetition.hpp"

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
struct AccessedRange {
    uint64_t begin, bytes;
    AccessedRange(uint64_t first, int64_t stride, uint32_t of_lane) {
        const uint64_t rise = uint64_t(stride) * (warp_size - 1);
        begin = stride < 0 ? first + rise : first;
        bytes = (stride < 0 ? 0 - rise : rise) + of_lane;
    }
};
// The largest stride for which these handlers are used. With a larger stride, the end of an
// AccessedRange could exceed 64 bits.
inline constexpr int64_t max_stride = int64_t{1} << 48;

// Returns the stride of a full warp's addresses, if the lanes access words at a constant stride.
template <Watch watch, class A>
inline int64_t stride_of_words(Warp& w, const Op& op, const A* a) {
    const auto find = [&] {
        return op.memory().form == AddressForm::pair
                   ? stride_of_pairs(w.lanes<const uint32_t>(op.operand[5]))
                   : stride_of(a);
    };
    const int64_t stride = watch == Watch::faults ? find() : known_stride(w, op, find);
    return stride < max_stride && stride > -max_stride ? stride : LaneStrides::irregular;
}

// Counts the access, and returns true, if it repeats an access that was announced before
// (repetition.hpp).
template <ptx::Space space, Access access>
inline bool repeats(Warp& w, const Op& op, int64_t stride, uint64_t first) {
    const Repetition* const table =
        space == ptx::Space::shared ? w.shared_repetitions : w.global_repetitions;
    if (!table) return false;
    const Repetition& known = table[op.pc];
    if (!known.is_like(stride, first)) return false;
    ++*known.times;
    if constexpr (space == ptx::Space::shared)
        w.repeated_wavefronts += known.wavefronts;
    else
        w.block->announce->repeated(w.block->observer, w, op, access, stride, first);
    return true;
}

template <Watch watch, ptx::Space space, Access access>
[[gnu::always_inline]] inline void announce_whole(Warp& w, const Op& op, int64_t stride,
                                                  uint64_t first) {
    if constexpr (watch != Watch::nothing) {
        if (watch == Watch::accesses && repeats<space, access>(w, op, stride, first)) return;
        w.block->announce->access(w.block->observer, w,
                                  event_of_words(op, space, access, stride, first));
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
    const AccessedRange span(first, stride, bytes);
    std::byte* host = w.block->shared;
    uint64_t address = 0, size = w.block->shared_bytes;
    if constexpr (space == ptx::Space::global) {
        const Buffer* b = w.block->memory->find(span.begin, span.bytes, w.block->hints[op.pc]);
        if (!b || (access == Access::store && !b->writable)) return {};
        host = b->host, address = b->address, size = b->bytes;
    } else if (!holds(size, span.begin, span.bytes)) {
        return {};
    }
    announce_whole<watch, space, access>(w, op, stride, first);
    const uint64_t before = span.begin - address;
    return {host + (first - address), stride, before, size - before - span.bytes};
}

// Loads one word for each lane. Words are written in pairs, because the host can only write one or
// two numbers per cycle.
inline void load_apart(uint32_t* d, const std::byte* host, int64_t stride) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < warp_size; i += 2) {
        uint32_t x, y;
        std::memcpy(&x, host + i * stride, sizeof x);
        std::memcpy(&y, host + (i + 1) * stride, sizeof y);
        const uint64_t both = x | uint64_t{y} << 32;
        std::memcpy(d + i, &both, sizeof both);
    }
}

// Moves words between memory and neighbouring registers. `d` points to the first register. Two
// words in one aligned group of 8 bytes are moved as one 64-bit number, because in the source they
// may be one number. Another block may access this number at the same time, on another host thread,
// and must never see only half of it.
template <Access access, int words>
inline void move_words(uint32_t* d, std::byte* host, int64_t stride) {
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
        if (stride == consecutive) {
            // Here the stride is a compile-time constant, so the compiler can vectorize the loop.
            move(d, host, consecutive);
        } else if (stride != 0 && access == Access::load && words == 1) {
            load_apart(d, host, stride);
        } else if (stride != 0) {
            move(d, host, stride);
        } else if constexpr (access == Access::load) {
            Unit value;
            std::memcpy(&value, host, sizeof value);
            for (int i = 0; i < warp_size; ++i) d[i] = uint32_t(value);
            if constexpr (words > 1)
                for (int i = 0; i < warp_size; ++i) d[warp_size + i] = uint32_t(value >> 32);
        } else {
            Unit value = d[warp_size - 1];
            if constexpr (words > 1) value |= Unit{d[2 * warp_size - 1]} << 32;
            std::memcpy(host, &value, sizeof value);
        }
        d += warp_size * (sizeof(Unit) / 4);
        host += sizeof(Unit);
    }
}

// Reads the words of all rows from host memory. `first` is the first word of lane 0. On x86, this
// transposes blocks of 4 x 4 words.
inline void read_rows(RowWords& rows, const std::byte* first) {
#if defined(__SSE__)
    for (int i = 0; i < warp_size; i += 4) {
        for (uint32_t n = 0; n < RowWords::of_row; n += 4) {
            __m128 block[4];
            for (int row = 0; row < 4; ++row)
                std::memcpy(&block[row], first + (i + row) * rows.stride + 4 * n, sizeof block[0]);
            _MM_TRANSPOSE4_PS(block[0], block[1], block[2], block[3]);
            for (uint32_t word = 0; word < 4; ++word)
                std::memcpy(&rows.words[n + word][i], &block[word], sizeof block[0]);
        }
    }
#else
    for (int i = 0; i < warp_size; ++i)
        for (uint32_t n = 0; n < RowWords::of_row; ++n)
            std::memcpy(&rows.words[n][i], first + i * rows.stride + 4 * n, sizeof(uint32_t));
#endif
    rows.kept = true;
}

// Loads read-only words with a large stride. Returns false if the words must be loaded in the usual
// way.
inline bool load_from_rows(RowWords& rows, uint32_t* d, const Words& at) {
    constexpr uint64_t bytes = 4 * RowWords::of_row;
    const uint64_t offset = reinterpret_cast<uintptr_t>(at.host) % bytes;
    const std::byte* const first = at.host - offset;
    if (rows.host != first || rows.stride != at.stride) {
        const bool within =
            offset % 4 == 0 && offset <= at.before && bytes - 4 - offset <= at.behind;
        rows.host = within ? first : nullptr;
        rows.stride = at.stride;
        rows.kept = false;
        return false;
    }
    if (!rows.kept) read_rows(rows, first);
    std::memcpy(d, rows.words[offset / 4], sizeof rows.words[0]);
    return true;
}

template <Watch watch, ptx::Space space, Access access, int words>
void access_words(Warp& w, const Op& op) {
    if (w.mask == all_lanes) [[likely]] {
        if (const Words at = find_words<watch, space, access, words>(w, op); at.host) [[likely]] {
            uint32_t* const d = w.lanes<uint32_t>(op.operand[0]);
            if constexpr (watch == Watch::accesses && space == ptx::Space::global &&
                          access == Access::load && words == 1) {
                constexpr int64_t large = 4 * RowWords::of_row;
                if (op.memory().read_only && (at.stride >= large || at.stride <= -large) &&
                    load_from_rows(*w.block->rows, d, at))
                    return;
            }
            if constexpr (space == ptx::Space::global && access == Access::load) {
                constexpr int consecutive = 4 * words;
                if (at.stride == consecutive)
                    w.block->latest_loads[op.pc].prefetch_next<warp_size * consecutive>(
                        at.host, at.before, at.behind);
            }
            return move_words<access, words>(d, at.host, at.stride);
        }
    }
    access_memory<watch, space, access>(w, op);
}

}  // namespace coalesce::sim::COALESCE_ISA
