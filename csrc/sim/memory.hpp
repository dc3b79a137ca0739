// What a memory instruction of a warp touches: the event observers see, and the host memory it
// means.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ptx/module.hpp"
#include "sim/lanes.hpp"
#include "sim/program.hpp"
#include "sim/warp.hpp"

namespace coalesce::sim {

// How the addresses of all 32 lanes lie. The first two are recognised because they are common, and
// cheap both to execute and to count.
enum class Shape : uint8_t {
    uniform,      // one address
    consecutive,  // lane i at first + i * bytes
    scattered,    // anything else, and every partly active warp
};

// One executed memory instruction of one warp.
struct MemoryEvent {
    uint32_t pc = 0;  // Program::instructions
    ptx::Space space = ptx::Space::global;
    Access access = Access::load;
    Shape shape = Shape::scattered;
    uint8_t bytes = 0;                    // of a lane's access, all its elements
    LaneMask mask = 0;                    // lanes that access; never empty
    uint64_t first = 0;                   // of lane 0 where shape is not scattered
    const uint64_t* addresses = nullptr;  // of each active lane where it is
    // An address of lane `lane`. Shared and local ones count from the start of their space.
    [[nodiscard]] uint64_t address(int lane) const {
        if (shape == Shape::scattered) return addresses[lane];
        return shape == Shape::uniform ? first : first + uint64_t(lane) * bytes;
    }
};

// Host memory for the lanes' addresses, all checked.
struct Resolved {
    Shape shape = Shape::scattered;
    bool shared_by_blocks = false;  // other host threads may touch it: atomics must be atomic
    LaneMask mask = 0;
    std::byte* host = nullptr;   // of lane 0 where shape is not scattered
    std::byte* lane[warp_size];  // of each active lane where it is
};

// What an analysis is told. Observers are classes with these members; the engine is compiled for
// each (engine.hpp), so that one that does nothing costs nothing.
struct SilentObserver {
    // A run of operations of a path starts: from `op` to Program::segment_end[op].
    void segment(const Warp&, uint32_t, LaneMask) {}
    void access(const Warp&, const MemoryEvent&) {}
};

// Why an access cannot be made.
enum class Fault : uint8_t { outside, misaligned, read_only };

// Throws MemoryFault naming the buffer, the element, the line and the thread. `faulty` are the
// lanes at fault.
[[noreturn]] void throw_memory_fault(const Warp& warp, const Op& op, Access access,
                                     ptx::Space space, Fault fault, LaneMask faulty,
                                     const uint64_t* addresses);

// A handler that throws LaunchError: the trap instruction.
[[noreturn]] void throw_trap(Warp& warp, const Op& op);

// "kernel naive, line 14:   sum += ..." of an operation, for messages.
[[nodiscard]] std::string where(const Program& program, const Op& op);

// "thread (3, 0, 0) in block (2, 1, 0)"
[[nodiscard]] std::string thread_name(const Warp& warp, int lane);

// "lanes 0, 3-31"
[[nodiscard]] std::string lane_list(LaneMask mask);

}  // namespace coalesce::sim
