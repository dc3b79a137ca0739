// A range of simulated addresses for allocations.
//
// Addresses are not reused until all of them have been used, so that the use of a pointer after the
// memory was freed is detected. Then an allocation gets the addresses of freed memory: of the
// smallest that is large enough. For example, a range of 8 TiB has addresses for 8,176 allocations
// of 1 GiB, with gaps of 2 MiB between them. If each is freed before the next one is made, then the
// allocation 8,177 gets the addresses of an earlier one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "round_up.hpp"

namespace coalesce::sim {

struct AddressRange {
    uint64_t begin, end;
    uint64_t unit;  // allocations start at multiples of `unit`, and at multiples of `alignment`
    uint64_t gap;   // at least this number of bytes is between two allocations
    uint64_t next = begin;  // all addresses before it have been used

    // Returns addresses for an allocation, or nothing. `freed` maps the address of freed memory to
    // an object with a member `bytes`. If the result is one of these addresses, it is removed.
    template <class Freed>
    std::optional<uint64_t> take(uint64_t bytes, Freed& freed, uint64_t alignment = 1) {
        const uint64_t start = round_up(next, alignment);
        if (start <= end && bytes + gap <= end - start) {
            next = round_up(start + bytes + gap, unit);
            return start;
        }
        auto best = freed.end();
        uint64_t room_of_best = UINT64_MAX;
        for (auto at = freed.lower_bound(begin); at != freed.lower_bound(end); ++at) {
            const uint64_t room = round_up(std::max<uint64_t>(at->second.bytes, 1), unit);
            if (room < bytes || room >= room_of_best || at->first % alignment != 0) continue;
            best = at;
            room_of_best = room;
        }
        if (best == freed.end()) return {};
        const uint64_t address = best->first;
        freed.erase(best);
        return address;
    }
};

}  // namespace coalesce::sim
