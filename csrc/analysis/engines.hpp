// Running a kernel on the simulator, plainly or counted.
#pragma once

#include "analysis/counts.hpp"
#include "sim/engine.hpp"

namespace coalesce::analysis {

// The engines for this machine's instruction set. A program must be decoded for the engine it runs
// on.
[[nodiscard]] const sim::Engine& silent_engine();
[[nodiscard]] const sim::Engine& counting_engine();

// Runs a program decoded for silent_engine().
void run(const sim::Program& program, const sim::Launch& launch, sim::AddressSpace& memory);

// Runs a program decoded for counting_engine() and counts. With groups, whose counts are added to,
// nothing is returned; a recorder keeps events, the replay feeds caches.
[[nodiscard]] Counts run_counted(const sim::Program& program, const sim::Launch& launch,
                                 sim::AddressSpace& memory, GroupedCounts* groups = nullptr,
                                 Recorder* recorder = nullptr, CacheReplay* caches = nullptr);

}  // namespace coalesce::analysis
