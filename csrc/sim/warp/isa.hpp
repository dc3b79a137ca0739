// The host's instruction sets, such as AVX2 and AVX-512, and which of them the simulator uses. The
// loops over the lanes of a warp are compiled once for each of these sets.
//
// Only the operations and the memory handlers (sim/handlers) are compiled once for each instruction
// set. A build from source has one instruction set, the best of its machine. A wheel has all, so
// that it runs on any x86-64 (or Arm) processor and uses AVX2 or AVX-512 if available. For tests,
// the environment variable COALESCE_ISA_LEVEL (generic, v3, v4) sets an upper limit. See
// instruction_sets.cmake.
#pragma once

#include <array>

#include "ptx/module.hpp"
#include "sim/program/machine_op.hpp"
#include "sim/program/program.hpp"
#include "sim/warp/instruction_sets.hpp"
#include "sim/warp/selection.hpp"

namespace coalesce::sim {

// The instruction sets for which the handlers are compiled.
enum class Isa : uint8_t {
#define COALESCE_ISA_NAME(name) name,
    COALESCE_FOR_EACH_ISA(COALESCE_ISA_NAME)
#undef COALESCE_ISA_NAME
};

// Returns the best instruction set that this build has and this machine can execute. Throws
// std::runtime_error if there is none. This happens if the package was built on a newer processor.
[[nodiscard]] Isa best_isa();
[[nodiscard]] const char* name_of(Isa isa);

// The handlers of one host instruction set. Those of memory instructions are in MemoryHandlers
// instead (engine.hpp). table.cpp is compiled once for each instruction set, and defines the
// OpTable of this set.
struct OpTable {
    // A function that chooses the handler of an operation. It removes the modifiers that it
    // understands from the list. If there is no handler for the types, the result is empty.
    using Select = Selection (*)(const InstructionForm& request, Modifiers& modifiers);
    // One entry per OpCode, from the rows of ops.inc. An entry is null if decoders handle the
    // operation themselves.
    std::array<Select, operation_count> selects;
    [[nodiscard]] Selection select(const InstructionForm& request, Modifiers& modifiers) const {
        const Select chosen = selects[size_t(request.code)];
        return chosen ? chosen(request, modifiers) : Selection{};
    }
    // Returns the handler that copies a special register (such as %tid.x) to operand 0.
    Selection (*special)(Special which, ptx::Type type);
    // Returns the handler that copies a register of type `from` to a register with `to_bytes` bytes
    // per lane. If the new register is wider, a signed value is extended with its sign, and other
    // values with zeros.
    Handler (*resize)(ptx::Type from, uint32_t to_bytes);
    Handler guarded;        // runs op.inner for the lanes for which the guard is true
    Handler predicate_not;  // stores the negation of the predicate in operand 1 to operand 0
    Handler multiply_add;   // fma.rn.f32
    Handler local_address;  // computes an address in the frame's local memory
    // Returns the function that moves the data of a memory instruction. `memory` is the type of an
    // element in memory.
    Mover (*load)(ptx::Type memory, uint32_t register_bytes, int elements);
    Mover (*store)(ptx::Type memory, uint32_t register_bytes, int elements);
    // `elements` is how many neighbouring elements each lane updates. If it is not 1, they must be
    // in neighbouring 32-bit registers.
    Mover (*atomic)(AtomicUpdate update, ptx::Type type, int elements);
    // Like `atomic`, for one attempt of a compare-and-swap loop in machine code (ATOMS.CAST.SPIN).
    Mover (*swap_attempt)(uint32_t bytes);
    Handler (*machine)(MachineOp op);  // the operations of machine code, from handlers/machine.cpp
    Handler (*matrix)(MatrixKind kind);
};

struct Engine;

#define COALESCE_DECLARE_ISA(isa)   \
    namespace isa {                 \
    extern const Engine engines[3]; \
    }
COALESCE_FOR_EACH_ISA(COALESCE_DECLARE_ISA)
#undef COALESCE_DECLARE_ISA

}  // namespace coalesce::sim
