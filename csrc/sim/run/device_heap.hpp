// The heap from which kernels allocate memory when they call malloc, free, new and delete.
//
// METHOD
// As on a GPU, there is one heap of a fixed size, and an allocation lives until a kernel frees it
// (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and Operations"). Each allocation
// is a buffer of the launch's address space, followed by a gap, and addresses are not reused.
// Therefore accesses outside an allocation and accesses to freed memory are detected. An allocation
// changes the address space of the launch. So a kernel that allocates runs on one host thread only.
//
// Several launches may use the heap at the same time. A lock protects its tables. A launch knows
// the allocations that existed when it began, and its own ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fork.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/program/launch.hpp"

namespace coalesce::sim {

// The address at which the heap begins. It is above the addresses of all other memory, so each new
// buffer of the heap has a higher address than all existing buffers. If coalesce runs a whole CUDA
// program, the other memory includes host memory that the program shares with its kernels.
inline constexpr uint64_t device_heap_base = 0x8000'0000'0000;
// The default size of the heap in bytes. cudaDeviceSetLimit can change it.
inline constexpr uint64_t device_heap_bytes = 8u << 20;

struct Warp;
struct Op;

class DeviceHeap {
  public:
    // Returns the one heap that all launches of this process use.
    static DeviceHeap& get();

    // Adds the allocations to the memory of a new launch, and removes those that were freed.
    void map_into(AddressSpace& memory);

    // The thread that called malloc or free, and its instruction.
    struct Caller {
        uint32_t pc = 0;
        Dim3 thread, block;
    };
    // Allocates memory and returns its address, or 0 if the heap is full.
    [[nodiscard]] uint64_t allocate(AddressSpace& memory, uint64_t bytes, const Caller& caller);
    // Frees an allocation. Returns false if this memory has no allocation at this address.
    [[nodiscard]] bool release(AddressSpace& memory, uint64_t address, const Caller& caller);

    // An allocation that was freed, and the call of free().
    struct Freed {
        uint64_t bytes;
        Caller caller;
        uint64_t launch;  // the number of the launch that freed it
    };
    // Returns the allocation that was at this address, if there was one.
    [[nodiscard]] std::optional<Freed> freed(uint64_t address) const;

    // Whether allocate() has returned 0 in the launch with this memory.
    [[nodiscard]] bool was_full(const AddressSpace& memory) const {
        return full_in_ == memory.heap.launch;
    }

    [[nodiscard]] uint64_t limit() const { return limit_; }
    void set_limit(uint64_t bytes) { limit_ = bytes; }
    void clear();

    // A lost allocation was not freed, and no kernel can find its address any more. A kernel can
    // find the address of an allocation in an array, in a variable, or in another allocation whose
    // address it can find. lost() returns the lost allocations that the launch with this memory has
    // made.
    struct Lost {
        Caller caller;
        uint64_t bytes;
    };
    [[nodiscard]] std::vector<Lost> lost(const AddressSpace& memory) const;

  private:
    struct Contents {
        struct Free {
            void operator()(void* memory) const { std::free(memory); }
        };
        std::unique_ptr<std::byte[], Free> bytes;
        std::unique_ptr<bool[], Free> undefined;
    };
    struct Allocation {
        uint64_t bytes;
        Caller caller;
        uint64_t launch;  // the number of the launch that made it
        std::shared_ptr<const Contents> contents;
        [[nodiscard]] Buffer buffer(uint64_t address) const;
    };
    static constexpr size_t max_freed = 100'000;  // the latest ones are kept
    mutable ForkSafe<std::mutex> mutex_;          // protects all members except the atomics
    std::map<uint64_t, Allocation> live_;
    std::map<uint64_t, Freed> freed_;
    uint64_t launches_ = 0, next_ = device_heap_base, used_ = 0;
    std::atomic<uint64_t> limit_ = device_heap_bytes;
    std::atomic<uint64_t> full_in_ = UINT64_MAX;  // the last launch in which the heap was full
};

// Execute malloc and free for one lane.
[[nodiscard]] uint64_t device_malloc(const Warp& warp, const Op& op, int lane, uint64_t bytes);
void device_free(const Warp& warp, const Op& op, int lane, uint64_t address);

}  // namespace coalesce::sim
