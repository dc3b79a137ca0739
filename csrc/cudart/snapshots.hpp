// Launches kept on disk, so that the parent process profiles them after the program has ended.
//
// A snapshot is a folder with launch.json, the PTX, the cubin, and the bytes of every allocation as
// they were before the launch. python/coalesce/programs/snapshot.py reads it.
#pragma once

#include <cstdint>

#include "cudart/work.hpp"

namespace coalesce::cudart {

// Keeps the launch, the `number`-th of its kernel, if the settings ask for it.
void keep_snapshot(const KernelWork& work, uint64_t number);

}  // namespace coalesce::cudart
