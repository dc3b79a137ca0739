// The driver API: CUDA arrays, mipmapped arrays, and texture and surface objects.
//
// Both APIs use the same handles and objects. Only their descriptions of arrays and textures
// differ; they are converted here.
#include <algorithm>

#include "cudart/abi/driver.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// The numbers of formats. Three numbers from first_unsigned on are for unsigned integers of 8, 16
// and 32 bits, and three from first_signed on are for signed integers. Each kind of float has one
// number.
constexpr int first_unsigned = 1, first_signed = 8, half_float = 16, single_float = 32;
constexpr int signed_kind = 0, unsigned_kind = 1, float_kind = 2;
// Flags of CUDA_TEXTURE_DESC.
constexpr unsigned as_integer = 1, normalized_coordinates = 2, from_srgb = 16, no_trilinear = 32,
                   seamless = 64;

ChannelFormat channel_of(int format, unsigned channels) {
    int bits = 0, kind = float_kind;
    if (format >= first_unsigned && format < first_unsigned + 3)
        bits = 8 << (format - first_unsigned), kind = unsigned_kind;
    else if (format >= first_signed && format < first_signed + 3)
        bits = 8 << (format - first_signed), kind = signed_kind;
    else if (format == half_float || format == single_float)
        bits = format;
    if (bits == 0) {
        print_once("coalesce: arrays of the format " + std::to_string(format) +
                   " of CUarray_format are not simulated");
        throw Failure{cudaErrorNotSupported};
    }
    require(channels == 1 || channels == 2 || channels == 4, cudaErrorInvalidValue,
            "an array has 1, 2 or 4 channels");
    const auto each = [&](unsigned n) { return n < channels ? bits : 0; };
    return {each(0), each(1), each(2), each(3), kind};
}

int format_of(const ChannelFormat& c) {
    if (c.f == float_kind) return c.x;
    const int size = c.x == 8 ? 0 : c.x == 16 ? 1 : 2;
    return (c.f == unsigned_kind ? first_unsigned : first_signed) + size;
}

unsigned channels_of(const ChannelFormat& c) {
    return unsigned(c.x != 0) + unsigned(c.y != 0) + unsigned(c.z != 0) + unsigned(c.w != 0);
}

void describe(DriverArray3D* p, Array handle) {
    require(p, cudaErrorInvalidValue);
    const ArrayInfo& a = array_of(handle);
    *p = {a.extent.width,       a.extent.height,        a.extent.depth,
          format_of(a.channel), channels_of(a.channel), a.flags};
}

ResourceDescription resource_of(const DriverResource& r) {
    ResourceDescription made{};
    made.resType = r.resType;  // the types have the same numbers
    const auto pointer = [](DevicePointer address) { return reinterpret_cast<void*>(address); };
    switch (r.resType) {
        case 0:
            made.res.array = r.res.array;
            break;
        case 1:
            made.res.mipmap = r.res.mipmap;
            break;
        case 2: {
            const auto& p = r.res.linear;
            made.res.linear = {pointer(p.devPtr), channel_of(p.format, p.numChannels),
                               p.sizeInBytes};
            break;
        }
        case 3: {
            const auto& p = r.res.pitch2D;
            made.res.pitch2D = {pointer(p.devPtr), channel_of(p.format, p.numChannels), p.width,
                                p.height, p.pitchInBytes};
            break;
        }
        default:
            throw Failure{cudaErrorInvalidValue, "the value of resType is not a CUresourcetype"};
    }
    return made;
}

DriverResource converted(const ResourceDescription& r) {
    DriverResource made{};
    made.resType = r.resType;
    const auto address = [](void* pointer) { return reinterpret_cast<DevicePointer>(pointer); };
    if (r.resType == 0) made.res.array = r.res.array;
    if (r.resType == 1) made.res.mipmap = r.res.mipmap;
    if (r.resType == 2) {
        const auto& p = r.res.linear;
        made.res.linear = {address(p.devPtr), format_of(p.desc), channels_of(p.desc),
                           p.sizeInBytes};
    }
    if (r.resType == 3) {
        const auto& p = r.res.pitch2D;
        made.res.pitch2D = {address(p.devPtr), format_of(p.desc), channels_of(p.desc),
                            p.width,           p.height,          p.pitchInBytes};
    }
    return made;
}

