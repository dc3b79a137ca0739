// Fills the constant banks for a launch of machine code. A constant bank is read-only memory with
// the arguments and other data of a launch.
//
// Bank 0 starts with data about the launch, which the driver writes on a GPU. The offsets are for
// compute capability 9.0. The meaning of the cluster fields was derived from the code that the
// assembler generates. The fields (offset, contents) are:
//  0x0    extents of the block
//  0xc    extents of the grid
//  0x20   address of the local window
//  0x28   top of a thread's stack
//  0x44   address of a cooperative launch's workspace, in two halves
//  0x6c   value of %reserved_smem_offset_1
//  0xd0   generic address of bank 3
//  0x140  extents of clusters and their number
//  0x198  generic address of the parameters
//  0x210  parameters
// Bank 2 has the compiler's own constants, and bank 3 the module's __constant__ variables. Bank 4
// has addresses of variables and of functions that are not in the cubin, such as vprintf (the
// lifter has filled it: sass/lift.cpp).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

namespace {

// Returns 1 / extent as the bits of a float, rounded up. To divide a block's index by the extent,
// machine code multiplies the index by this number and truncates the product.
uint32_t reciprocal(uint32_t extent) {
    float value = 1.0f / float(extent);
    if (double(value) * extent < 1) value = std::nextafter(value, 2.0f);
    return std::bit_cast<uint32_t>(value);
}

}  // namespace

MachineConstants machine_constants(const Program& program, const GridRun& launch) {
    const MachineCode& code = *program.machine;
    MachineConstants made;
    made.constants = program.constants;
    for (uint32_t b = 0; b < MachineCode::banks; ++b) made.bank[b] = code.bank[b];

    std::vector<std::byte>& first = made.bank[0];
    first.assign(first_parameter, std::byte{0});
    const auto set = [&](uint32_t offset, uint64_t value, size_t bytes) {
        std::memcpy(first.data() + offset, &value, bytes);
    };
    const uint32_t extents[] = {launch.block.x, launch.block.y, launch.block.z,
                                launch.grid.x,  launch.grid.y,  launch.grid.z};
    for (uint32_t n = 0; n < 6; ++n) set(4 * n, extents[n], 4);
    set(0x20, local_window, 8);
    set(0x28, program.local_bytes, 4);
    const Dim3 clusters{launch.grid.x / launch.cluster.x, launch.grid.y / launch.cluster.y,
                        launch.grid.z / launch.cluster.z};
    const uint32_t of_cluster[] = {launch.explicit_cluster,
                                   launch.cluster.x,
                                   launch.cluster.y,
                                   launch.cluster.z,
                                   reciprocal(launch.cluster.x),
                                   reciprocal(launch.cluster.y),
                                   reciprocal(launch.cluster.z),
                                   clusters.x,
                                   clusters.y,
                                   clusters.z};
    for (uint32_t n = 0; n < std::size(of_cluster); ++n) set(0x140 + 4 * n, of_cluster[n], 4);
    set(0x188, launch.cluster.count(), 4);
    if (launch.cooperative) {
        set(0x44, grid_workspace >> 32, 4);
        set(0x48, uint32_t(grid_workspace), 4);
    }
    set(0x6c, program.reserved_shared + system_shared_offset(program, launch), 4);
    set(0x198, param_window, 8);
    // The lifter refuses code that reads this field if there are several variables.
    if (code.variables.size() == 1)
        set(0xd0, code.variables[0].address - code.variables[0].offset, 8);
    first.insert(first.end(), launch.parameters.begin(), launch.parameters.end());

    std::vector<std::byte>& variables = made.bank[3];
    for (const MachineCode::Variable& v : code.variables) {
        const std::vector<std::byte>& bytes = program.memory->items[v.item].bytes;
        if (variables.size() < v.offset + bytes.size()) variables.resize(v.offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), variables.begin() + v.offset);
    }
    for (const MachineCode::Word& word : code.words) {
        uint32_t value = 0;
        const std::vector<std::byte>& bank = made.bank[word.bank];
        if (word.offset < bank.size())
            std::memcpy(&value, bank.data() + word.offset,
                        std::min<size_t>(sizeof value, bank.size() - word.offset));
        for (int i = 0; i < warp_size; ++i)
            std::memcpy(made.constants.data() + word.constant + 4 * size_t(i), &value,
                        sizeof value);
    }
    return made;
}

}  // namespace coalesce::sim
