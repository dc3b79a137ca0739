// Groups registers into families. In all registers of a family, the differences between the lanes
// are the same. So if the addresses in one register are equal or consecutive in all lanes, those in
// the others are, too, and one test is enough.
//
// METHOD
// A value is uniform if all lanes have the same value, whenever it is computed. It depends only on
// the launch and the block: on parameters, the block index, constants. If a uniform value is added
// to an address, the differences between the addresses of the lanes stay the same. Registers that
// are connected by such additions form a family.
//
// If a member of a family gets its value in another way, the differences of the family change. The
// other members would still have the old differences. So no other member may be live (still needed)
// at that instruction. If this cannot be shown, the family is dropped.
//
// All this holds only while the lanes of a warp execute together. If only some lanes change a
// member, the user of the families must no longer rely on this family (`changed`).
//
// The literature calls these values affine or uniform (Collange, Defour and Zhang, "Dynamic
// detection of uniform and affine vectors in GPGPU computations", 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/data_flow.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {

struct AddressFamilies {
    static constexpr uint8_t none = UINT8_MAX, most = 64;
    std::vector<uint8_t> of_register;  // one entry for each register: its family, or `none`
    // One entry for each instruction, a set of families. `changed` has the families of the
    // registers that the instruction writes. `renewed` has those of them for which the instruction
    // may change the differences between the lanes.
    std::vector<uint64_t> changed, renewed;
};

// Returns the families of a kernel that contain an address. Functions that are not kernels have
// none.
[[nodiscard]] AddressFamilies address_families(const Function& function,
                                               const std::vector<LiveRange>& ranges);

}  // namespace coalesce::ptx
