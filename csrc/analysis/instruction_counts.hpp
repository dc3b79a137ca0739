// The counts of one instruction.
#pragma once

#include <cstdint>

#include "ptx/module.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

struct InstructionCounts {
    uint64_t executed = 0;    // warp instructions
    uint64_t threads = 0;     // the sum of active threads over these
    uint64_t requests = 0;    // accesses to memory with at least one active thread
    uint64_t accesses = 0;    // active lanes of these requests
    uint64_t bytes = 0;       // requested by the lanes
    uint64_t sectors = 0;     // of global and local memory
    uint64_t lines = 0;       // of global and local memory
    uint64_t wavefronts = 0;  // of shared memory, including the shared side of asynchronous copies
    // Sectors (for shared memory, wavefronts) that the access would need if the elements of its
    // active lanes were packed. If the access itself needed fewer, that smaller number.
    uint64_t ideal = 0;
    // Computed from the addresses as on Nsight Compute's source page. model/banks.hpp says where
    // this differs from the hardware.
    uint64_t theoretical_sectors = 0;
    uint64_t theoretical_wavefronts = 0;
    uint64_t ideal_wavefronts = 0;  // `ideal` for shared memory, also for asynchronous copies
    // Requested bytes, where bytes that several lanes of a request share count once.
    uint64_t distinct_bytes = 0;
    uint64_t shared_requests = 0;  // those of `requests` that are to shared memory
    uint64_t sourceless =
        0;  // asynchronous copies in which no lane reads; not included in `requests`
    // Cases in which the hardware's own counts may differ from run to run.
    uint64_t diverged = 0;  // branches: how often lanes diverged
    uint64_t unjoined =
        0;  // memory: divergences after which lanes may execute it together by chance
    // atomics: requests with a sector that may be sent in two parts; copies that bypass L1:
    // requests whose addresses are not consecutive
    uint64_t divided = 0;
    // Atomics in a loop: cases in which another warp may cause further iterations.
    uint64_t contended = 0;
    // Generic accesses may reach several spaces. Then one is kept: global, else shared, else local.
    ptx::Space space = ptx::Space::generic;
    sim::Access access = sim::Access::load;
    void add(const InstructionCounts& other);
    bool operator==(const InstructionCounts&) const = default;
};

// The names of the counts, for tables and files.
struct Counter {
    const char* name;
    uint64_t InstructionCounts::* value;
};
inline constexpr Counter counters[] = {
    {"executed", &InstructionCounts::executed},
    {"threads", &InstructionCounts::threads},
    {"requests", &InstructionCounts::requests},
    {"accesses", &InstructionCounts::accesses},
    {"bytes", &InstructionCounts::bytes},
    {"sectors", &InstructionCounts::sectors},
    {"lines", &InstructionCounts::lines},
    {"wavefronts", &InstructionCounts::wavefronts},
    {"ideal", &InstructionCounts::ideal},
    {"theoretical_sectors", &InstructionCounts::theoretical_sectors},
    {"theoretical_wavefronts", &InstructionCounts::theoretical_wavefronts},
    {"ideal_wavefronts", &InstructionCounts::ideal_wavefronts},
    {"distinct_bytes", &InstructionCounts::distinct_bytes},
    {"shared_requests", &InstructionCounts::shared_requests},
    {"sourceless", &InstructionCounts::sourceless},
    {"diverged", &InstructionCounts::diverged},
    {"unjoined", &InstructionCounts::unjoined},
    {"divided", &InstructionCounts::divided},
    {"contended", &InstructionCounts::contended},
};

}  // namespace coalesce::analysis
