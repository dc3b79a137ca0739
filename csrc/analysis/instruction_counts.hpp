// What is counted of one instruction.
#pragma once

#include <cstdint>

#include "ptx/module.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

struct InstructionCounts {
    uint64_t executed = 0;    // warp instructions
    uint64_t threads = 0;     // of them, active threads
    uint64_t requests = 0;    // memory: executed with at least one active thread
    uint64_t accesses = 0;    // memory: lanes that accessed
    uint64_t bytes = 0;       // memory: requested by lanes
    uint64_t sectors = 0;     // global, local
    uint64_t lines = 0;       // global, local
    uint64_t wavefronts = 0;  // shared, and the shared side of asynchronous copies
    // Sectors (for shared memory, wavefronts) that the access would take if the elements of its
    // active lanes were packed. If the access itself took fewer, that smaller number.
    uint64_t ideal = 0;
    // As Nsight Compute's source page computes them from the addresses; model/banks.hpp says where
    // that is not what the hardware does.
    uint64_t theoretical_sectors = 0;
    uint64_t theoretical_wavefronts = 0;
    uint64_t ideal_wavefronts = 0;  // `ideal` of shared memory, also of asynchronous copies
    uint64_t distinct_bytes = 0;    // requested, those that several lanes want once a request
    uint64_t shared_requests = 0;   // of `requests`, those to shared memory
    uint64_t sourceless =
        0;  // asynchronous copies of which no lane reads anything: not in `requests`
    // What the hardware may count otherwise, from run to run.
    uint64_t parted = 0;     // branches: how often they parted lanes
    uint64_t unjoined = 0;   // memory: how often lanes parted that may still run it together
    uint64_t divided = 0;    // atomics: requests of which it may send a sector in two parts;
                             // copies past L1: those that are not in order
    uint64_t contended = 0;  // atomics in a loop that lanes of another warp keep from succeeding
    // Of generic accesses that were to several spaces, one: global before shared before local.
    ptx::Space space = ptx::Space::generic;
    sim::Access access = sim::Access::load;
    void add(const InstructionCounts& other);
    bool operator==(const InstructionCounts&) const = default;
};

// The numbers of an InstructionCounts by name, for tables and files.
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
    {"parted", &InstructionCounts::parted},
    {"unjoined", &InstructionCounts::unjoined},
    {"divided", &InstructionCounts::divided},
    {"contended", &InstructionCounts::contended},
};

}  // namespace coalesce::analysis
