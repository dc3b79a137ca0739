// The driver API: allocations, copies, fills and the attributes of pointers.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "cudart/abi/driver.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"
#include "round_up.hpp"

namespace coalesce::cudart {

namespace {
void* pointer_at(DevicePointer address) { return reinterpret_cast<void*>(address); }
}  // namespace

// Allocations. To functions of the runtime API, a DevicePointer is passed as a pointer.

void core::cuMemAlloc_v2(void** pointer, size_t bytes) {
    require(bytes > 0, cudaErrorInvalidValue, "cuMemAlloc() was called with 0 bytes");
    core::cudaMalloc(pointer, bytes);
}
void core::cuMemAllocPitch_v2(void** pointer, size_t* pitch, size_t width, size_t height,
                              unsigned element) {
    require((element == 4 || element == 8 || element == 16) && width && height,
            cudaErrorInvalidValue,
            "cuMemAllocPitch() needs elements of 4, 8 or 16 bytes, and a width and a height "
            "that are not 0");
    core::cudaMallocPitch(pointer, pitch, width, height);
}

void core::cuMemGetAddressRange_v2(DevicePointer* start, size_t* bytes, DevicePointer address) {
    const Allocation* const a = runtime().memory.find(address);
    require(a, cudaErrorSymbolNotFound, "the address is not in any allocation");
    if (start) *start = a->address;
    if (bytes) *bytes = a->bytes;
}

// Defines a copy of bytes that waits and one that does not. `to` and `from` are pointers or
// addresses.
#define COPIES(waiting, not_waiting, To, From, kind)                                   \
    void core::waiting(To to, From from, size_t bytes) {                               \
        submit(copy_of((void*)to, (const void*)from, bytes, CopyKind::kind), nullptr); \
    }                                                                                  \
    void core::not_waiting(To to, From from, size_t bytes, Stream s) {                 \
        submit(copy_of((void*)to, (const void*)from, bytes, CopyKind::kind), s);       \
    }
COPIES(cuMemcpy, cuMemcpyAsync, DevicePointer, DevicePointer, any)
COPIES(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, DevicePointer, const void*, host_to_device)
COPIES(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, void*, DevicePointer, device_to_host)
COPIES(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, DevicePointer, DevicePointer, device_to_device)

void core::cuMemcpyPeer(DevicePointer to, Context to_context, DevicePointer from,
                        Context from_context, size_t bytes) {
    (void)runtime().contexts.context(to_context);
    (void)runtime().contexts.context(from_context);
    submit(copy_of(pointer_at(to), pointer_at(from), bytes, CopyKind::device_to_device), nullptr);
}
void core::cuMemcpyPeerAsync(DevicePointer to, Context to_context, DevicePointer from,
                             Context from_context, size_t bytes, Stream s) {
    (void)runtime().contexts.context(to_context);
    (void)runtime().contexts.context(from_context);
    submit(copy_of(pointer_at(to), pointer_at(from), bytes, CopyKind::device_to_device), s);
}

// Copies of boxes. The descriptions are converted to those of the runtime API.
namespace {

constexpr int memory_host = 1, memory_device = 2, memory_array = 3, memory_unified = 4;

// Returns the start of one side of a copy.
void* start_of(int type, const void* host, DevicePointer device) {
    require(type >= memory_host && type <= memory_unified, cudaErrorInvalidValue,
            "the memory type is not one of CUmemorytype");
    if (type == memory_array) return nullptr;
    return type == memory_host ? const_cast<void*>(host) : pointer_at(device);
}
CopyKind kind_of(int from, int to) {
    if (from == memory_unified || to == memory_unified) return CopyKind::any;
    if (from == memory_host)
        return to == memory_host ? CopyKind::host_to_host : CopyKind::host_to_device;
    return to == memory_host ? CopyKind::device_to_host : CopyKind::device_to_device;
}

}  // namespace

// Converts a copy of the driver API, which counts bytes, to one of the runtime API. If the copy has
// an array, the runtime API counts texels.
Copy3D converted(const DriverCopy3D& p) {
    const auto array_in = [](int type, Array array) {
        require(type != memory_array || array, cudaErrorInvalidValue,
                "the memory type is CU_MEMORYTYPE_ARRAY, but there is no array");
        return type == memory_array ? array : nullptr;
    };
    const Array from = array_in(p.srcMemoryType, p.srcArray);
    const Array to = array_in(p.dstMemoryType, p.dstArray);
    const Array one = to ? to : from;
    const size_t texel = one ? array_of(one).shape.texel_bytes() : size_t{1};
    const auto texels = [&](size_t bytes) {
        require(bytes % texel == 0, cudaErrorInvalidValue,
                "a copy to or from a CUDA array must start at a texel and copy whole texels");
        return bytes / texel;
    };
    return {from,
            {from ? texels(p.srcXInBytes) : p.srcXInBytes, p.srcY, p.srcZ},
            {start_of(p.srcMemoryType, p.srcHost, p.srcDevice), p.srcPitch, p.WidthInBytes,
             p.srcHeight},
            to,
            {to ? texels(p.dstXInBytes) : p.dstXInBytes, p.dstY, p.dstZ},
            {start_of(p.dstMemoryType, p.dstHost, p.dstDevice), p.dstPitch, p.WidthInBytes,
             p.dstHeight},
            {texels(p.WidthInBytes), p.Height, p.Depth},
            kind_of(p.srcMemoryType, p.dstMemoryType)};
}

namespace {

DriverCopy3D as_box(const DriverCopy2D& p) {
    DriverCopy3D c{};
    c.srcXInBytes = p.srcXInBytes, c.srcY = p.srcY, c.srcMemoryType = p.srcMemoryType;
    c.srcHost = p.srcHost, c.srcDevice = p.srcDevice, c.srcArray = p.srcArray;
    c.srcPitch = p.srcPitch ? p.srcPitch : p.WidthInBytes;
    c.dstXInBytes = p.dstXInBytes, c.dstY = p.dstY, c.dstMemoryType = p.dstMemoryType;
    c.dstHost = p.dstHost, c.dstDevice = p.dstDevice, c.dstArray = p.dstArray;
    c.dstPitch = p.dstPitch ? p.dstPitch : p.WidthInBytes;
    c.WidthInBytes = p.WidthInBytes, c.Height = p.Height, c.Depth = 1;
    return c;
}

void copy_box(const DriverCopy3D& p, Stream s) { submit(copy_of(converted(p)), s); }

}  // namespace

void core::cuMemcpy2D_v2(const DriverCopy2D* p) {
    require(p, cudaErrorInvalidValue);
    copy_box(as_box(*p), nullptr);
}
void core::cuMemcpy2DUnaligned_v2(const DriverCopy2D* p) {
    require(p, cudaErrorInvalidValue);
    copy_box(as_box(*p), nullptr);
}
void core::cuMemcpy2DAsync_v2(const DriverCopy2D* p, Stream s) {
    require(p, cudaErrorInvalidValue);
    copy_box(as_box(*p), s);
}
void core::cuMemcpy3D_v2(const DriverCopy3D* p) {
    require(p, cudaErrorInvalidValue);
    copy_box(*p, nullptr);
}
void core::cuMemcpy3DAsync_v2(const DriverCopy3D* p, Stream s) {
    require(p, cudaErrorInvalidValue);
    copy_box(*p, s);
}

// Fills.
namespace {

void fill(DevicePointer to, size_t pitch, uint32_t value, uint32_t element, size_t width,
          size_t height, Stream s) {
    require(to % element == 0 && (height <= 1 || width * element <= pitch), cudaErrorInvalidValue,
            "the address of a fill must be a multiple of its elements' size, and its rows must not "
            "be longer than the pitch");
    SetWork w;
    w.to = static_cast<std::byte*>(pointer_at(to));
    w.pitch = pitch, w.value = value, w.element = element, w.width = width, w.height = height;
    submit(w, s);
}

}  // namespace

#define FILLS(bits, Value)                                                                         \
    void core::cuMemsetD##bits##_v2(DevicePointer to, Value value, size_t count) {                 \
        fill(to, 0, value, (bits) / 8, count, 1, nullptr);                                         \
    }                                                                                              \
    void core::cuMemsetD##bits##Async(DevicePointer to, Value value, size_t count, Stream s) {     \
        fill(to, 0, value, (bits) / 8, count, 1, s);                                               \
    }                                                                                              \
    void core::cuMemsetD2D##bits##_v2(DevicePointer to, size_t pitch, Value value, size_t width,   \
                                      size_t height) {                                             \
        fill(to, pitch, value, (bits) / 8, width, height, nullptr);                                \
    }                                                                                              \
    void core::cuMemsetD2D##bits##Async(DevicePointer to, size_t pitch, Value value, size_t width, \
                                        size_t height, Stream s) {                                 \
        fill(to, pitch, value, (bits) / 8, width, height, s);                                      \
    }
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

