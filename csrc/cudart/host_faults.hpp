// Reports host code that reads or writes device memory through its pointer.
#pragma once

namespace coalesce::cudart {

// Installs a handler for SIGSEGV, unless the program has one.
void watch_host_faults();

}  // namespace coalesce::cudart
