// What the registers of a decoded program are: for whoever shows their values while it runs.
//
// A register is a slot in its function's frame for a stretch of instructions (decode.cpp), after
// which another register may have the slot. PTX often declares a register by its width only
// (.b32); what its bits mean is told by the instructions that compute with it.
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
    std::string name;                  // "%r12"
    ptx::Type type = ptx::Type::none;  // as it is used; .b32 and its like where nothing tells
    Locator slot = no_operand;         // no_operand: never used
    uint32_t first = 0, last = 0;      // the instructions of the program over which it is kept
};

struct FunctionRegisters {
    uint32_t first = 0;                    // its first instruction in Program::instructions
    std::vector<RegisterPlace> registers;  // by their numbers in ptx::Function::registers
    std::vector<ptx::Effects> effects;     // by its instructions
};

// By function, as Program::functions.
using RegisterMap = std::vector<FunctionRegisters>;

// As decode() of program.hpp, and tells the registers.
[[nodiscard]] Program decode(const ptx::Module& module, const ptx::Function& entry,
                             std::shared_ptr<ModuleMemory> memory, const Engine& engine,
                             RegisterMap& registers);

// The registers of a function whose first instruction has this number, at these slots.
[[nodiscard]] FunctionRegisters describe_registers(const ptx::Function& function,
                                                   const ptx::ControlFlow& flow,
                                                   const std::vector<Locator>& slots,
                                                   uint32_t first_instruction);

}  // namespace coalesce::sim
