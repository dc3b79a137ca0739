// Functions for this package's Python module, if this library is in the process of Python.
//
// The kernels then run in the simulator of the Python module, which must know the device memory.
#include <mutex>

#include "cudart/abi/abi.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

// An allocation, as python/coalesce/numba/device_memory.py reads it.
struct Described {
    uint64_t address, bytes;
    const void* host;       // where its data are
    const bool* undefined;  // for each byte, whether it was never written
};

// Returns how often the allocations have changed.
EXPORTED uint64_t coalesce_memory_changes() {
    Runtime& rt = runtime();
    const std::lock_guard guard(rt.lock);
    return rt.memory.changes();
}

// Describes at most `most` allocations, in the order of their addresses. Returns their number.
EXPORTED uint64_t coalesce_memory(Described* to, uint64_t most) {
    Runtime& rt = runtime();
    const std::lock_guard guard(rt.lock);
    uint64_t count = 0;
    for (const auto& [address, a] : rt.memory.all()) {
        if (a.kind == Kind::variable || a.kind == Kind::array || a.kind == Kind::object) continue;
        if (count < most) to[count] = {address, a.bytes, a.host, a.undefined.get()};
        ++count;
    }
    return count;
}

}  // namespace coalesce::cudart
