// Allocations: device, pinned, managed and pitched memory, and memory from pools.
#include <algorithm>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "round_up.hpp"

namespace coalesce::cudart {

namespace {

// On current GPUs, cudaMallocPitch() rounds the length of a row up to a multiple of this number of
// bytes.
constexpr size_t pitch_unit = 512;

void* allocated(size_t bytes, Kind kind, const char* function, unsigned flags = 0) {
    if (bytes == 0) return nullptr;
    return reinterpret_cast<void*>(runtime().memory.allocate(bytes, kind, function, flags).address);
}

void free_device(void* pointer, const char* function) {
    if (pointer) runtime().memory.free(reinterpret_cast<uint64_t>(pointer), false, function);
}

}  // namespace

CUDART(cudaMalloc)(void** pointer, size_t bytes) {
    return call("cudaMalloc", Waits::yes, [&] {
        require(pointer, cudaErrorInvalidValue);
        *pointer = nullptr;
        *pointer = allocated(bytes, Kind::device, "cudaMalloc");
    });
}

CUDART(cudaFree)(void* pointer) {
    return call("cudaFree", Waits::yes, [&] { free_device(pointer, "cudaFree"); });
}

CUDART(cudaMallocManaged)(void** pointer, size_t bytes, unsigned flags) {
    return call("cudaMallocManaged", Waits::yes, [&] {
        require(pointer && bytes && (flags == 1 || flags == 2), cudaErrorInvalidValue);
        *pointer = allocated(bytes, Kind::managed, "cudaMallocManaged", flags);
    });
}

CUDART(cudaMallocHost)(void** pointer, size_t bytes) {
    return call("cudaMallocHost", Waits::yes, [&] {
        require(pointer, cudaErrorInvalidValue);
        *pointer = allocated(bytes, Kind::pinned, "cudaMallocHost");
    });
}

CUDART(cudaHostAlloc)(void** pointer, size_t bytes, unsigned flags) {
    return call("cudaHostAlloc", Waits::yes, [&] {
        require(pointer && flags < 8, cudaErrorInvalidValue);
        *pointer = allocated(bytes, Kind::pinned, "cudaHostAlloc", flags);
    });
}

CUDART(cudaFreeHost)(void* pointer) {
    return call("cudaFreeHost", Waits::yes, [&] {
        if (pointer)
            runtime().memory.free(reinterpret_cast<uint64_t>(pointer), true, "cudaFreeHost");
    });
}

CUDART(cudaHostRegister)(void* pointer, size_t bytes, unsigned flags) {
    return call("cudaHostRegister", Waits::yes, [&] {
        require(pointer && bytes, cudaErrorInvalidValue);
        Memory& memory = runtime().memory;
        require(!memory.find(pointer), cudaErrorHostMemoryAlreadyRegistered);
        Allocation a;
        a.address = reinterpret_cast<uint64_t>(pointer);
        a.bytes = bytes;
        a.host = static_cast<std::byte*>(pointer);
        a.kind = Kind::registered;
        a.flags = flags;
        a.function = "cudaHostRegister";
        a.name = "memory of cudaHostRegister";
        a.caller = caller();
        memory.add(std::move(a));
    });
}

CUDART(cudaHostUnregister)(void* pointer) {
    return call("cudaHostUnregister", Waits::yes, [&] {
        Memory& memory = runtime().memory;
        const Allocation* const a = memory.find(pointer);
        require(a && a->kind == Kind::registered && a->host == pointer,
                cudaErrorHostMemoryNotRegistered);
        memory.remove(a->address);
    });
}

CUDART(cudaHostGetDevicePointer)(void** device, void* host, unsigned flags) {
    return call("cudaHostGetDevicePointer", Waits::no, [&] {
        const Allocation* const a = runtime().memory.find(host);
        require(device && flags == 0 && a && a->readable_by_host(), cudaErrorInvalidValue);
        *device = host;
    });
}

CUDART(cudaHostGetFlags)(unsigned* flags, void* host) {
    return call("cudaHostGetFlags", Waits::no, [&] {
        const Allocation* const a = runtime().memory.find(host);
        require(flags && a && a->kind == Kind::pinned, cudaErrorInvalidValue);
        *flags = a->flags | 2;  // all pinned memory is mapped
    });
}

CUDART(cudaMallocPitch)(void** pointer, size_t* pitch, size_t width, size_t height) {
    return call("cudaMallocPitch", Waits::yes, [&] {
        require(pointer && pitch && width <= SIZE_MAX - pitch_unit, cudaErrorInvalidValue);
        *pitch = round_up(width, pitch_unit);
        // As on a GPU, a product of more than 64 bits wraps around, and the call succeeds.
        *pointer = allocated(*pitch * height, Kind::device, "cudaMallocPitch");
    });
}

CUDART(cudaMalloc3D)(PitchedPointer* pointer, Extent extent) {
    return call("cudaMalloc3D", Waits::yes, [&] {
        require(pointer && extent.width <= SIZE_MAX - pitch_unit, cudaErrorInvalidValue);
        const size_t pitch = round_up(extent.width, pitch_unit);
        size_t bytes = 0;
        require(!__builtin_mul_overflow(pitch, extent.height, &bytes) &&
                    !__builtin_mul_overflow(bytes, extent.depth, &bytes),
                cudaErrorInvalidValue, "the extent of cudaMalloc3D() is larger than any memory");
        *pointer = {allocated(bytes, Kind::device, "cudaMalloc3D"), pitch, extent.width,
                    extent.height};
    });
}

CUDART(cudaMemGetInfo)(size_t* free, size_t* total) {
    return call("cudaMemGetInfo", Waits::no, [&] {
        require(free && total, cudaErrorInvalidValue);
        const Memory& memory = runtime().memory;
        *total = memory.total();
        *free = *total - std::min<uint64_t>(*total, memory.used());
    });
}

CUDART(cudaPointerGetAttributes)(PointerAttributes* attributes, const void* pointer) {
    return call("cudaPointerGetAttributes", Waits::no, [&] {
        require(attributes, cudaErrorInvalidValue);
        *attributes = {};
        attributes->device = -2;
        const Allocation* const a = runtime().memory.find(pointer);
        auto* const same = const_cast<void*>(pointer);
        if (!a) {
            attributes->hostPointer =
                in_arena(reinterpret_cast<uint64_t>(pointer)) ? nullptr : same;
            return;
        }
        const bool managed = a->kind == Kind::managed;
        attributes->device = 0;
        attributes->type = managed                 ? MemoryType::managed
                           : a->readable_by_host() ? MemoryType::host
                                                   : MemoryType::device;
        attributes->devicePointer = same;
        attributes->hostPointer = a->readable_by_host() ? same : nullptr;
    });
}

// Allocates or frees memory in the order of a stream. The simulator does this immediately.
CUDART(cudaMallocAsync)(void** pointer, size_t bytes, Stream stream) {
    return call("cudaMallocAsync", Waits::no, [&] {
        require(pointer, cudaErrorInvalidValue);
        runtime().streams.stream(stream);
        *pointer = allocated(bytes, Kind::device, "cudaMallocAsync");
    });
}

CUDART(cudaFreeAsync)(void* pointer, Stream stream) {
    return call("cudaFreeAsync", Waits::no, [&] {
        runtime().streams.stream(stream);
        free_device(pointer, "cudaFreeAsync");
    });
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

CUDART(cudaMemPrefetchAsync)(const void* p, size_t count, MemoryLocation, unsigned, Stream s) {
    return call("cudaMemPrefetchAsync", Waits::no, [&] {
        check_managed(p, count);
        runtime().streams.stream(s);
    });
}

CUDART(cudaMemAdvise)(const void* p, size_t count, int advice, MemoryLocation) {
    return call("cudaMemAdvise", Waits::no, [&] {
        check_managed(p, count);
        require(advice >= 1 && advice <= 6, cudaErrorInvalidValue);
    });
}

CUDART(cudaStreamAttachMemAsync)(Stream s, void* p, size_t length, unsigned flags) {
    return call("cudaStreamAttachMemAsync", Waits::no, [&] {
        runtime().streams.stream(s);
        check_managed(p, length);
        require(flags == 1 || flags == 2 || flags == 4, cudaErrorInvalidValue);
    });
}

}  // namespace coalesce::cudart