// Attributes of pointers.
namespace {

// Writes the value of an attribute, and returns its size. Returns 0 if the pointer has none.
size_t attribute_of(void* data, int attribute, DevicePointer address) {
    const auto give = [&](const auto& value) {
        std::memcpy(data, &value, sizeof value);
        return sizeof value;
    };
    const Allocation* const a = runtime().memory.find(address);
    const bool host = a && a->readable_by_host() && a->kind != Kind::managed;
    // The cases are the values of CUpointer_attribute.
    switch (attribute) {
        case 1:
            return a ? give(a->owner ? a->owner : runtime().contexts.owner()) : 0;
        case 2:
            return a ? give(host ? memory_host : memory_device) : 0;
        case 3:
            return a ? give(address) : 0;
        case 4:
            return a && a->readable_by_host() ? give(address) : 0;
        case 6:
            return a ? give(0u) : 0;
        case 7:
            return a ? give(a->number ? a->number : a->address) : 0;
        case 8:
            return give(unsigned(a && a->kind == Kind::managed));
        case 9:
            return a ? give(0) : 0;
        case 10:
            return a ? give(false) : 0;
        case 11:
            return a ? give(a->address) : 0;
        case 12:
            return a ? give(size_t(a->bytes)) : 0;
        case 13:
            return give(a != nullptr);
        default:
            print_once("coalesce: cuPointerGetAttribute() of attribute " +
                       std::to_string(attribute) + " is not simulated");
            throw Failure{cudaErrorNotSupported};
    }
}

}  // namespace

void core::cuPointerGetAttribute(void* data, int attribute, DevicePointer address) {
    require(data, cudaErrorInvalidValue);
    require(attribute_of(data, attribute, address) > 0, cudaErrorInvalidValue,
            "the pointer does not have this attribute, or CUDA does not know the pointer");
}
void core::cuPointerGetAttributes(unsigned count, const int* attributes, void** data,
                                  DevicePointer address) {
    require(attributes && data, cudaErrorInvalidValue);
    for (unsigned i = 0; i < count; ++i) {
        // A pointer without the attribute gets the value null.
        constexpr int is_pointer[] = {1, 3, 4, 11, 12};
        const bool wide = std::find(std::begin(is_pointer), std::end(is_pointer), attributes[i]) !=
                          std::end(is_pointer);
        if (attribute_of(data[i], attributes[i], address) == 0)
            std::memset(data[i], 0, wide ? 8 : 4);
    }
}
void core::cuPointerSetAttribute(const void* value, int attribute, DevicePointer address) {
    constexpr int synchronous = 6;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
    require(value && attribute == synchronous && runtime().memory.find(address),
            cudaErrorInvalidValue);
}

}  // namespace coalesce::cudart
