// The interface of an instruction set to other files: its engines.
#include "sim/lanewise.hpp"
#include "sim/memory_handlers.hpp"
#include "sim/modifiers.hpp"
#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Integers, floating-point numbers and halves share instruction names; each kind has its own file.
Selection select_arithmetic(const ptx::Instruction& in, Modifiers& m) {
    switch (Modifiers(m).take_type()) {
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

const OpTable& op_table() {
    static constexpr OpTable table = {
        {
            nullptr,
#define COALESCE_OPERATION(code, spelling, select, pipe, traits, sentence) select,
#include "sim/ops.inc"
#undef COALESCE_OPERATION
        },
        &select_special,
        &select_resize,
        &guarded,
        &predicate_not,
        &lanewise<computed<fused_multiply_add>, float, float, float, float>,
        &local_address,
        &load_mover,
        &store_mover,
        &atomic_mover,
        &select_machine,
        &machine_mover,
        &select_matrix};
    return table;
}

}  // namespace

const Engine& engine(Watch watch) {
    static const Engine engines[] = {{&op_table(), memory_handlers<Watch::nothing>()},
                                     {&op_table(), memory_handlers<Watch::accesses>()},
                                     {&op_table(), memory_handlers<Watch::faults>()}};
    return engines[size_t(watch)];
}

}  // namespace coalesce::sim::COALESCE_ISA
