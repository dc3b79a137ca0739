// The memory that an instruction of a warp accesses. MemoryEvent describes the access for observers
// (observer.hpp). Resolved has the host memory that belongs to the addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "ptx/module.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/lanes.hpp"
#include "sim/program/program.hpp"
#include "sim/program/tensor_map.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

// The pattern of the 32 addresses. All patterns except `scattered` are frequent, and are faster to
// execute and to count.
enum class Shape : uint8_t {
    uniform,      // the same address for all lanes
    consecutive,  // lane i accesses the address first + i * bytes
    strided,      // lane i accesses the address first + i * stride; only in events
    scattered,    // any other pattern; also if some lanes are inactive
};

// One executed memory instruction of one warp.
struct MemoryEvent {
    uint32_t pc = 0;  // an index into Program::instructions
    ptx::Space space = ptx::Space::global;
    Access access = Access::load;
    Shape shape = Shape::scattered;
    uint8_t bytes = 0;   // the bytes that each lane accesses, for all its elements together
    LaneMask mask = 0;   // The active lanes. There is always at least one.
    uint64_t first = 0;  // The address of lane 0. Only valid if the shape is not scattered.
    int64_t stride = 0;  // Only valid if the shape is strided.
    // The addresses of the active lanes. They are valid only if the pattern (`shape`) is scattered.
    const uint64_t* addresses = nullptr;
    // Only for the second event of an asynchronous copy, its access to shared memory: the source
    // addresses of all lanes, also of those that read nothing.
    const uint64_t* sources = nullptr;
    const Op* op = nullptr;
    // If the memory of another block of the cluster is accessed, this is the block. Otherwise null.
    const Block* of = nullptr;

    // With a constructor of its own, the compiler sets each member with a store of its own. Without
    // it, GCC 12 first sets all bytes to zero, with stores that end in the middle of `of`. The host
    // then waits for these stores whenever an observer reads `of`: a tenth of a counted run.
    MemoryEvent() {}

    // Returns the address of a lane. Addresses in shared and local memory start at 0.
    [[nodiscard]] uint64_t address(int lane) const {
        switch (shape) {
            case Shape::uniform:
                return first;
            case Shape::consecutive:
                return first + uint64_t(lane) * bytes;
            case Shape::strided:
                return first + uint64_t(lane) * uint64_t(stride);
            case Shape::scattered:
                break;
        }
        return addresses[lane];
    }
};

// Returns the pattern of a full warp's addresses, which have this stride.
inline Shape shape_of_stride(int64_t stride, uint32_t bytes) {
    return stride == 0                ? Shape::uniform
           : stride == int64_t(bytes) ? Shape::consecutive
                                      : Shape::strided;
}

// Returns the event for an access by a full warp, whose addresses have this stride.
inline MemoryEvent event_of_words(const Op& op, ptx::Space space, Access access, int64_t stride,
                                  uint64_t first) {
    MemoryEvent event;
    event.pc = op.pc;
    event.space = space;
    event.access = access;
    event.bytes = op.memory().bytes;
    event.shape = shape_of_stride(stride, event.bytes);
    event.mask = all_lanes;
    event.first = first;
    event.stride = stride;
    event.op = &op;
    return event;
}

// Returns the distance from each lane's address to the next, for an access that is not scattered.
inline int64_t lane_stride(const MemoryEvent& e) {
    return e.shape == Shape::uniform ? 0 : e.shape == Shape::consecutive ? e.bytes : e.stride;
}

// Adjacent bytes of global memory that the copy engine copies: a whole bulk copy, or the part of a
// row of a box that is inside the array. The rest of the row is outside: `before` bytes before this
// part, and `after` bytes after it. If the whole row is outside, `bytes` is 0.
struct CopyPiece {
    uint64_t address = 0;
    uint32_t bytes = 0;
    uint32_t before = 0, after = 0;
};

// One copy by the copy engine (TMA), between global memory and shared memory.
struct CopyEvent {
    uint32_t pc = 0;      // an index into Program::instructions
    bool stores = false;  // the copy is to global memory
    std::span<const CopyPiece> pieces = {};
    // The tensor map that describes the copied box. Null for a copy without a tensor map.
    const TensorMap* map = nullptr;
    uint32_t blocks = 1;     // the number of blocks that get the data
    bool multicast = false;  // the instruction is a multicast to blocks of the cluster
};

// Returns the distance between the addresses of neighbouring lanes, if all lanes are active and the
// distance is constant. Otherwise returns 0. Also returns 0 if the addresses are uniform or
// consecutive, because these patterns are handled separately.
inline int64_t stride_of(const MemoryEvent& e) {
    if (e.shape == Shape::strided) return e.stride;
    if (e.mask != all_lanes || e.shape != Shape::scattered) return 0;
    const uint64_t stride = e.addresses[1] - e.addresses[0];
    uint64_t other = 0;
    for (int i = 2; i < warp_size; ++i) other |= (e.addresses[i] - e.addresses[i - 1]) ^ stride;
    return other ? 0 : int64_t(stride);
}

// The host memory for the addresses of the lanes. All addresses have been checked.
struct Resolved {
    Shape shape = Shape::scattered;  // never strided
    // True if other host threads may access the same memory. Then an atomic must be atomic on the
    // host, too.
    bool shared_by_blocks = false;
    LaneMask mask = 0;
    std::byte* host = nullptr;  // The memory for lane 0. Only valid if the shape is not scattered.
    // The memory for each active lane. It is valid only if the pattern (`shape`) is scattered.
    std::byte* lane[warp_size];
};

