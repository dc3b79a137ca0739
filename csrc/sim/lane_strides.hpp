// What a warp has found out about the addresses of a plain run: by how many bytes each lane's
// follows that of the lane before it.
//
// METHOD
// The addresses of a family differ between lanes in the same way (ptx/address_families.hpp), so
// their stride is looked for once and kept until a member is renewed. It is only used, and only
// looked for, while all lanes execute together. A family of which a part of the warp has changed a
// member is not kept again for this warp: its members may now differ in several ways.
#pragma once

#include <cstdint>

#include "ptx/address_families.hpp"

namespace coalesce::sim {

struct LaneStrides {
    // A stride that is none: the lanes' addresses do not follow a rule.
    static constexpr int64_t irregular = INT64_MIN;

    uint64_t known = 0;     // families whose stride is kept
    uint64_t given_up = 0;  // families whose stride must not be kept
    int64_t stride[ptx::AddressFamilies::most];

    [[nodiscard]] bool knows(uint8_t family) const {
        return family != ptx::AddressFamilies::none && (known >> family & 1);
    }
    void keep(uint8_t family, int64_t value) {
        if (family == ptx::AddressFamilies::none || (given_up >> family & 1)) return;
        known |= uint64_t{1} << family;
        stride[family] = value;
    }
    void give_up(uint64_t families) {
        given_up |= families;
        known &= ~families;
    }
    void forget(uint64_t families) { known &= ~families; }
};

}  // namespace coalesce::sim
