// Remembers the strides of addresses, so that they need not be computed for every access. The
// stride is the distance between the addresses of neighbouring lanes, if it is the same for all of
// them. Plain runs of PTX (runs without observers) use this, and all runs of machine code.
//
// METHOD
// A family is a group of registers with addresses that differ between lanes in the same way
// (sim/ptx_analysis/address_families.hpp). All registers of a family have the same stride. In
// machine code, each address register is a family of its own. But if an address is the sum of
// another address and a value that is the same in all lanes, its family gets the stride of the
// other one (WideSum). The stride is determined once for a family, and kept until a register of the
// family gets a new value. Strides are determined only while all lanes execute together. If only a
// part of the warp changes a register of the family, the registers of the family may then have
// different strides. So the stride of this family is not used again for this warp.
#pragma once

#include <cstdint>

#include "sim/ptx_analysis/address_families.hpp"

namespace coalesce::sim {

// The strides that one warp remembers.
struct LaneStrides {
    // The value of a stride if the addresses of the lanes have no common stride.
    static constexpr int64_t irregular = INT64_MIN;

    uint64_t known = 0;     // a bit for each family whose stride is known
    uint64_t given_up = 0;  // a bit for each family whose stride must not be used again
    int64_t stride[AddressFamilies::most];

    [[nodiscard]] bool knows(uint8_t family) const {
        return family != AddressFamilies::none && (known >> family & 1);
    }
    void keep(uint8_t family, int64_t value) {
        if (family == AddressFamilies::none || (given_up >> family & 1)) return;
        known |= uint64_t{1} << family;
        stride[family] = value;
    }
    // Returns the stride of a family. If it is not known, or no longer valid (`renewed`), calls
    // find() to determine it, and stores it.
    template <class Find>
    int64_t of(uint8_t family, bool renewed, Find&& find) {
        if (knows(family) && !renewed) return stride[family];
        const int64_t found = find();
        keep(family, found);
        return found;
    }
    void give_up(uint64_t families) {
        given_up |= families;
        known &= ~families;
    }
    void forget(uint64_t families) { known &= ~families; }
};

}  // namespace coalesce::sim