TextureDescription sampler_of(const DriverTexture& t) {
    TextureDescription made{};
    std::copy(std::begin(t.addressMode), std::end(t.addressMode), made.addressMode);
    std::copy(std::begin(t.borderColor), std::end(t.borderColor), made.borderColor);
    made.filterMode = t.filterMode;
    made.readMode = t.flags & as_integer ? 0 : 1;  // it applies to integers of 8 and 16 bits only
    made.sRGB = (t.flags & from_srgb) != 0;
    made.normalizedCoords = (t.flags & normalized_coordinates) != 0;
    made.maxAnisotropy = t.maxAnisotropy;
    made.mipmapFilterMode = t.mipmapFilterMode;
    made.mipmapLevelBias = t.mipmapLevelBias;
    made.minMipmapLevelClamp = t.minMipmapLevelClamp;
    made.maxMipmapLevelClamp = t.maxMipmapLevelClamp;
    made.disableTrilinearOptimization = (t.flags & no_trilinear) != 0;
    made.seamlessCubemap = (t.flags & seamless) != 0;
    return made;
}

DriverTexture converted(const TextureDescription& t) {
    DriverTexture made{};
    std::copy(std::begin(t.addressMode), std::end(t.addressMode), made.addressMode);
    std::copy(std::begin(t.borderColor), std::end(t.borderColor), made.borderColor);
    made.filterMode = t.filterMode;
    made.flags = (t.readMode == 0 ? as_integer : 0) |
                 (t.normalizedCoords ? normalized_coordinates : 0) | (t.sRGB ? from_srgb : 0) |
                 (t.disableTrilinearOptimization ? no_trilinear : 0) |
                 (t.seamlessCubemap ? seamless : 0);
    made.maxAnisotropy = t.maxAnisotropy;
    made.mipmapFilterMode = t.mipmapFilterMode;
    made.mipmapLevelBias = t.mipmapLevelBias;
    made.minMipmapLevelClamp = t.minMipmapLevelClamp;
    made.maxMipmapLevelClamp = t.maxMipmapLevelClamp;
    return made;
}

}  // namespace

void core::cuArrayCreate_v2(Array* array, const DriverArray* p) {
    require(array && p, cudaErrorInvalidValue);
    *array = reinterpret_cast<Array>(
        allocate_array(channel_of(p->Format, p->NumChannels), {p->Width, p->Height, 0}, 0));
}
void core::cuArray3DCreate_v2(Array* array, const DriverArray3D* p) {
    require(array && p, cudaErrorInvalidValue);
    *array = reinterpret_cast<Array>(allocate_array(channel_of(p->Format, p->NumChannels),
                                                    {p->Width, p->Height, p->Depth}, p->Flags));
}
void core::cuArrayGetDescriptor_v2(DriverArray* p, Array array) {
    require(p, cudaErrorInvalidValue);
    DriverArray3D all;
    describe(&all, array);
    *p = {all.Width, all.Height, all.Format, all.NumChannels};
}
void core::cuArray3DGetDescriptor_v2(DriverArray3D* p, Array array) { describe(p, array); }
void core::cuArrayDestroy(Array array) { free_array(reinterpret_cast<uint64_t>(array), false); }
void core::cuMipmappedArrayCreate(Mipmap* array, const DriverArray3D* p, unsigned levels) {
    require(p, cudaErrorInvalidValue);
    const ChannelFormat channel = channel_of(p->Format, p->NumChannels);
    core::cudaMallocMipmappedArray(array, &channel, {p->Width, p->Height, p->Depth}, levels,
                                   p->Flags);
}
void core::cuMipmappedArrayGetLevel(Array* level_array, Mipmap array, unsigned level) {
    require(level_array, cudaErrorInvalidValue);
    *level_array = level_of(array, level);
}
void core::cuMipmappedArrayDestroy(Mipmap array) {
    free_array(reinterpret_cast<uint64_t>(array), true);
}

