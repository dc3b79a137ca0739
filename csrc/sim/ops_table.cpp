#include "sim/ops.hpp"

namespace coalesce::sim::COALESCE_ISA {

const OpTable& op_table() {
    static constexpr OpTable table = {
        {&select_integer, &select_bits, &select_logic, &select_floating, &select_rounding,
         &select_half, &select_convert, &select_compare, &select_move, &select_warp, &select_video},
        &select_special,
        &select_resize,
        &guarded,
        &predicate_not,
        &local_address,
        &load_mover,
        &store_mover,
        &atomic_mover,
        &select_machine,
        &machine_mover};
    return table;
}

}  // namespace coalesce::sim::COALESCE_ISA
