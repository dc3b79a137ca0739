// Groups registers into families. A register has one value in each lane. In all registers of a
// family, the differences between the values of the lanes are the same. So if the addresses in one
// register of a family are equal or consecutive, the addresses in its other registers are, too. One
// test is enough for the whole family.
//
// METHOD
// A value is uniform if it is the same in all lanes, every time that it is computed. Such a value
// depends only on the launch and the block: on parameters, the block index, and constants. If a
// uniform value is added to an address, the differences between the addresses of the lanes stay the
// same. Registers that are connected by such additions form a family.
//
// If a register of a family gets its value in another way, its differences change. The other
// registers of the family still have the old differences. So none of the others may be live (still
// needed) at that instruction. If this cannot be shown, the family is dropped.
//
// All this holds only while the lanes of a warp execute together. If only some lanes change a
// register of a family, code that uses the families must no longer rely on this family (`changed`).
//
// The literature calls these values affine or uniform (Collange, Defour and Zhang, "Dynamic
// detection of uniform and affine vectors in GPGPU computations", 2009).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ptx/module.hpp"
#include "sim/ptx_analysis/data_flow.hpp"
#include "sim/ptx_analysis/traits.hpp"

namespace coalesce::sim {

struct AddressFamilies {
    static constexpr uint8_t none = UINT8_MAX, most = 64;
    std::vector<uint8_t> of_register;  // one entry for each register: its family, or `none`
    // One entry for each instruction; each entry is a set of families. `changed` has the families
    // of the registers that the instruction writes. `renewed` has only those families of `changed`
    // for which the instruction may also change the differences between the lanes.
    std::vector<uint64_t> changed, renewed;
};

// Returns the families of a kernel. A family is returned only if one of its registers holds the
// address of a memory access. For a function that is not a kernel, there are no families. `traits`
// has an entry for each instruction of the body, and `ranges` an entry for each register.
[[nodiscard]] AddressFamilies address_families(const ptx::Function& function,
                                               std::span<const Traits> traits,
                                               const std::vector<LiveRange>& ranges);

}  // namespace coalesce::sim
