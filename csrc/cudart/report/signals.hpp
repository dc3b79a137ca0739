// Handles signals that end the program: it reports host code that reads or writes device memory
// through its pointer, and writes the report of the kernels, which would otherwise be lost.
#pragma once

namespace coalesce::cudart {

// Installs handlers for signals that end the program: those of faults, SIGABRT, SIGTERM and SIGHUP.
// If the program has a handler of its own, that handler stays.
void watch_signals();

// If coalesce, the parent of this process, is killed, the system kills this process, too.
void end_with_parent();

}  // namespace coalesce::cudart
