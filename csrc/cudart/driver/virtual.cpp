// The driver API: virtual memory management. A program reserves addresses, creates memory, and maps
// the memory at the addresses.
//
// METHOD
// Created memory is a Linux file without a name (memfd). A reservation has two ranges of the same
// size: one of simulated addresses, and one in this process, where the simulator accesses the data.
// mmap() maps created memory into the second range. Neighbouring mappings with the same access
// become one allocation, because kernels and copies may use them as one array. In a checked run, a
// second file and a third range say which bytes are undefined, so that the memory keeps this state
// wherever it is mapped.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cudart/abi/driver.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// Current GPUs map memory in units of 2 MiB.
constexpr uint64_t granularity = 2 << 20;
constexpr int read_access = 1, read_write_access = 3;
constexpr int handle_none = 0, handle_file = 1;

CreatedRecord& created(CreatedHandle handle) {
    require(runtime().virtual_memory.created.contains(handle) && !handle->released,
            cudaErrorInvalidValue,
            "the handle was not created by cuMemCreate(), or it was released");
    return *handle;
}

void drop(CreatedHandle handle) {
    if (--handle->uses > 0) return;
    close(handle->file);
    if (handle->undefined >= 0) close(handle->undefined);
    runtime().memory.give_back(handle->bytes);
    runtime().virtual_memory.created.erase(handle);
    delete handle;
}

int make_file(uint64_t bytes) {
    const int file = memfd_create("cuMemCreate", MFD_CLOEXEC);
    require(file >= 0 && ftruncate(file, off_t(bytes)) == 0, cudaErrorMemoryAllocation);
    return file;
}

CreatedHandle keep(int file, uint64_t bytes, const AllocationProperties& properties) {
    Runtime& rt = runtime();
    rt.memory.take(bytes);
    const int undefined = rt.memory.keeps_undefined() ? make_file(bytes) : -1;
    return *rt.virtual_memory.created.insert(new CreatedRecord{file, undefined, bytes, properties})
                .first;
}

// Returns a range of addresses of this process. Nothing is mapped there.
std::byte* reserve(uint64_t bytes) {
    void* const got =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(got != MAP_FAILED, cudaErrorMemoryAllocation);
    return static_cast<std::byte*>(got);
}

void map(std::byte* at, uint64_t bytes, int file) {
    void* const got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    require(got != MAP_FAILED, cudaErrorMemoryAllocation);
}

void unmap(std::byte* at, uint64_t bytes) {
    mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void check_multiple(uint64_t bytes) {
    require(
        bytes > 0 && bytes % granularity == 0, cudaErrorInvalidValue,
        "sizes and addresses must be multiples of what cuMemGetAllocationGranularity() returns");
}

Reservation& reservation_of(uint64_t address, uint64_t bytes) {
    auto& all = runtime().virtual_memory.reservations;
    const auto after = all.upper_bound(address);
    require(after != all.begin(), cudaErrorInvalidValue, "the address is not reserved");
    Reservation& r = std::prev(after)->second;
    require(address - r.address <= r.bytes && bytes <= r.bytes - (address - r.address),
            cudaErrorInvalidValue,
            "the range is not within one range that cuMemAddressReserve() reserved");
    return r;
}

// Returns the mappings of a range. Throws Failure unless they cover it exactly.
std::vector<uint64_t> mappings_of(const Reservation& r, uint64_t address, uint64_t bytes) {
    std::vector<uint64_t> addresses;
    uint64_t at = address;
    while (at < address + bytes) {
        const auto mapping = r.mappings.find(at);
        require(mapping != r.mappings.end() && mapping->second.bytes <= address + bytes - at,
                cudaErrorInvalidValue, "the range does not consist of whole mappings");
        addresses.push_back(at);
        at += mapping->second.bytes;
    }
    return addresses;
}

// Makes allocations of the mappings that kernels can access.
void update(Reservation& r) {
    Memory& memory = runtime().memory;
    for (const uint64_t address : r.allocations) memory.remove(address);
    r.allocations.clear();
    for (auto first = r.mappings.begin(); first != r.mappings.end();) {
        uint64_t end = first->first;
        auto last = first;
        for (; last != r.mappings.end() && last->first == end &&
               last->second.access == first->second.access;
             ++last)
            end += last->second.bytes;
        if (first->second.access) {
            Allocation a;
            a.address = first->first;
            a.bytes = end - first->first;
            a.host = r.host + (first->first - r.address);
            if (r.undefined)  // the range belongs to the reservation
                a.undefined = {reinterpret_cast<bool*>(r.undefined + (first->first - r.address)),
                               [](bool*) {}};
            a.kind = Kind::mapped;
            a.writable = first->second.access == read_write_access;
            a.function = "cuMemMap";
            a.number = r.number;
            a.caller = caller();
            a.owner = runtime().contexts.owner();
            a.name = "cuMemMap number " + std::to_string(r.number);
            r.allocations.push_back(a.address);
            memory.add(std::move(a));
        }
        first = last;
    }
}

void check_properties(const AllocationProperties* p) {
    require(p, cudaErrorInvalidValue);
    constexpr int pinned = 1, on_device = 1;
    require(p->type == pinned, cudaErrorInvalidValue,
            "the type of the allocation must be CU_MEM_ALLOCATION_TYPE_PINNED");
    require(p->location.type == on_device, cudaErrorNotSupported,
            "cuMemCreate() of host memory is not simulated");
    check_device(p->location.id);
    require(p->requestedHandleTypes == handle_none || p->requestedHandleTypes == handle_file,
            cudaErrorNotSupported, "only file descriptors are simulated as shareable handles");
}

}  // namespace

