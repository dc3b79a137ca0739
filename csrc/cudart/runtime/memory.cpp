// Allocations: device, pinned, managed and pitched memory, and memory from pools.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"
#include "round_up.hpp"

namespace coalesce::cudart {

namespace {

// On current GPUs, cudaMallocPitch() rounds the length of a row up to a multiple of this number of
// bytes.
constexpr size_t pitch_unit = 512;

void* allocated(size_t bytes, Kind kind, unsigned flags = 0) {
    if (bytes == 0) return nullptr;
    return reinterpret_cast<void*>(runtime().memory.allocate(bytes, kind, flags).address);
}

// Returns whether the program may read these addresses, and write to them if `writes` is true.
bool is_mapped(uint64_t first, uint64_t end, bool writes) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; first < end && std::getline(maps, line);) {
        uint64_t from = 0, to = 0;
        char allowed[5] = {};  // such as "rw-p"
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, allowed);
        if (to <= first) continue;
        if (from > first || allowed[0] != 'r' || (writes && allowed[1] != 'w')) return false;
        first = to;
    }
    return first >= end;
}

void free_device(void* pointer) {
    if (pointer) runtime().memory.free(reinterpret_cast<uint64_t>(pointer), false);
}

}  // namespace

void core::cudaMalloc(void** pointer, size_t bytes) {
    require(pointer, cudaErrorInvalidValue);
    *pointer = nullptr;
    if (!bytes) return;
    runtime().streams.refuse_in_capture();
    *pointer = allocated(bytes, Kind::device);
}

void core::cudaFree(void* pointer) { free_device(pointer); }

void core::cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
    require(pointer && (flags == 1 || flags == 2), cudaErrorInvalidValue);
    *pointer = nullptr;
    if (!bytes) return;
    runtime().streams.refuse_in_capture();
    *pointer = allocated(bytes, Kind::managed, flags);
}

void core::cudaMallocHost(void** pointer, size_t bytes) {
    require(pointer, cudaErrorInvalidValue);
    *pointer = allocated(bytes, Kind::pinned);
}

void core::cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
    require(pointer && flags < 8, cudaErrorInvalidValue);
    *pointer = allocated(bytes, Kind::pinned, flags);
}

void core::cudaFreeHost(void* pointer) {
    if (pointer) runtime().memory.free(reinterpret_cast<uint64_t>(pointer), true);
}

void core::cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
    constexpr unsigned all_flags = 15;  // portable, mapped, I/O memory, read-only
    constexpr unsigned read_only = 8;
    require(pointer && bytes && flags <= all_flags, cudaErrorInvalidValue);
    Memory& memory = runtime().memory;
    const auto first = reinterpret_cast<uint64_t>(pointer);
    require(bytes <= UINT64_MAX - first, cudaErrorInvalidValue);
    const auto next = memory.all().lower_bound(first);
    const Allocation* a = memory.find(first);
    if (!a && next != memory.all().end() && next->first < first + bytes) a = &next->second;
    require(!a || a->kind != Kind::registered, cudaErrorHostMemoryAlreadyRegistered);
    require(!a, cudaErrorInvalidValue, "the memory was allocated with CUDA");
    require(is_mapped(first, first + bytes, !(flags & read_only)), cudaErrorInvalidValue,
            "a part of the range is not memory of the program, or the program may not write to it "
            "(then add cudaHostRegisterReadOnly)");
    Allocation made;
    made.address = first;
    made.bytes = bytes;
    made.host = static_cast<std::byte*>(pointer);
    made.kind = Kind::registered;
    made.writable = !(flags & read_only);
    made.flags = flags;
    made.function = "cudaHostRegister";
    made.name = "memory of cudaHostRegister";
    made.caller = caller();
    memory.add(std::move(made));
}

void core::cudaHostUnregister(void* pointer) {
    Memory& memory = runtime().memory;
    const Allocation* const a = memory.find(pointer);
    require(pointer && (!a || (a->kind == Kind::registered && a->host == pointer)),
            cudaErrorInvalidValue);
    require(a, cudaErrorHostMemoryNotRegistered);
    memory.remove(a->address);
}

void core::cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
    const Allocation* const a = runtime().memory.find(host);
    require(device && flags == 0 && a && a->readable_by_host(), cudaErrorInvalidValue);
    *device = host;
}

