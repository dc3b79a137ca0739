// Describes the registers of a decoded program, so that their values can be shown while it runs.
//
// A register is a slot in its function's frame for a range of instructions (decode.cpp). Later,
// another register may use the slot. PTX often declares only the width of a register (.b32). The
// instructions that compute with it show what its bits mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptx/control_flow.hpp"
#include "ptx/module.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

struct RegisterPlace {
    std::string name;  // "%r12"
    // As the register is used; .b32 and similar if no instruction shows it.
    ptx::Type type = ptx::Type::none;
    Locator slot = no_operand;     // no_operand: the register is never used
    uint32_t first = 0, last = 0;  // the range of instructions in which it keeps its value
};

struct FunctionRegisters {
    uint32_t first = 0;                    // its first instruction in Program::instructions
    std::vector<RegisterPlace> registers;  // by index in ptx::Function::registers
    std::vector<ptx::Effects> effects;     // of each of its instructions
};

// One entry for each of Program::functions.
using RegisterMap = std::vector<FunctionRegisters>;

// Like decode() of program.hpp; also describes the registers.
[[nodiscard]] Program decode(const ptx::Module& module, const ptx::Function& entry,
                             std::shared_ptr<ModuleMemory> memory, const Engine& engine,
                             RegisterMap& registers);

// Describes the registers of a function with these slots. `first_instruction` is its first
// instruction.
[[nodiscard]] FunctionRegisters describe_registers(const ptx::Function& function,
                                                   const ptx::ControlFlow& flow,
                                                   const std::vector<Locator>& slots,
                                                   uint32_t first_instruction);

}  // namespace coalesce::sim
