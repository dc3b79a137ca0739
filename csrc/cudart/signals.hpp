// Handles signals that end the program: it reports host code that reads or writes device memory
// through its pointer, and writes the report of the kernels, which would otherwise be lost.
#pragma once

namespace coalesce::cudart {

// Installs handlers for the signals of faults and for SIGABRT, unless the program has its own.
void watch_signals();

}  // namespace coalesce::cudart