void core::cudaHostGetFlags(unsigned* flags, void* host) {
    const Allocation* const a = runtime().memory.find(host);
    require(flags && a && a->kind == Kind::pinned, cudaErrorInvalidValue);
    *flags = a->flags | 2;  // all pinned memory is mapped
}

void core::cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
    require(pointer && pitch && width <= SIZE_MAX - pitch_unit, cudaErrorInvalidValue);
    *pitch = round_up(width, pitch_unit);
    // As on a GPU, a product of more than 64 bits wraps around, and the call succeeds.
    *pointer = allocated(*pitch * height, Kind::device);
}

void core::cudaMalloc3D(PitchedPointer* pointer, Extent extent) {
    require(pointer && extent.width <= SIZE_MAX - pitch_unit, cudaErrorInvalidValue);
    const size_t pitch = round_up(extent.width, pitch_unit);
    size_t bytes = 0;
    require(!__builtin_mul_overflow(pitch, extent.height, &bytes) &&
                !__builtin_mul_overflow(bytes, extent.depth, &bytes),
            cudaErrorInvalidValue, "the extent of cudaMalloc3D() is larger than any memory");
    *pointer = {allocated(bytes, Kind::device), pitch, extent.width, extent.height};
}

void core::cudaMemGetInfo(size_t* free, size_t* total) {
    require(free && total, cudaErrorInvalidValue);
    const Memory& memory = runtime().memory;
    *total = memory.total();
    *free = *total - std::min<uint64_t>(*total, memory.used());
}

void core::cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
    require(attributes, cudaErrorInvalidValue);
    *attributes = {};
    attributes->device = -2;
    const Allocation* const a = runtime().memory.find(pointer);
    auto* const same = const_cast<void*>(pointer);
    if (!a) {
        attributes->hostPointer = in_arena(reinterpret_cast<uint64_t>(pointer)) ? nullptr : same;
        return;
    }
    const bool managed = a->kind == Kind::managed;
    attributes->device = 0;
    attributes->type = managed                 ? MemoryType::managed
                       : a->readable_by_host() ? MemoryType::host
                                               : MemoryType::device;
    attributes->devicePointer = same;
    attributes->hostPointer = a->readable_by_host() ? same : nullptr;
}

// Allocates or frees memory in the order of a stream. The simulator does this immediately. But
// memory that a captured stream frees is allocated again by each launch of the graph. So it keeps
// its address, and is not freed.
void core::cudaMallocAsync(void** pointer, size_t bytes, Stream stream) {
    require(pointer, cudaErrorInvalidValue);
    const StreamRecord& s = runtime().streams.stream(stream);
    *pointer = nullptr;
    if (bytes == 0) return;
    Allocation& a = runtime().memory.allocate(bytes, Kind::device);
    a.stays = s.capture != nullptr;
    submit(AllocWork{a.address}, stream);
    *pointer = reinterpret_cast<void*>(a.address);
}

void core::cudaFreeAsync(void* pointer, Stream stream) {
    const bool captured = runtime().streams.stream(stream).capture;
    if (!pointer) return;
    require(!captured || runtime().memory.find(pointer), cudaErrorInvalidValue);
    submit(FreeWork{reinterpret_cast<uint64_t>(pointer)}, stream);
    if (!captured) free_device(pointer);
}

// The following functions give advice on managed memory, or move it to a device. The host and the
// simulated GPU use the same memory, so there is nothing to move. The functions only check their
// arguments.
namespace {

void check_managed(const void* pointer, size_t count) {
    const Memory::View view =
        runtime().memory.view(pointer, std::max<size_t>(count, 1), "the range");
    require(view.allocation && view.allocation->readable_by_host(), cudaErrorInvalidValue,
            "prefetches and advice apply only to managed memory");
}

}  // namespace

void core::cudaMemPrefetchAsync(const void* p, size_t count, MemoryLocation, unsigned, Stream s) {
    check_managed(p, count);
    runtime().streams.stream(s);
}

void core::cudaMemAdvise(const void* p, size_t count, int advice, MemoryLocation) {
    check_managed(p, count);
    require(advice >= 1 && advice <= 6, cudaErrorInvalidValue);
}

void core::cudaStreamAttachMemAsync(Stream s, void* p, size_t length, unsigned flags) {
    runtime().streams.stream(s);
    check_managed(p, length);
    require(flags == 1 || flags == 2 || flags == 4, cudaErrorInvalidValue);
}

}  // namespace coalesce::cudart
