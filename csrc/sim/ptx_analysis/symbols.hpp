// Computes the addresses of functions and shared variables as the GPU's assembler (ptxas) chooses
// them.
//
// METHOD
// Kernels can store, compare and print addresses. A kernel must give the same results from its PTX
// and from its machine code. So a run of the PTX uses the addresses of the machine code. The rules
// below were found by assembling modules (CUDA 13). The lifter compares the addresses that follow
// from these rules with the machine code of each kernel. If they differ, it refuses the machine
// code (sass/lift.cpp).
//
// A function's address is read from the machine code (python/coalesce/compile/binaries/cubin.py).
// Functions without an address in the machine code come after all others, 8 bytes apart. If no
// function has an address in the machine code, the addresses are 8, 16, 24, and so on; 0 is the
// null pointer.
//
// The first variable in shared memory is at address reserved_shared(), because the GPU itself uses
// the bytes before this address. The kernel's own variables come first. Then come the variables of
// the module that the kernel or a called function uses, and then the variables of called functions.
// In each of these three groups, the variables have the order of the PTX text. Dynamic shared
// memory follows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

// Returns the functions whose address the module takes, each with its address.
[[nodiscard]] std::vector<std::pair<uint64_t, const ptx::Function*>> function_addresses(
    const ptx::Module& module);

// Returns the address of a function, or 0 if it has none.
[[nodiscard]] uint64_t function_address(const ptx::Module& module, std::string_view name);

// Returns the number of bytes at the start of shared memory that the GPU uses itself. This number
// depends on the module's target, such as sm_90.
[[nodiscard]] uint32_t reserved_shared(const ptx::Module& module);

struct CallGraph;

// The layout of a kernel's shared memory.
struct SharedLayout {
    // Each variable has its offset from the first variable.
    std::vector<std::pair<const ptx::Variable*, uint64_t>> variables;
    std::string dynamic;  // the name of the dynamic variable, or an empty string if there is none
    uint64_t bytes = 0;   // the offset at which dynamic shared memory starts
};

// `graph` must be the call graph of the kernel.
[[nodiscard]] SharedLayout lay_out_shared(const ptx::Module& module, const CallGraph& graph);

}  // namespace coalesce::sim
