// The memory that a program has allocated: device, pinned and managed memory.
//
// METHOD
// When the library is loaded, it reserves one range of the process's address space. All allocations
// have addresses in this range. For device memory, nothing is mapped there: the data are elsewhere,
// where the simulator accesses them. So the host can store device pointers and compute with them,
// but a read or write through one stops the program with a message (host_faults.cpp). Pinned and
// managed memory is mapped at its address, so that host and kernels can use it. Addresses are not
// reused: the use of a pointer after cudaFree() is detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cudart/abi.hpp"
#include "sim/address_space.hpp"

namespace coalesce::cudart {

inline constexpr uint64_t arena_base = 0x6000'0000'0000;
inline constexpr uint64_t arena_bytes = uint64_t{8} << 40;

enum class Kind : uint8_t { device, managed, pinned, registered, variable };

struct Allocation {
    uint64_t address = 0;
    uint64_t bytes = 0;
    std::byte* host = nullptr;  // the data; for device memory, this differs from `address`
    Kind kind = Kind::device;
    bool writable = true;  // by a kernel
    unsigned flags = 0;    // of cudaHostAlloc() and similar functions
    uint64_t number = 0;   // number of the allocation, from 1
    const char* function = "";
    void* caller = nullptr;  // return address of the call that allocated it
    std::string name;        // of a variable; otherwise made from function and number
    // For each byte, in a checked run; null: all bytes are defined.
    std::unique_ptr<bool[]> undefined;
    [[nodiscard]] uint64_t end() const { return address + bytes; }
    [[nodiscard]] bool readable_by_host() const {
        return kind != Kind::device && kind != Kind::variable;
    }
    [[nodiscard]] std::string described() const;
};

class Memory {
  public:
    // Makes an allocation. Throws Failure{cudaErrorMemoryAllocation} if memory is exhausted.
    Allocation& allocate(uint64_t bytes, Kind kind, const char* function, unsigned flags = 0);
    // Registers memory that belongs to the program, or a variable of a module.
    Allocation& add(Allocation allocation);
    void free(uint64_t address, bool of_host, const char* function);
    void remove(uint64_t address);  // memory that was registered with add()
    void free_all();                // except variables

    // The allocation that contains an address, or null.
    [[nodiscard]] Allocation* find(const void* pointer);
    [[nodiscard]] Allocation* find(uint64_t address);
    // Describes the freed allocation that contained this address; empty if there was none.
    [[nodiscard]] std::string freed_at(uint64_t address) const;
    // The host's view of `bytes` bytes at a pointer that a call received. If the pointer is in an
    // allocation, the view points to its data; otherwise it is the pointer itself. Throws Failure
    // if the bytes exceed the allocation, or if the pointer is in the reserved range but in no
    // allocation. `what` names the pointer in messages.
    struct View {
        std::byte* host;
        Allocation* allocation;  // null: the program's own memory
        uint64_t offset;
    };
    View view(const void* pointer, uint64_t bytes, const char* what);
    // Marks bytes of an allocation as defined.
    static void define(const View& to, uint64_t bytes);
    // Marks bytes as defined if the bytes from which they were copied are defined.
    static void copy_defined(const View& to, const View& from, uint64_t bytes);

    // The addresses for the variables of the next module: where they start, and where they ended.
    [[nodiscard]] uint64_t next_module() const { return next_; }
    void after_module(uint64_t end);

    // All allocations, as kernels see them. `names` has the names that the kernel's source uses for
    // the allocations of its arguments, by address.
    struct Named {
        std::string name, type;
        uint32_t item_bytes = 0;
        bool operator==(const Named&) const = default;
    };
    using Names = std::map<uint64_t, Named>;
    [[nodiscard]] sim::AddressSpace& address_space(const Names& names);

    // In a checked run: host-accessible memory that the GPU may still be using, until the host
    // waits for the GPU. Accesses of the host to this memory are detected (host_faults.cpp).
    void use_unwaited(uint64_t address);
    void guard_unwaited(bool guarded);
    void forget_unwaited() { unwaited_.clear(); }
    // Makes the memory accessible to the host again. Returns null if the address is in no such
    // memory.
    [[nodiscard]] const Allocation* release_unwaited(uint64_t address);

    [[nodiscard]] uint64_t used() const { return used_; }
    [[nodiscard]] uint64_t total()
        const;  // of the simulated GPU, but at most half of this machine's memory
    [[nodiscard]] const std::map<uint64_t, Allocation>& all() const { return allocations_; }
    void keep_undefined() { checked_ = true; }

  private:
    std::map<uint64_t, Allocation> allocations_;
    struct Freed {
        uint64_t bytes;
        std::string description;
    };
    std::map<uint64_t, Freed> freed_;
    std::set<uint64_t> unwaited_;
    bool guarded_ = false;
    sim::AddressSpace space_;
    Names names_;
    bool stale_ = true, checked_ = false;
    uint64_t next_ = arena_base, used_ = 0, count_ = 0;
};

// Reserves the range of addresses.
void reserve_arena();
[[nodiscard]] inline bool in_arena(uint64_t address) { return address - arena_base < arena_bytes; }

}  // namespace coalesce::cudart
