// What a program allocated: device, pinned and managed memory.
//
// METHOD
// Addresses come from one range of the process's address space that is reserved when the library is
// loaded. Device memory lies elsewhere, where the simulator finds it; at the address that the
// program knows nothing is mapped. So the host can pass device pointers around and compute with
// them, but a read or write through one stops the program with a message (host_faults.cpp). Pinned
// and managed memory is mapped at its address, so that both sides can use it. Addresses are not
// given out twice: a pointer that is used after cudaFree() is found out.
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
    std::byte* host = nullptr;  // where the bytes are; of device memory not its address
    Kind kind = Kind::device;
    bool writable = true;  // by a kernel
    unsigned flags = 0;    // of cudaHostAlloc() and its like
    uint64_t number = 0;   // counts allocations from 1
    const char* function = "";
    void* caller = nullptr;             // return address of the call that made it
    std::string name;                   // of a variable; else made of function and number
    std::unique_ptr<bool[]> undefined;  // of each byte, in a checked run; null: all are defined
    [[nodiscard]] uint64_t end() const { return address + bytes; }
    [[nodiscard]] bool readable_by_host() const {
        return kind != Kind::device && kind != Kind::variable;
    }
    [[nodiscard]] std::string described() const;
};

class Memory {
  public:
    // Makes an allocation; Failure{cudaErrorMemoryAllocation} where there is not enough memory.
    Allocation& allocate(uint64_t bytes, Kind kind, const char* function, unsigned flags = 0);
    // Makes the program's own memory, or a module's variable, known.
    Allocation& add(Allocation allocation);
    void free(uint64_t address, bool of_host, const char* function);
    void remove(uint64_t address);  // of add()
    void free_all();                // but for variables

    // The allocation that an address is in, or null.
    [[nodiscard]] Allocation* find(const void* pointer);
    [[nodiscard]] Allocation* find(uint64_t address);
    // What was once at an address in a freed allocation; empty if nothing was.
    [[nodiscard]] std::string freed_at(uint64_t address) const;
    // The host's view of `bytes` bytes at a pointer that a call was given: of an allocation where
    // the pointer is in one, else the pointer itself. Failure if they are not all there, or if the
    // pointer is in the reserved range and in no allocation. `wants_device` and `wants_host` are
    // what the call said of the pointer.
    struct View {
        std::byte* host;
        Allocation* allocation;  // null: the program's own memory
        uint64_t offset;
    };
    View view(const void* pointer, uint64_t bytes, const char* what);
    // Notes that bytes of an allocation mean something from now on.
    static void define(const View& to, uint64_t bytes);
    // ... or as much as those they were copied from.
    static void copy_defined(const View& to, const View& from, uint64_t bytes);

    // Where the variables of the next module start, and that they end here.
    [[nodiscard]] uint64_t next_module() const { return next_; }
    void after_module(uint64_t end);

    // All of it as kernels see it. `names` says how a kernel's source sees the allocations that
    // its arguments point to, by their addresses.
    struct Named {
        std::string name, type;
        uint32_t item_bytes = 0;
        bool operator==(const Named&) const = default;
    };
    using Names = std::map<uint64_t, Named>;
    [[nodiscard]] sim::AddressSpace& address_space(const Names& names);

    // In a checked run: memory of both sides that the GPU may still use, until the host waits. The
    // host cannot touch it then without being noticed (host_faults.cpp).
    void use_unwaited(uint64_t address);
    void guard_unwaited(bool guarded);
    void forget_unwaited() { unwaited_.clear(); }
    // Lets the host use it again; null if the address is in none of it.
    [[nodiscard]] const Allocation* release_unwaited(uint64_t address);

    [[nodiscard]] uint64_t used() const { return used_; }
    [[nodiscard]] uint64_t total()
        const;  // of the simulated GPU, or half of this machine's if less
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
