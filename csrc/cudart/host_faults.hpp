// Names the mistake of a host program that reads or writes device memory through its pointer.
#pragma once

namespace coalesce::cudart {

// Listens for SIGSEGV, unless the program does so itself.
void watch_host_faults();

}  // namespace coalesce::cudart
