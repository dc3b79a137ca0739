// The memory that a program has allocated: device, pinned and managed memory.
//
// METHOD
// When the library is loaded, it reserves one range of the process's address space. All allocations
// have addresses in this range. The addresses of device memory are not mapped: its data are
// elsewhere, where the simulator accesses them. So the host can store device pointers and compute
// with them. But if the host reads or writes through a device pointer, the program stops with a
// message (signals.cpp). Pinned and managed memory is mapped at its address, so that host and
// kernels can use it. The handles of texture and surface objects are addresses in another range,
// which the host never reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cudart/abi/abi.hpp"
#include "cudart/state/contexts.hpp"
#include "sim/memory/address_range.hpp"
#include "sim/memory/address_space.hpp"

namespace coalesce::cudart {

inline constexpr uint64_t arena_base = 0x6000'0000'0000;
inline constexpr uint64_t arena_bytes = uint64_t{8} << 40;
inline constexpr uint64_t page = 4096;  // of the host

enum class Kind : uint8_t {
    device,
    managed,
    pinned,
    registered,
    variable,
    array,   // a CUDA array or mipmapped array (arrays.hpp)
    object,  // a texture or surface object (arrays.hpp)
    mapped,  // memory of cuMemMap() (driver/virtual.cpp)
};

// A range of simulated addresses, and the data there.
struct Allocation {
    uint64_t address = 0;
    uint64_t bytes = 0;
    // The data. For device memory, this address differs from `address`.
    std::byte* host = nullptr;
    Kind kind = Kind::device;
    bool writable = true;  // whether kernels may write to the allocation
    unsigned flags = 0;    // the flags of cudaHostAlloc() or a similar function
    Context owner = nullptr;
    uint64_t number = 0;  // number of the allocation, from 1
    const char* function = "";
    // It may live until the end of the program, as an object of a texture reference or the memory
    // of a graph. So it is no leak.
    bool stays = false;
    // The return address of the call that made the allocation.
    void* caller = nullptr;
    // The name of the variable. For other allocations, it is made from the function and the number.
    std::string name;
    // The declaration of a variable, if it is known.
    uint32_t item_bytes = 0;
    std::vector<int64_t> shape;
    std::string type;
    // The last cudaMemset() of the allocation: the byte that it set, and its return address.
    struct Fill {
        std::byte value{};
        void* caller = nullptr;
    } filled = {};
    // In a checked run, whether each byte is undefined. Null means that all bytes are defined.
    std::shared_ptr<bool[]> undefined;
    [[nodiscard]] uint64_t end() const { return address + bytes; }
    [[nodiscard]] bool readable_by_host() const {
        return kind == Kind::managed || kind == Kind::pinned || kind == Kind::registered;
    }
    [[nodiscard]] std::string described() const;
};

// All allocations of the program.
class Memory {
  public:
    // Makes an allocation. Throws Failure{cudaErrorMemoryAllocation} if memory is exhausted.
    Allocation& allocate(uint64_t bytes, Kind kind, unsigned flags = 0);
    // Registers memory that belongs to the program, or a variable of a module.
    Allocation& add(Allocation allocation);
    void free(uint64_t address, bool of_host);
    // Frees an allocation that is known to be of the right kind.
    void release(uint64_t address);
    void remove(uint64_t address);  // memory must be registered with add()
    void free_all(Context owner);   // variables stay allocated

    // Returns the allocation that contains an address, or null.
    [[nodiscard]] Allocation* find(const void* pointer);
    [[nodiscard]] Allocation* find(uint64_t address);
    // Describes the freed allocation that contained this address. Returns an empty text if there
    // was none.
    [[nodiscard]] std::string freed_at(uint64_t address) const;
    // Returns where the host can access `bytes` bytes at a pointer that a call received. If the
    // pointer is in an allocation, this is the allocation's data. Otherwise it is the pointer
    // itself. Throws Failure if the bytes exceed the allocation. Also throws Failure if the pointer
    // is in the reserved range but in no allocation. `what` names the pointer in messages.
    struct View {
        std::byte* host;
        Allocation* allocation;  // null for the program's own memory
        uint64_t offset;
    };
    View view(const void* pointer, uint64_t bytes, const char* what);
    // Marks bytes of an allocation as defined.
    static void define(const View& to, uint64_t bytes);
    // Marks the bytes of `to` as defined if the bytes of `from` are defined.
    static void copy_defined(const View& to, const View& from, uint64_t bytes);

