// What the operations of machine code share: 64-bit values in pairs of registers, tables
// of handlers.
//
// METHOD
// Registers of machine code have 32 bits; a 64-bit value lies in two neighbours, the low words of
// all lanes first. Operations on such pairs join the words as they read them and split the result
// as they write it, which costs a few vector instructions and no copy.
#pragma once

#include <bit>
#include <cstring>

#include "sim/lanewise.hpp"
#include "sim/machine_op.hpp"
#include "sim/predicates.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Words of a register; the next register follows.
constexpr int next_register = warp_size;

template <class T>
inline T joined(const uint32_t* r, int i) {
    return std::bit_cast<T>(uint64_t{r[i]} | uint64_t{r[next_register + i]} << 32);
}

// d = of(lane) for the active lanes. Registers are the same or apart, so lanes do not depend on
// each other, which the compiler cannot know.
template <class F>
inline void put_words(Warp& w, Locator at, F&& of) {
    uint32_t* const d = w.lanes<uint32_t>(at);
    const LaneMask mask = w.mask;
    if (mask == all_lanes) {
#pragma GCC ivdep
        for (int i = 0; i < warp_size; ++i) d[i] = of(i);
        return;
    }
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) {
        const uint32_t value = of(i);
        d[i] = has_lane(mask, i) ? value : d[i];
    }
}

// The same for a pair of registers; of(lane) is a value of 64 bits.
template <class F>
inline void put_pairs(Warp& w, Locator at, F&& of) {
    uint32_t* const d = w.lanes<uint32_t>(at);
    const LaneMask mask = w.mask;
    if (mask == all_lanes) {
#pragma GCC ivdep
        for (int i = 0; i < warp_size; ++i) {
            const uint64_t value = std::bit_cast<uint64_t>(of(i));
            d[i] = uint32_t(value);
            d[next_register + i] = uint32_t(value >> 32);
        }
        return;
    }
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) {
        const uint64_t value = std::bit_cast<uint64_t>(of(i));
        d[i] = has_lane(mask, i) ? uint32_t(value) : d[i];
        d[next_register + i] = has_lane(mask, i) ? uint32_t(value >> 32) : d[next_register + i];
    }
}

struct MachineHandler {
    MachineOp op;
    Handler run;
};

// Whether a table has a handler for each operation from number `first` on.
template <size_t n>
constexpr bool are_in_order(const MachineHandler (&handlers)[n], size_t first) {
    for (size_t i = 0; i < n; ++i) {
        if (handlers[i].op != MachineOp(first + i)) return false;
    }
    return true;
}

// ops_pairs.cpp: the operations on pairs.
Handler select_pair(MachineOp op);

}  // namespace coalesce::sim::COALESCE_ISA