// Returns true if messages about an address outside all arrays name the nearest array.
[[nodiscard]] bool is_near_array(const AddressSpace& memory, uint64_t address);

// The message for an access that is not possible: the fault, and the memory that it missed.
struct FaultText {
    std::string message, detail;
    // The array in global memory that the text names, if it names one, and the distance of the
    // address from the start of this array in bytes.
    std::string array = {};
    int64_t offset = 0;
};
[[nodiscard]] FaultText describe_fault(const Warp& warp, const Op& op, int lane, Access access,
                                       ptx::Space space, Fault fault, uint64_t address);

// Returns the description of the freed memory that contained this address, or nothing. The host or
// the kernel may have freed it.
[[nodiscard]] std::optional<Buffer> freed_memory(const AddressSpace& memory, uint64_t address);

// Throws MemoryFault. The message contains the buffer, the element, the line and the thread.
// `faulty` are the lanes whose access is not possible.
[[noreturn]] void throw_memory_fault(const Warp& warp, const Op& op, Access access,
                                     ptx::Space space, Fault fault, LaneMask faulty,
                                     const uint64_t* addresses);

// Throws the error for a read from constant bank 0 that is completely outside the parameters.
// `addresses` has a position in the bank for each lane.
void require_parameters(const Warp& warp, const Op& op, LaneMask lanes, uint32_t bytes,
                        const uint64_t* addresses);

// Returns true if a GPU does not notice a read of this address, which is outside all arrays. See
// OutsideReads.
[[nodiscard]] bool is_unnoticed_read(const AddressSpace& memory, uint64_t address);

// Provides data for a read outside all buffers, if GridRun::outside_reads allows the read. Where
// the read overlaps a buffer, the data are those of the buffer; elsewhere they are zeros. The data
// are valid until the next call in this thread. Returns false if the read is a fault.
[[nodiscard]] bool read_outside(const Warp& warp, const Op& op, Access access, LaneMask outside,
                                const uint64_t* addresses, std::byte** data);

// Executes the trap instruction: it throws LaunchError.
[[noreturn]] void throw_trap(Warp& warp, const Op& op);

// Throws the error for wrong use of an instruction, such as a bulk copy of a wrong size. In the
// text, each '#' is replaced by a number: the first '#' by the first number, and so on.
[[noreturn]] void throw_misuse(const Warp& warp, const Op& op, int lane, std::string_view why,
                               std::initializer_list<uint64_t> numbers = {},
                               Fault fault = Fault::misuse);
// Throws the error for a box that does not begin at a multiple of 16 bytes in a row of the array.
// `first` is the box's first coordinate in this row, and `bytes` is the size of an element.
[[noreturn]] void throw_misaligned_box(const Warp& warp, const Op& op, int lane, int64_t first,
                                       int64_t bytes);
[[noreturn]] void throw_negative_store(const Warp& warp, const Op& op, int lane, uint32_t dimension,
                                       int32_t coordinate);

// Throws the error for an instruction on matrices that only a part of a warp executes.
[[noreturn]] void throw_part_of_warp(const Warp& warp, const Op& op);

// Returns the block with this rank in the warp's cluster. The lane accesses the shared memory of
// the block.
[[nodiscard]] Block& block_of_rank(const Warp& warp, const Op& op, int lane, uint32_t rank);

// What to do against a stack overflow.
inline constexpr const char* larger_stack =
    "; a program can make it larger with cudaDeviceSetLimit(cudaLimitStackSize, bytes)";

// Throws the error for a call through a pointer that is not the address of a function.
[[noreturn]] void throw_no_function(const Warp& warp, const Op& op, bool null);

// Returns the word for an access in messages, such as "write".
[[nodiscard]] const char* verb(Access access);

// Returns the place of an op for messages, such as "kernel naive, line 14:   sum += ...".
[[nodiscard]] std::string where(const Program& program, const Op& op);

// Returns a name such as "thread (3, 0, 0) in block (2, 1, 0)".
[[nodiscard]] std::string thread_name(const Warp& warp, int lane);

// Returns a name such as "b[64, 3]" for a byte offset from the start of a buffer, or "tile[64][3]"
// if the buffer is a variable. The offset may be outside the buffer.
[[nodiscard]] std::string element(const Buffer& buffer, int64_t offset);
// Returns the extents of a variable that has `bytes` bytes in memory. `declared` has the extents in
// the source; -1 stands for an extent that the source does not give, and that follows from the
// size. The result is empty if the declaration does not fit the size. For example, a variable of
// another kernel may have the same name.
[[nodiscard]] std::vector<int64_t> extents_in_memory(std::vector<int64_t> declared,
                                                     uint32_t item_bytes, uint64_t bytes);

// Returns a description such as "`b` has shape (64, 32), float32". If the buffer contains several
// arguments, it names the argument that is nearest to `offset`.
[[nodiscard]] std::string describe(const Buffer& buffer, int64_t offset = 0);

// Returns a list such as "lanes 0, 3-31".
[[nodiscard]] std::string lane_list(LaneMask mask);

}  // namespace coalesce::sim
