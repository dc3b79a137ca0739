// An engine: the handlers for one instruction set of the host, such as AVX2. A handler is the C++
// function that executes one operation for a whole warp. Decoders choose the handlers of a program
// from an engine.
//
// An observer is an analysis that receives events while a kernel runs (observer.hpp). Each memory
// instruction has three versions of its handler. One announces nothing to observers, one announces
// accesses, and one announces accesses and faults. watch_of() says which version the observers of a
// launch need. The program is decoded with this version. Then run_grid() in worker.hpp runs the
// program with the observers.
#pragma once

#include <cstdint>

#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"
#include "sim/warp/isa.hpp"

namespace coalesce::sim {

// Handlers of memory instructions; see memory_handlers.hpp.
struct MemoryHandlers {
    // The indices are [space][access]. The spaces are global, shared, local, param, generic and
    // constant. The accesses are load, store, atomic and reduction.
    Handler access[6][4];
    // Loads and stores of 32-bit words, to or from neighbouring registers. The first index is 0 for
    // global and 1 for shared memory. The second is 0 for a load and 1 for a store. The third is 0,
    // 1 or 2 for one, two or four words. Global addresses have 64 bits, shared addresses 32 bits.
    Handler words[2][2][3];
    Handler load_parameter;
    // LDC in machine code: reads a constant bank at an index that each lane provides.
    Handler load_bank;
    Handler async_copy, async_commit, async_wait;
    Handler fence;
    Handler mbarrier_update, mbarrier_wait;  // see mbarrier.hpp
    Handler bulk_copy_to_shared, bulk_copy_to_global;
    Handler box_to_shared, box_to_global;      // see tensor_copy.hpp
    Handler textures[2];                       // [0] is for tex, [1] for tld4; see texture.hpp
    Handler surfaces[2];                       // [0] is for suld, [1] for sust
    Handler warpgroup_product;                 // see warpgroup.hpp
    Handler warpgroup_commit, warpgroup_wait;  // null if no checker observes the run
    Handler multiply_chain;  // See multiply_chain.hpp. Null if each load is announced.
    Handler matrices[2];     // [0] is for ldmatrix, [1] for stmatrix; see matrix/memory.hpp
    Handler fragments[2];    // [0] is for wmma.load, [1] for wmma.store
};

// The events that memory instructions announce.
enum class Watch : uint8_t {
    nothing,   // no events: for a plain run
    accesses,  // accesses, fences and completed asynchronous copies
    // All events of `accesses`, and two more kinds. First, accesses to a .local variable of the
    // running function through its name. Second, faults: the simulator announces a fault and throws
    // no exception.
    faults,
};

// The handlers of all operations.
struct Engine {
    const OpTable* ops;
    MemoryHandlers memory;
};

[[nodiscard]] const Engine& engine(Watch watch, Isa isa = best_isa());

// Returns the number of host threads of a launch: launch.workers, or one per core if launch.workers
// is 0. A launch never gets more host threads than it has blocks (or clusters of blocks).
[[nodiscard]] uint32_t worker_count(const GridRun& launch);

}  // namespace coalesce::sim
