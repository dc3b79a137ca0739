// Defines the engines (engine.hpp) of one host instruction set. This file is compiled once for each
// instruction set. The engines are constants. Files that are compiled only once use nothing else of
// an instruction set.
#include "sim/handlers/lanewise.hpp"
#include "sim/handlers/memory/memory_handlers.hpp"
#include "sim/ptx_analysis/modifiers.hpp"
#include "sim/warp/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Instructions for integers, floating-point numbers and halves share their names, such as add. The
// handlers for each kind of number are in a separate file. This function chooses the file by the
// type of the instruction.
Selection select_arithmetic(const InstructionForm& in, Modifiers& m) {
    switch (m.type()) {
        case ptx::Type::f32:
        case ptx::Type::f64:
            return m.has("rz") || m.has("rm") || m.has("rp") ? select_rounding(in, m)
                                                             : select_floating(in, m);
        case ptx::Type::f16:
        case ptx::Type::f16x2:
        case ptx::Type::bf16:
        case ptx::Type::bf16x2:
            return select_half(in, m);
        default:
            return select_integer(in, m);
    }
}

namespace {

constexpr std::nullptr_t none = nullptr;

constexpr OpTable op_table = {{
                                  nullptr,
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) select,
#include "sim/ptx_analysis/ops.inc"
#undef COALESCE_OPERATION
                              },
                              &select_special,
                              &select_resize,
                              &guarded,
                              &predicate_not,
                              &lanewise<computed<fused_multiply_add>, float, float, float, float>,
                              &local_address,
                              &choose_load,
                              &choose_store,
                              &choose_atomic,
                              &choose_swap_attempt,
                              &select_machine,
                              &select_matrix};

}  // namespace

// The index of an engine is a value of Watch (engine.hpp). The compiler and the linker fill this
// table. So the program computes nothing for it when it starts.
constinit const Engine engines[3] = {{&op_table, memory_handlers<Watch::nothing>()},
                                     {&op_table, memory_handlers<Watch::accesses>()},
                                     {&op_table, memory_handlers<Watch::faults>()}};

}  // namespace coalesce::sim::COALESCE_ISA
