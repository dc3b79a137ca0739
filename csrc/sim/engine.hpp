// An engine: the handlers for one instruction set of the host. Decoders choose handlers from it.
//
// Memory instructions have three kinds of handlers, which announce nothing, accesses, or also
// faults. A program is decoded for the kind that its observers need (watch_of). Then run_grid() in
// worker.hpp runs it with an observer of any type.
#pragma once

#include <cstdint>

#include "sim/isa.hpp"
#include "sim/launch.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

// Handlers of memory instructions; see memory_handlers.hpp.
struct MemoryHandlers {
    // Index: [space][access]. Spaces: global, shared, local, param, generic, constant. Accesses:
    // load, store, atomic, reduction.
    Handler access[6][4];
    // For words in neighbouring registers: [global, shared][load, store][one, two, four]. Global
    // addresses have 64 bits, shared ones 32.
    Handler words[2][2][3];
    Handler load_parameter;
    Handler load_bank;  // machine code: reads a constant bank, with an index for each lane
    Handler async_copy, async_commit, async_wait;
    Handler fence;
    Handler mbarrier_update, mbarrier_wait;  // see mbarrier_ops.hpp
    Handler bulk_copy_to_shared, bulk_copy_to_global;
    Handler box_to_shared, box_to_global;      // see tensor_copy_ops.hpp
    Handler warpgroup_product;                 // see warpgroup_ops.hpp
    Handler warpgroup_commit, warpgroup_wait;  // null if checks do not listen
    Handler multiply_chain;  // see multiply_chain.hpp; null if each load is announced
    Handler matrices[2];     // ldmatrix, stmatrix: see matrix_memory.hpp
    Handler fragments[2];    // wmma.load, wmma.store
};

// Which events memory instructions announce.
enum class Watch : uint8_t {
    nothing,   // a plain run
    accesses,  // accesses, fences and landed copies
    // In addition faults (instead of throwing), and accesses by name to local memory of the frame.
    faults,
};

struct Engine {
    const OpTable* ops;
    MemoryHandlers memory;
};

[[nodiscard]] const Engine& engine(Watch watch, Isa isa = best_isa());

// The number of host threads of a launch: launch.workers, or one per core; at most one per block.
[[nodiscard]] uint32_t worker_count(const Launch& launch);

}  // namespace coalesce::sim
