// Stores launches on disk. The parent process profiles them after the program has ended.
//
// A snapshot is a folder with launch.json, the PTX, the cubin, and the contents of every allocation
// before the launch. python/coalesce/programs/snapshot.py reads it.
#pragma once

#include <cstdint>

#include "cudart/state/work.hpp"

namespace coalesce::cudart {

// Stores the launch if the settings request it. `number` counts the launches of the kernel.
void keep_snapshot(const KernelWork& work, uint64_t number);

}  // namespace coalesce::cudart
