// Helpers for predicates, which have one bit for each lane of a warp. They combine and write
// predicates.
#pragma once

#include "sim/program/payload.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Writes the predicate at `at` for the active lanes. If `at` is no_operand, the instruction does
// not have this result, and the function does nothing.
inline void store(Warp& w, Locator at, LaneMask value) {
    if (at == no_operand) return;
    LaneMask& d = w.predicate(at);
    d = (d & ~w.mask) | (value & w.mask);
}

// Combines the result of a comparison with another predicate.
inline LaneMask combined(Combination how, LaneMask truth, LaneMask with) {
    switch (how) {
        case Combination::conjunction:
            return truth & with;
        case Combination::disjunction:
            return truth | with;
        case Combination::difference:
            return truth ^ with;
        default:
            return truth;
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
