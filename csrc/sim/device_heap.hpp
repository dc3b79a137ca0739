// The heap of device code: what malloc, free, new and delete in a kernel use.
//
// METHOD
// As on a GPU there is one heap, of a fixed size, and what a kernel allocates lives until a kernel
// frees it (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and Operations"). Each
// allocation is a buffer of the launch's address space, with a gap behind it, and no address is
// given out twice: so an access outside an allocation is found, and one to freed memory, too. A
// kernel that allocates runs on one host thread, as address spaces change meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/address_space.hpp"
#include "sim/launch.hpp"

namespace coalesce::sim {

// Above all other memory, also the host's that whole programs share with their kernels: so new
// buffers follow those that an address space has.
inline constexpr uint64_t device_heap_base = 0x8000'0000'0000;
inline constexpr uint64_t device_heap_bytes = 8u << 20;  // unless cudaDeviceSetLimit changes it

struct Warp;
struct Op;

class DeviceHeap {
  public:
    // The heap of all launches of this process. One launch at a time allocates.
    static DeviceHeap& get();

    // Adds the allocations to a launch's memory, and takes out those that have been freed since.
    void map_into(AddressSpace& memory);

    // The call of malloc: its instruction, and who made it.
    struct Caller {
        uint32_t pc = 0;
        Dim3 thread, block;
    };
    // 0: the heap is full.
    [[nodiscard]] uint64_t allocate(AddressSpace& memory, uint64_t bytes, const Caller& caller);
    // What is wrong with it; empty: nothing.
    [[nodiscard]] std::string release(AddressSpace& memory, uint64_t address);

    [[nodiscard]] uint64_t limit() const { return limit_; }
    void set_limit(uint64_t bytes) { limit_ = bytes; }
    void clear();

    // Allocations since mark() to which no pointer is left in `memory`.
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
    std::map<uint64_t, Allocation> live_;
    uint64_t next_ = device_heap_base, used_ = 0, marked_ = device_heap_base;
    uint64_t limit_ = device_heap_bytes;
};

// malloc and free of one lane.
[[nodiscard]] uint64_t device_malloc(const Warp& warp, const Op& op, int lane, uint64_t bytes);
void device_free(const Warp& warp, const Op& op, int lane, uint64_t address);

}  // namespace coalesce::sim