namespace {

void get_resource(DriverResource* resource, TextureHandle object, bool surface) {
    require(resource, cudaErrorInvalidValue);
    *resource = converted(object_of_handle(object, surface).resource);
}

}  // namespace

void core::cuTexObjectCreate(TextureHandle* object, const DriverResource* resource,
                             const DriverTexture* texture, const ResourceView* view) {
    require(object && resource && texture, cudaErrorInvalidValue);
    if (view) {
        print_once("coalesce: texture objects with a resource view are not simulated");
        throw Failure{cudaErrorNotSupported};
    }
    const TextureDescription sampler = sampler_of(*texture);
    *object = create_object(resource_of(*resource), &sampler);
}
void core::cuTexObjectDestroy(TextureHandle object) { destroy_object(object, false); }
void core::cuTexObjectGetResourceDesc(DriverResource* resource, TextureHandle object) {
    get_resource(resource, object, false);
}
void core::cuTexObjectGetTextureDesc(DriverTexture* texture, TextureHandle object) {
    require(texture, cudaErrorInvalidValue);
    *texture = converted(object_of_handle(object, false).texture);
}
void core::cuSurfObjectCreate(TextureHandle* object, const DriverResource* resource) {
    require(object && resource, cudaErrorInvalidValue);
    *object = create_object(resource_of(*resource), nullptr);
}
void core::cuSurfObjectDestroy(TextureHandle object) { destroy_object(object, true); }
void core::cuSurfObjectGetResourceDesc(DriverResource* resource, TextureHandle object) {
    get_resource(resource, object, true);
}

// Copies of bytes of an array of one dimension.
namespace {

CopyWork array_copy(Array to_array, size_t to, void* to_memory, Array from_array, size_t from,
                    const void* from_memory, size_t bytes, CopyKind kind) {
    CopyWork c = copy_of(to_memory, from_memory, bytes, kind);
    if (to_array) copy_to(c, {&array_of(to_array), to});
    if (from_array) copy_from(c, {&array_of(from_array), from});
    return c;
}

}  // namespace

void core::cuMemcpyHtoA_v2(Array to, size_t at, const void* from, size_t bytes) {
    submit(array_copy(to, at, nullptr, nullptr, 0, from, bytes, CopyKind::host_to_device), nullptr);
}
void core::cuMemcpyHtoAAsync_v2(Array to, size_t at, const void* from, size_t bytes, Stream s) {
    submit(array_copy(to, at, nullptr, nullptr, 0, from, bytes, CopyKind::host_to_device), s);
}
void core::cuMemcpyAtoH_v2(void* to, Array from, size_t at, size_t bytes) {
    submit(array_copy(nullptr, 0, to, from, at, nullptr, bytes, CopyKind::device_to_host), nullptr);
}
void core::cuMemcpyAtoHAsync_v2(void* to, Array from, size_t at, size_t bytes, Stream s) {
    submit(array_copy(nullptr, 0, to, from, at, nullptr, bytes, CopyKind::device_to_host), s);
}
void core::cuMemcpyDtoA_v2(Array to, size_t at, DevicePointer from, size_t bytes) {
    submit(array_copy(to, at, nullptr, nullptr, 0, reinterpret_cast<const void*>(from), bytes,
                      CopyKind::device_to_device),
           nullptr);
}
void core::cuMemcpyAtoD_v2(DevicePointer to, Array from, size_t at, size_t bytes) {
    submit(array_copy(nullptr, 0, reinterpret_cast<void*>(to), from, at, nullptr, bytes,
                      CopyKind::device_to_device),
           nullptr);
}
void core::cuMemcpyAtoA_v2(Array to, size_t to_at, Array from, size_t from_at, size_t bytes) {
    submit(
        array_copy(to, to_at, nullptr, from, from_at, nullptr, bytes, CopyKind::device_to_device),
        nullptr);
}

}  // namespace coalesce::cudart
