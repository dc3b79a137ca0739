// The counts of one instruction: what AccessCosts and CountObserver add up, and what metrics.cpp
// turns into the metrics of Nsight Compute.
#pragma once

#include <cstdint>

#include "ptx/module.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::analysis {

struct InstructionCounts {
    uint64_t executed = 0;  // warp instructions
    uint64_t threads = 0;   // active threads, summed over the executions
    // The active threads in which the instruction's guard was true. Without a guard: all of them.
    uint64_t predicated_on = 0;
    // Accesses to memory with at least one active thread. For an instruction of the copy engine,
    // the number of copies.
    uint64_t requests = 0;
    uint64_t accesses = 0;  // active lanes, summed over the requests
    uint64_t bytes = 0;     // bytes that the active lanes request
    uint64_t sectors = 0;   // sectors of global and local memory
    uint64_t lines = 0;     // lines of global and local memory
    // Wavefronts of shared memory, including those of asynchronous copies to shared memory.
    uint64_t wavefronts = 0;
    // For an access to global memory: the smallest number of sectors that can hold one element per
    // active lane, stored without gaps. For shared memory: the smallest number of wavefronts that
    // can deliver these elements. If several lanes share an element, the access may need even fewer
    // sectors or wavefronts. Then this smaller number is counted.
    uint64_t ideal = 0;
    // Sectors and wavefronts that Nsight Compute's source page computes from the addresses.
    // model/banks.hpp says where they differ from the hardware's own counts.
    uint64_t theoretical_sectors = 0;
    uint64_t theoretical_wavefronts = 0;
    uint64_t ideal_wavefronts = 0;  // like `ideal`, for shared memory and asynchronous copies
    // The requested bytes. If several lanes of a request read the same byte, it is counted once.
    uint64_t distinct_bytes = 0;
    uint64_t shared_requests = 0;  // the part of `requests` that accesses shared memory
    // Asynchronous copies in which no lane reads. They are not included in `requests`.
    uint64_t sourceless = 0;
    // The following counts are cases in which the hardware's own counts may differ from run to run.
    uint64_t diverged = 0;  // for a branch: how often lanes diverged
    // For a memory access that both sides of a branch reach before the lanes reconverge: how often
    // lanes diverged at this branch. The diverged lanes then execute the access separately. By
    // chance, they may also execute it together (sass/possible_reconvergence.hpp).
    uint64_t unjoined = 0;
    // Requests for which the hardware may count a different number of sectors from run to run. For
    // an atomic, these are requests with a sector that may be sent in two parts. For a copy that
    // bypasses L1, they are requests in which several lanes have the same destination. For the copy
    // engine, they are copies of a form for which no counters were recorded
    // (model/bulk_copies.hpp).
    uint64_t divided = 0;
    // For a copy that bypasses L1: how often its guard excluded lanes. Nsight Compute also counts
    // the addresses of these lanes, but their registers may have any values.
    uint64_t guarded = 0;
    // For an atomic in a loop: how often it was executed while another warp may have caused further
    // iterations (contention.hpp).
    uint64_t contended = 0;
    // For a memory access that depends on how often a thread waits: the number of executions of the
    // access and of the branches on which it depends (sass/waits.hpp).
    uint64_t after_waits = 0;
    // For a read with which threads wait for others (sim/decode/waiting_reads.hpp): its executions.
    uint64_t waits = 0;
    // For a call in a kernel that uses the device heap (malloc, free): its executions.
    uint64_t heap_calls = 0;
    // The memory space that the instruction accesses. An instruction with generic addresses may
    // access several spaces. Then `space` is global if any access was to global memory. Otherwise
    // it is shared if any access was to shared memory.
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
    {"predicated_on", &InstructionCounts::predicated_on},
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
    {"guarded", &InstructionCounts::guarded},
    {"contended", &InstructionCounts::contended},
    {"after_waits", &InstructionCounts::after_waits},
    {"waits", &InstructionCounts::waits},
    {"heap_calls", &InstructionCounts::heap_calls},
};

}  // namespace coalesce::analysis
