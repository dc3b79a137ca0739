// Finds out whether the results of a kernel may depend on more than its arguments: on communication
// between blocks, or on the order of warps. There is one analysis for each of the two questions.
//
// METHOD
// Both analyses follow values from register to register through the PTX. They ignore the order of
// the instructions. So they may report a dependence that does not exist, but they do not miss one.
// There is one exception: they do not follow a dependence through the condition of a branch.
//
// Blocks may communicate in three ways: by atomics on global memory whose results are used, by
// strong loads, or as members of a cluster. A plain load of data that another block writes in the
// same launch is a race.
//
// If several warps execute an atomic, the values that it returns depend on the order of the warps.
// This order differs from run to run, on a GPU and on the simulator. For example, a kernel may
// store selected elements one after another: out[atomicAdd(n, 1)] = x. In each run, such a kernel
// may store an element to a different address. The analysis starts with the results of atomics. It
// finds the addresses that depend on them. To do this, it follows values through registers, through
// shared and local memory, and through the arguments and results of calls.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ptx/module.hpp"
#include "sim/program/program.hpp"

namespace coalesce::analysis {

// Returns the instructions by which blocks may communicate, as indices into Program::instructions.
// The program must be from PTX.
[[nodiscard]] std::vector<uint32_t> exchanges(const sim::Program& program);

// Returns the spaces (global, shared, local) in which addresses depend on the results of atomics.
// The program must be from PTX.
[[nodiscard]] std::set<ptx::Space> spaces_ordered_by_atomics(const sim::Program& program);

}  // namespace coalesce::analysis
