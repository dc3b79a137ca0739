// Registers whose lanes differ in the same way, so that facts about one address hold for another.
//
// METHOD
// A value is uniform if it depends only on the launch and the block: parameters, block index,
// constants. All lanes then have the same value, whenever it is computed. The sum of an address and
// a uniform value differs between lanes exactly as the address does. Registers that such sums
// connect form a family. If one member has equal or consecutive addresses, all members do.
//
// If a member gets its value in another way, the differences of the family change. Every other
// member would still have the old differences, so none may be live at that instruction. If this
// cannot be shown, the family is dropped. All this holds for warps whose lanes execute together. If
// only some lanes change a member, the user of the families must no longer rely on this family
// (`changed`).
//
// The literature calls these values affine or uniform (Collange, Defour and Zhang, "Dynamic
// detection of uniform and affine vectors in GPGPU computations", 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/control_flow.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {

struct AddressFamilies {
    static constexpr uint8_t none = UINT8_MAX, most = 64;
    std::vector<uint8_t> of_register;  // one entry for each register: its family, or `none`
    // One entry for each instruction. `changed` has the families with a member that the instruction
    // changes. `renewed` has those of them whose differences between lanes may change.
    std::vector<uint64_t> changed, renewed;
};

// Returns the families of a kernel that contain an address. Functions that are not kernels have
// none.
[[nodiscard]] AddressFamilies address_families(const Function& function,
                                               const std::vector<LiveRange>& ranges);

}  // namespace coalesce::ptx
