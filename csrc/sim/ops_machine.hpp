// What the operations of machine code share: 64-bit values in pairs of registers, handlers by name.
//
// METHOD
// Registers of machine code have 32 bits; a 64-bit value lies in two neighbours, the low words of
// all lanes first. Operations on such pairs join the words as they read them and split the result
// as they write it, which costs a few vector instructions and no copy.
#pragma once

#include <bit>
#include <cstring>
#include <string_view>

#include "sim/lanewise.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Words of a register; the next register follows.
constexpr int next_register = warp_size;

template <class T>
inline T joined(const uint32_t* r, int i) {
    return std::bit_cast<T>(uint64_t{r[i]} | uint64_t{r[next_register + i]} << 32);
}

template <class T>
inline void put_pair(Warp& w, Locator at, const T (&value)[warp_size]) {
    uint32_t* d = w.lanes<uint32_t>(at);
    const LaneMask mask = w.mask;
    if (mask == all_lanes) {
        for (int i = 0; i < warp_size; ++i) {
            const uint64_t v = std::bit_cast<uint64_t>(value[i]);
            d[i] = uint32_t(v);
            d[next_register + i] = uint32_t(v >> 32);
        }
        return;
    }
    for_each_lane(mask, [&](int i) {
        const uint64_t v = std::bit_cast<uint64_t>(value[i]);
        d[i] = uint32_t(v);
        d[next_register + i] = uint32_t(v >> 32);
    });
}

inline void store(Warp& w, Locator at, LaneMask value) {
    if (at == no_operand) return;
    LaneMask& d = w.predicate(at);
    d = (d & ~w.mask) | (value & w.mask);
}

struct Named {
    std::string_view name;
    Handler run;
};

template <size_t n>
Handler handler_named(std::string_view name, const Named (&handlers)[n]) {
    for (const Named& h : handlers) {
        if (h.name == name) return h.run;
    }
    return nullptr;
}

// ops_pairs.cpp: the operations on pairs.
Handler select_pair(std::string_view name);

}  // namespace coalesce::sim::COALESCE_ISA
