// An engine: the simulator compiled for one instruction set of the host and one observer.
//
// `sim` knows no analysis. Whoever has an observer makes an engine of it: a file that includes
// engine_impl.hpp and returns make_engine<MyObserver>(), compiled once per instruction set
// (analysis/engines.cpp is the example).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "sim/address_space.hpp"
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
};

struct Engine {
    const OpTable* ops;
    MemoryHandlers memory;
    // Runs the grid with one observer for each of launch.workers host threads; `observers` holds as
    // many pointers to objects of the engine's observer type. Throws what a kernel can do wrong.
    void (*run)(const Program&, const Launch&, AddressSpace&, void* const* observers);
};

// How many host threads a launch uses: launch.workers, or a thread a core, at most one a block.
[[nodiscard]] uint32_t worker_count(const Launch& launch);

}  // namespace coalesce::sim