void core::cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties* p, int) {
    require(bytes, cudaErrorInvalidValue);
    check_properties(p);
    *bytes = granularity;
}
void core::cuMemAddressReserve(DevicePointer* address, size_t bytes, size_t alignment,
                               DevicePointer /*wanted*/, unsigned long long flags) {
    require(address && flags == 0, cudaErrorInvalidValue);
    require((alignment & (alignment - 1)) == 0, cudaErrorInvalidValue,
            "the alignment must be 0 or a power of two");
    check_multiple(bytes);
    Reservation r;
    r.address = runtime().memory.reserve(bytes, std::max<uint64_t>(alignment, granularity));
    r.bytes = bytes;
    r.number = ++runtime().virtual_memory.count;
    r.host = reserve(bytes);
    if (runtime().memory.keeps_undefined()) r.undefined = reserve(bytes);
    *address = r.address;
    runtime().virtual_memory.reservations.emplace(r.address, std::move(r));
}
void core::cuMemAddressFree(DevicePointer address, size_t bytes) {
    const auto entry = runtime().virtual_memory.reservations.find(address);
    require(entry != runtime().virtual_memory.reservations.end() && entry->second.bytes == bytes,
            cudaErrorInvalidValue,
            "the range is not exactly one range that cuMemAddressReserve() reserved");
    require(entry->second.mappings.empty(), cudaErrorInvalidValue,
            "memory is still mapped in the range; cuMemUnmap() must come first");
    munmap(entry->second.host, bytes);
    if (entry->second.undefined) munmap(entry->second.undefined, bytes);
    runtime().virtual_memory.reservations.erase(entry);
    runtime().memory.end_reservation(address, bytes);
}
void core::cuMemCreate(CreatedHandle* handle, size_t bytes, const AllocationProperties* p,
                       unsigned long long flags) {
    require(handle && flags == 0, cudaErrorInvalidValue);
    check_properties(p);
    check_multiple(bytes);
    *handle = keep(make_file(bytes), bytes, *p);
    if ((*handle)->undefined < 0) return;
    std::byte* const undefined = reserve(bytes);
    map(undefined, bytes, (*handle)->undefined);
    std::memset(undefined, true, bytes);
    munmap(undefined, bytes);
}
void core::cuMemRelease(CreatedHandle handle) {
    created(handle).released = true;
    drop(handle);
}
void core::cuMemMap(DevicePointer address, size_t bytes, size_t offset, CreatedHandle handle,
                    unsigned long long flags) {
    require(flags == 0 && offset == 0, cudaErrorInvalidValue,
            "the offset and the flags of cuMemMap() must be 0");
    CreatedRecord& memory = created(handle);
    check_multiple(bytes);
    Reservation& r = reservation_of(address, bytes);
    require((address - r.address) % granularity == 0, cudaErrorInvalidValue);
    require(bytes <= memory.bytes, cudaErrorInvalidValue,
            "cuMemMap() maps more bytes than cuMemCreate() created");
    const auto next = r.mappings.lower_bound(address);
    const bool after = next == r.mappings.end() || next->first >= address + bytes;
    const bool before = next == r.mappings.begin() ||
                        std::prev(next)->first + std::prev(next)->second.bytes <= address;
    require(after && before, cudaErrorInvalidValue, "memory is already mapped in the range");
    map(r.host + (address - r.address), bytes, memory.file);
    if (r.undefined) map(r.undefined + (address - r.address), bytes, memory.undefined);
    ++memory.uses;
    r.mappings[address] = {bytes, handle, 0};
    update(r);
}
void core::cuMemUnmap(DevicePointer address, size_t bytes) {
    Reservation& r = reservation_of(address, bytes);
    for (const uint64_t at : mappings_of(r, address, bytes)) {
        const Mapping mapping = r.mappings[at];
        unmap(r.host + (at - r.address), mapping.bytes);
        if (r.undefined) unmap(r.undefined + (at - r.address), mapping.bytes);
        r.mappings.erase(at);
        drop(mapping.memory);
    }
    update(r);
}
void core::cuMemSetAccess(DevicePointer address, size_t bytes, const AccessDescription* list,
                          size_t count) {
    require(list && count > 0, cudaErrorInvalidValue);
    Reservation& r = reservation_of(address, bytes);
    const std::vector<uint64_t> addresses = mappings_of(r, address, bytes);
    constexpr int on_device = 1;
    for (size_t i = 0; i < count; ++i) {
        const int access = list[i].flags;
        require(list[i].location.type == on_device && list[i].location.id == 0,
                cudaErrorInvalidDevice, "there is one device, number 0");
        require(access == 0 || access == read_access || access == read_write_access,
                cudaErrorInvalidValue);
        for (const uint64_t at : addresses) r.mappings[at].access = access;
    }
    update(r);
}
void core::cuMemGetAccess(unsigned long long* flags, const MemoryLocation*, DevicePointer address) {
    require(flags, cudaErrorInvalidValue);
    const Reservation& r = reservation_of(address, 1);
    const auto mapping = r.mappings.upper_bound(address);
    require(mapping != r.mappings.begin(), cudaErrorInvalidValue, "no memory is mapped here");
    *flags = unsigned(std::prev(mapping)->second.access);
}
void core::cuMemRetainAllocationHandle(CreatedHandle* handle, const void* pointer) {
    require(handle, cudaErrorInvalidValue);
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const Reservation& r = reservation_of(address, 1);
    const auto after = r.mappings.upper_bound(address);
    require(after != r.mappings.begin(), cudaErrorInvalidValue, "no memory is mapped here");
    const Mapping& mapping = std::prev(after)->second;
    require(address - std::prev(after)->first < mapping.bytes, cudaErrorInvalidValue,
            "no memory is mapped here");
    *handle = mapping.memory;
    ++mapping.memory->uses;
    mapping.memory->released = false;
}
void core::cuMemGetAllocationPropertiesFromHandle(AllocationProperties* p, CreatedHandle handle) {
    require(p, cudaErrorInvalidValue);
    *p = created(handle).properties;
}
// Another process can map the memory, too, if it gets the file descriptor.
void core::cuMemExportToShareableHandle(int* file, CreatedHandle handle, int type,
                                        unsigned long long) {
    const CreatedRecord& memory = created(handle);
    require(file && type == handle_file && memory.properties.requestedHandleTypes == type,
            cudaErrorInvalidValue,
            "memory can be exported only with the type of handle that cuMemCreate() was asked "
            "for (requestedHandleTypes)");
    *file = dup(memory.file);
    require(*file >= 0, cudaErrorOperatingSystem);
}
void core::cuMemImportFromShareableHandle(CreatedHandle* handle, void* file, int type) {
    require(handle && type == handle_file, cudaErrorInvalidValue);
    const int own = dup(int(reinterpret_cast<intptr_t>(file)));
    struct stat status{};
    require(own >= 0 && fstat(own, &status) == 0 && status.st_size > 0, cudaErrorInvalidValue,
            "the file descriptor was not returned by cuMemExportToShareableHandle()");
    AllocationProperties p{};
    p.type = p.location.type = p.requestedHandleTypes = 1;
    *handle = keep(own, uint64_t(status.st_size), p);
}

}  // namespace coalesce::cudart
