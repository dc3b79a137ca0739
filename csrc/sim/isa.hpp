// The instruction sets of the host that the lanes' loops are compiled for, and the choice among
// them.
//
// Each ops_*.cpp and every engine is compiled once per instruction set of the list. A build from
// source holds one, the best of its machine. A wheel holds all, so that it runs on any x86-64 (or
// Arm) and uses AVX2 or AVX-512 where they are. COALESCE_ISA_LEVEL in the environment (generic, v3,
// v4) forbids higher ones, for tests. See instruction_sets.cmake.
#pragma once

#include "ptx/module.hpp"
#include "sim/instruction_sets.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

enum class Isa : uint8_t {
#define COALESCE_ISA_NAME(name) name,
    COALESCE_FOR_EACH_ISA(COALESCE_ISA_NAME)
#undef COALESCE_ISA_NAME
};

// The best instruction set that this build holds and this machine can execute. Throws
// std::runtime_error if there is none: the package was built on a newer processor.
[[nodiscard]] Isa best_isa();
[[nodiscard]] const char* name_of(Isa isa);

class Modifiers;

// What one instruction set offers the decoder; ops_table.cpp fills it.
struct OpTable {
    // The families of arithmetic instructions, each in its ops_*.cpp. A family returns a selection
    // without handler for an instruction it does not know.
    using Family = Selection (*)(const ptx::Instruction& instruction, Modifiers& modifiers);
    static constexpr int family_count = 11;
    Family families[family_count];
    // Reads a special register (%tid.x) into operand 0.
    Selection (*special)(std::string_view name, ptx::Type type);
    // Copies a register of `from` lanes to one of `to_bytes` lanes, extended by the type's sign.
    Handler (*resize)(ptx::Type from, uint32_t to_bytes);
    Handler guarded;        // runs op.inner for the lanes the guard leaves
    Handler predicate_not;  // predicate 0 = not predicate 1
    Handler local_address;  // the address of the frame's local memory plus op.immediate
    Mover (*load_mover)(ptx::Type memory, uint32_t register_bytes, int elements);
    Mover (*store_mover)(ptx::Type memory, uint32_t register_bytes, int elements);
    Mover (*atomic_mover)(std::string_view operation, ptx::Type type);
    Handler (*machine)(std::string_view name);  // operations of machine code: ops_machine.cpp
    Mover (*machine_mover)(std::string_view name);
};

#define COALESCE_DECLARE_ISA(isa) \
    namespace isa {               \
    const OpTable& op_table();    \
    }
COALESCE_FOR_EACH_ISA(COALESCE_DECLARE_ISA)
#undef COALESCE_DECLARE_ISA

}  // namespace coalesce::sim
