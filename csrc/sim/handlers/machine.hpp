// Helpers for the handlers of machine code (machine.cpp, pairs.cpp). They read and write
// 64-bit values in pairs of registers. They also check that the tables of handlers have the order
// of MachineOp.
//
// METHOD
// Registers of machine code have 32 bits. A 64-bit value is in two adjacent registers, called a
// pair. The first register has the low words of all lanes, and the second has the high words. An
// operation on pairs combines the two words of a lane when it reads a value, and splits the result
// when it writes a value. This takes a few vector instructions and no copy.
#pragma once

#include <bit>
#include <cstring>

#include "sim/handlers/lane_tests.hpp"
#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/predicates.hpp"
#include "sim/program/machine_op.hpp"

namespace coalesce::sim::COALESCE_ISA {

// The distance in words from one register to the next.
constexpr int next_register = warp_size;

template <class T>
inline T joined(const uint32_t* r, int i) {
    return std::bit_cast<T>(uint64_t{r[i]} | uint64_t{r[next_register + i]} << 32);
}

// Sets d = of(lane) for the active lanes. The compiler has to assume that d may overlap with
// the source registers, and would not vectorize the loops. In fact, two registers are either the
// same or do not overlap, so the lanes are independent. `ivdep` tells this to the compiler.
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

// Both words of a 64-bit value.
struct WordPair {
    uint32_t low, high;
};

// Like the function above, but for a pair of registers: of(lane) returns both words. The compiler
// then computes integers with 32 bits per lane, which is faster than with 64.
template <class F>
inline void put_word_pairs(Warp& w, Locator at, F&& of) {
    uint32_t* const d = w.lanes<uint32_t>(at);
    const LaneMask mask = w.mask;
    if (mask == all_lanes) {
#pragma GCC ivdep
        for (int i = 0; i < warp_size; ++i) {
            const WordPair value = of(i);
            d[i] = value.low;
            d[next_register + i] = value.high;
        }
        return;
    }
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) {
        const WordPair value = of(i);
        d[i] = has_lane(mask, i) ? value.low : d[i];
        d[next_register + i] = has_lane(mask, i) ? value.high : d[next_register + i];
    }
}

// The same for an `of` that returns a 64-bit value.
template <class F>
inline void put_pairs(Warp& w, Locator at, F&& of) {
    put_word_pairs(w, at, [&](int i) {
        const uint64_t value = std::bit_cast<uint64_t>(of(i));
        return WordPair{uint32_t(value), uint32_t(value >> 32)};
    });
}

// A row of a table of handlers.
struct MachineHandler {
    MachineOp op;
    Handler run;
};

// Returns true if the table has a handler for each operation from number `first` on, in order.
template <size_t n>
constexpr bool are_in_order(const MachineHandler (&handlers)[n], size_t first) {
    for (size_t i = 0; i < n; ++i) {
        if (handlers[i].op != MachineOp(first + i)) return false;
    }
    return true;
}

// Returns the handler of an operation on pairs. It is defined in arithmetic/pairs.cpp.
Handler select_pair(MachineOp op);

}  // namespace coalesce::sim::COALESCE_ISA
