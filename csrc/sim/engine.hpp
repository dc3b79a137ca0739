// An engine: the handlers of one instruction set of the host, from which decoders choose.
//
// Memory instructions have handlers that announce nothing, accesses, or faults too; a program is
// decoded for those that its observers need (watch_of). run_grid() in worker.hpp then runs it with
// an observer of any type.
#pragma once

#include <cstdint>

#include "sim/isa.hpp"
#include "sim/launch.hpp"
#include "sim/program.hpp"

namespace coalesce::sim {

// Handlers of memory instructions; see memory_handlers.hpp.
struct MemoryHandlers {
    // [space][access]: global, shared, local, param, generic, constant; load, store, atomic,
    // reduction.
    Handler access[6][4];
    // Of words in neighbouring registers: [global, shared][load, store][one, two, four]. Global
    // addresses have 64 bits, shared ones 32.
    Handler words[2][2][3];
    Handler load_parameter;
    Handler load_bank;  // of machine code: a constant bank, each lane by its own index
    Handler async_copy, async_commit, async_wait;
    Handler fence;
    Handler mbarrier_update, mbarrier_wait;  // see mbarrier_ops.hpp
    Handler bulk_copy_to_shared, bulk_copy_to_global;
    Handler multiply_chain;  // see multiply_chain.hpp; null where each load is announced
    Handler matrices[2];     // ldmatrix, stmatrix: see matrix_memory.hpp
    Handler fragments[2];    // wmma.load, wmma.store
};

// What memory instructions announce.
enum class Watch : uint8_t {
    nothing,   // a plain run
    accesses,  // accesses, fences and landed copies
    faults,    // these, faults instead of throwing them, and accesses to the frame's own memory
};

struct Engine {
    const OpTable* ops;
    MemoryHandlers memory;
};

[[nodiscard]] const Engine& engine(Watch watch, Isa isa = best_isa());

// How many host threads a launch uses: launch.workers, or a thread a core, at most one a block.
[[nodiscard]] uint32_t worker_count(const Launch& launch);

}  // namespace coalesce::sim
