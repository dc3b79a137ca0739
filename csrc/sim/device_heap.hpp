// The heap from which kernels allocate memory when they call malloc, free, new and delete.
//
// METHOD
// As on a GPU, there is one heap of a fixed size, and an allocation lives until a kernel frees it
// (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and Operations"). Each allocation
// is a buffer of the launch's address space, followed by a gap, and addresses are not reused.
// Therefore accesses outside an allocation and accesses to freed memory are detected. An allocation
// changes the address space of the launch. So a kernel that allocates runs on one host thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/address_space.hpp"
#include "sim/launch.hpp"

namespace coalesce::sim {

// The address at which the heap begins. It is above the addresses of all other memory. This
// includes the host memory that a CUDA program shares with its kernels when coalesce runs the whole
// program. So each new buffer of the heap has a higher address than all existing buffers.
inline constexpr uint64_t device_heap_base = 0x8000'0000'0000;
// The default size of the heap in bytes. cudaDeviceSetLimit can change it.
inline constexpr uint64_t device_heap_bytes = 8u << 20;

struct Warp;
struct Op;

class DeviceHeap {
  public:
    // Returns the one heap that all launches of this process use. Only one launch at a time may
    // allocate.
    static DeviceHeap& get();

    // Adds the allocations to a launch's memory, and removes those that were freed.
    void map_into(AddressSpace& memory);

    // The thread that called malloc or free, and its instruction.
    struct Caller {
        uint32_t pc = 0;
        Dim3 thread, block;
    };
    // Allocates memory and returns its address, or 0 if the heap is full.
    [[nodiscard]] uint64_t allocate(AddressSpace& memory, uint64_t bytes, const Caller& caller);
    // Frees an allocation. Returns false if there is no allocation at this address.
    [[nodiscard]] bool release(AddressSpace& memory, uint64_t address, const Caller& caller);

    // An allocation that was freed, and the call of free().
    struct Freed {
        uint64_t bytes;
        Caller caller;
        uint64_t launch;  // the number of the launch that freed it
    };
    // Returns the allocation that was at this address, or null if there was none.
    [[nodiscard]] const Freed* freed(uint64_t address) const;
    // Returns the number of the current launch.
    [[nodiscard]] uint64_t launch() const { return launch_; }

    [[nodiscard]] uint64_t limit() const { return limit_; }
    void set_limit(uint64_t bytes) { limit_ = bytes; }
    void clear();

    // An allocation that was lost: it was made after the last call of mark(), it was not freed, and
    // no kernel can find it any more. A kernel can find an allocation if a pointer to it is stored
    // in an array, in a variable, or in another allocation that the kernel can find. lost() returns
    // all lost allocations.
    struct Lost {
        Caller caller;
        uint64_t bytes;
    };
    void mark() { marked_ = next_; }
    [[nodiscard]] std::vector<Lost> lost(const AddressSpace& memory) const;

  private:
    struct Allocation {
        uint64_t bytes;
        Caller caller;
        std::unique_ptr<std::byte[]> host;
        std::unique_ptr<bool[]> undefined;
        [[nodiscard]] Buffer buffer(uint64_t address) const;
    };
    static constexpr size_t most_freed = 100'000;  // the latest ones are kept
    std::map<uint64_t, Allocation> live_;
    std::map<uint64_t, Freed> freed_;
    std::atomic<uint64_t> launch_ = 0;  // launches of other host threads increment it, too
    uint64_t next_ = device_heap_base, used_ = 0, marked_ = device_heap_base;
    uint64_t limit_ = device_heap_bytes;
};

// Execute malloc and free for one lane.
[[nodiscard]] uint64_t device_malloc(const Warp& warp, const Op& op, int lane, uint64_t bytes);
void device_free(const Warp& warp, const Op& op, int lane, uint64_t address);

}  // namespace coalesce::sim
