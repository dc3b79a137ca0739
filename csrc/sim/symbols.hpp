// Where the GPU's assembler puts what a module names: functions and shared variables.
//
// METHOD
// Kernels can see addresses: they store them, compare them, exchange them by XOR. So PTX runs use
// the addresses that the machine code has. The rules here were found by assembling modules
// (CUDA 13); the lifter compares them with each cubin and refuses what differs (sass/lift.cpp).
//
// A function's address is read from the machine code (python/coalesce/compile/cubin.py). Without
// machine code, functions whose addresses are taken are numbered in units of 8 bytes; 0 is the null
// pointer.
//
// Shared memory starts at reserved_shared() bytes: the GPU keeps those before. A kernel's own
// variables come first, then those of the module that it or a function it calls names, then those
// of the functions, each group in the order of the text. Dynamic shared memory follows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

// The functions whose addresses the module takes, each with its address.
[[nodiscard]] std::vector<std::pair<uint64_t, const ptx::Function*>> function_addresses(
    const ptx::Module& module);

// The address of a function, or 0 where it has none.
[[nodiscard]] uint64_t function_address(const ptx::Module& module, std::string_view name);

// The bytes at the start of shared memory that the GPU keeps for itself, by the module's target.
[[nodiscard]] uint32_t reserved_shared(const ptx::Module& module);

struct SharedLayout {
    std::vector<std::pair<const ptx::Variable*, uint64_t>> variables;  // offset: from the first one
    std::string dynamic;  // the name of the dynamic variable; empty: there is none
    uint64_t bytes = 0;   // where dynamic shared memory starts
};

[[nodiscard]] SharedLayout lay_out_shared(const ptx::Module& module, const ptx::Function& entry);

}  // namespace coalesce::sim
