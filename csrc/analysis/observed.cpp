// The simulator compiled for each observer, once per instruction set.
#include "analysis/counts.hpp"
#include "sim/engine_impl.hpp"

namespace coalesce::analysis {

namespace COALESCE_ISA {

const sim::Engine& silent_engine() { return sim::COALESCE_ISA::make_engine<sim::SilentObserver>(); }
const sim::Engine& counting_engine() { return sim::COALESCE_ISA::make_engine<CountObserver>(); }

}  // namespace COALESCE_ISA

}  // namespace coalesce::analysis
