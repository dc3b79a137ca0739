// Describes the registers of a decoded program, so that their values can be shown while it runs.
//
// A register has a slot (a place in its function's frame), which no other register uses. So a value
// can still be shown after its last use. PTX often declares only the width of a register (.b32).
// The instructions that compute with it show what its bits mean.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ptx/module.hpp"
#include "sim/program/program.hpp"
#include "sim/ptx_analysis/data_flow.hpp"

namespace coalesce::sim {

// A register, and where its value is.
struct RegisterPlace {
    std::string name;  // the name in PTX: "%r12"
    // The type of the values in the register. If the declared type is only a width, such as .b32,
    // this is the type that the instructions with this register use. If no instruction shows a
    // type, this is the declared type.
    ptx::Type type = ptx::Type::none;
    Locator slot = no_operand;  // no_operand if the register is never used
    // The range of instructions in which the value is needed.
    uint32_t first = 0, last = 0;
};

// The registers of a function. The index is that of ptx::Function::registers.
using FunctionRegisters = std::vector<RegisterPlace>;

// One entry for each function in Program::functions.
using RegisterMap = std::vector<FunctionRegisters>;

// Decodes like decode() of program.hpp, and also describes the registers and the control flow
// (DataFlow::successors). Each register has a slot of its own.
[[nodiscard]] Program decode(const ptx::Module& module, const ptx::Function& entry,
                             std::shared_ptr<ModuleMemory> memory, const Engine& engine,
                             RegisterMap& registers);

// Describes the registers of a function. `traits` are those of its instructions, and `slots` are
// the slots of its registers. `first_instruction` is the index of its first instruction in
// Program::instructions.
[[nodiscard]] FunctionRegisters describe_registers(const ptx::Function& function,
                                                   std::span<const Traits> traits,
                                                   const ControlFlow& flow,
                                                   const std::vector<Locator>& slots,
                                                   uint32_t first_instruction);

}  // namespace coalesce::sim
