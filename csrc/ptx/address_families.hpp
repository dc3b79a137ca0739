// Addresses that lie alike in a warp: known beforehand to differ between its lanes in the same way.
//
// METHOD
// A value that depends on nothing but the launch and the block (parameters, block index, constants)
// is one in all lanes, whenever it is computed. Adding it to an address moves the addresses of all
// lanes alike: how they differ from lane to lane stays. So registers connected by such sums form a
// family, and who has looked at the addresses of one member (are they equal? consecutive?) knows
// those of all.
//
// A family's lanes differ anew where a member gets a value in another way. No other member may be
// needed at that instruction, or it would still have the old differences; a family for which that
// cannot be shown is given up. Everything holds for warps whose lanes execute together: where only
// some of them change a member, whoever uses the families has to give this one up (`changed`).
//
// Known in the literature as affine or uniform values of SIMT programs (Collange, Defour and Zhang,
// "Dynamic detection of uniform and affine vectors in GPGPU computations", 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/control_flow.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {

struct AddressFamilies {
    static constexpr uint8_t none = UINT8_MAX, most = 64;
    std::vector<uint8_t> of_register;  // its family, or none
    // By instruction, sets of families: those of which it changes a member, and among them those
    // whose lanes may differ in another way from then on.
    std::vector<uint64_t> changed, renewed;
};

// Of a kernel; of any other function there are none. Families of no address are left out.
[[nodiscard]] AddressFamilies address_families(const Function& function,
                                               const std::vector<LiveRange>& ranges);

}  // namespace coalesce::ptx
