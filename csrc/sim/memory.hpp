// What a memory instruction of a warp touches: the event that observers hear of (observer.hpp), and
// the host memory it means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ptx/module.hpp"
#include "sim/address_space.hpp"
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
    const Op* op = nullptr;
    const Block* of = nullptr;  // of shared memory: whose it is, if another block's of the cluster
    // An address of lane `lane`. Shared and local ones count from the start of their space.
    [[nodiscard]] uint64_t address(int lane) const {
        if (shape == Shape::scattered) return addresses[lane];
        return shape == Shape::uniform ? first : first + uint64_t(lane) * bytes;
    }
};

// By how many bytes each lane's address follows that of the lane before it, where all lanes access
// and it is the same for all; else 0.
inline int64_t stride_of(const MemoryEvent& e) {
    if (e.mask != all_lanes || e.shape != Shape::scattered) return 0;
    const uint64_t stride = e.addresses[1] - e.addresses[0];
    uint64_t other = 0;
    for (int i = 2; i < warp_size; ++i) other |= (e.addresses[i] - e.addresses[i - 1]) ^ stride;
    return other ? 0 : int64_t(stride);
}

// Host memory for the lanes' addresses, all checked.
struct Resolved {
    Shape shape = Shape::scattered;
    bool shared_by_blocks = false;  // other host threads may touch it: atomics must be atomic
    LaneMask mask = 0;
    std::byte* host = nullptr;   // of lane 0 where shape is not scattered
    std::byte* lane[warp_size];  // of each active lane where it is
};

// Why an access cannot be made.
enum class Fault : uint8_t { outside, misaligned, read_only };

// What a message says of an access that cannot be made: the fault, and the memory it missed.
struct FaultText {
    std::string message, detail;
};
[[nodiscard]] FaultText describe_fault(const Warp& warp, const Op& op, Access access,
                                       ptx::Space space, Fault fault, uint64_t address);

// The memory, freed by the host or the kernel, that an address was in.
[[nodiscard]] std::optional<Buffer> freed_memory(const AddressSpace& memory, uint64_t address);

// Throws MemoryFault naming the buffer, the element, the line and the thread. `faulty` are the
// lanes at fault.
[[noreturn]] void throw_memory_fault(const Warp& warp, const Op& op, Access access,
                                     ptx::Space space, Fault fault, LaneMask faulty,
                                     const uint64_t* addresses);

// A handler that throws LaunchError: the trap instruction.
[[noreturn]] void throw_trap(Warp& warp, const Op& op);

// The error for an mbarrier that is used wrongly, or a bulk copy of a wrong size.
[[noreturn]] void throw_misuse(const Warp& warp, const Op& op, int lane, const std::string& why);

// The block of a rank of the warp's cluster, whose shared memory a lane accesses.
[[nodiscard]] Block& block_of_rank(const Warp& warp, const Op& op, int lane, uint32_t rank);

// The error for a call through a pointer to something else than a function.
[[noreturn]] void throw_no_function(const Warp& warp, const Op& op, bool null);

// "kernel naive, line 14:   sum += ..." of an operation, for messages.
[[nodiscard]] std::string where(const Program& program, const Op& op);

// "thread (3, 0, 0) in block (2, 1, 0)"
[[nodiscard]] std::string thread_name(const Warp& warp, int lane);

// "b[64, 3]" for a byte offset from the start of a buffer, which may lie outside it.
[[nodiscard]] std::string element(const Buffer& buffer, int64_t offset);

// "`b` has shape (64, 32), float32"
[[nodiscard]] std::string describe(const Buffer& buffer);

// "lanes 0, 3-31"
[[nodiscard]] std::string lane_list(LaneMask mask);

}  // namespace coalesce::sim