    // Reduces the free memory of the simulated GPU by `bytes`. Call this for memory that is
    // allocated elsewhere. Throws Failure{cudaErrorMemoryAllocation} if there is not enough.
    void take(uint64_t bytes);
    void give_back(uint64_t bytes) { used_ -= bytes; }
    // Returns the start of a range of addresses that no allocation will get.
    [[nodiscard]] uint64_t reserve(uint64_t bytes, uint64_t alignment);
    void end_reservation(uint64_t address, uint64_t bytes);

    // The variables of the next module start at the address that next_module() returns.
    [[nodiscard]] uint64_t next_module() const { return arena_.next; }
    void after_module(uint64_t end);

    // Returns all allocations as buffers of a launch. `names` maps the address of an allocation to
    // the name of the kernel's parameter for which it is passed.
    struct Named {
        std::string name, type;
        uint32_t item_bytes = 0;
        bool operator==(const Named&) const = default;
    };
    using Names = std::map<uint64_t, Named>;
    [[nodiscard]] sim::AddressSpace& address_space(const Names& names);

    [[nodiscard]] uint64_t used() const { return used_; }
    // Returns the size of the simulated GPU's memory, but at most half of this machine's memory.
    [[nodiscard]] uint64_t total() const;
    [[nodiscard]] const std::map<uint64_t, Allocation>& all() const { return allocations_; }
    void keep_undefined() { checked_ = true; }
    [[nodiscard]] bool keeps_undefined() const { return checked_; }
    // How often an allocation was made or freed.
    [[nodiscard]] uint64_t changes() const { return changes_; }

  private:
    void changed() { stale_ = true, ++changes_; }

    struct Freed {
        uint64_t bytes;
        std::string name, description;
    };

    void check_room(uint64_t bytes) const;
    // Returns addresses for an allocation. Throws Failure{cudaErrorMemoryAllocation} if there are
    // none.
    [[nodiscard]] uint64_t place(sim::AddressRange& range, uint64_t bytes, uint64_t alignment);
    void keep_freed(uint64_t address, Freed freed);
    // Returns the freed memory that contained this address, or freed_.end().
    [[nodiscard]] std::map<uint64_t, Freed>::const_iterator freed_range(uint64_t address) const;

    std::map<uint64_t, Allocation> allocations_;
    std::map<uint64_t, Freed> freed_;
    sim::AddressSpace space_;
    Names names_;
    bool stale_ = true, checked_ = false;
    sim::AddressRange arena_{arena_base, arena_base + arena_bytes, sim::guard_gap, sim::guard_gap};
    sim::AddressRange objects_{sim::objects_base, sim::objects_end, 256, 0};
    uint64_t used_ = 0, count_ = 0, changes_ = 0;
};

// A memory pool. Freed memory is released at once, so a pool reserves exactly the memory in use.
struct PoolRecord {
    std::map<int, uint64_t> attributes{{1, 1}, {2, 1}, {3, 1}, {4, 0}};
};
struct Pools {
    PoolRecord default_pool;
    Pool current = &default_pool;
    std::set<Pool> made;
};

// The state of virtual memory management (driver/virtual.cpp).
struct CreatedRecord {
    int file = -1;
    int undefined = -1;  // in a checked run, a file that says whether each byte is undefined
    uint64_t bytes = 0;
    AllocationProperties properties{};
    uint64_t uses = 1;  // the handle and the mappings
    bool released = false;
};
struct Mapping {
    uint64_t bytes = 0;
    CreatedHandle memory = nullptr;
    int access = 0;
};
struct Reservation {
    uint64_t address = 0, bytes = 0, number = 0;
    std::byte* host = nullptr;
    std::byte* undefined = nullptr;  // null unless the run is checked
    std::map<uint64_t, Mapping> mappings;
    std::vector<uint64_t> allocations;  // addresses, in Runtime::memory
};
struct VirtualMemory {
    std::set<CreatedHandle> created;
    std::map<uint64_t, Reservation> reservations;
    uint64_t count = 0;
};

// Reserves the range of addresses.
void reserve_arena();
[[nodiscard]] inline bool in_arena(uint64_t address) { return address - arena_base < arena_bytes; }

}  // namespace coalesce::cudart
