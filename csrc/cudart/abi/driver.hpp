// The types that a program passes to the driver API, with the layout of CUDA 13. Types that have
// the same layout in the runtime API are in abi.hpp.
#pragma once

#include "cudart/abi/abi.hpp"

namespace coalesce::cudart {

using DevicePointer = uint64_t;
struct ContextRecord;
struct ModuleRecord;
struct LinkRecord;
struct CreatedRecord;  // physical memory
using Context = ContextRecord*;
using Module = ModuleRecord*;
using Link = LinkRecord*;
using CreatedHandle = CreatedRecord*;
using SharedOfBlock = size_t (*)(int threads);

struct DriverCopy2D {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void* srcHost;
    DevicePointer srcDevice;
    Array srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void* dstHost;
    DevicePointer dstDevice;
    Array dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
};

struct DriverCopy3D {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void* srcHost;
    DevicePointer srcDevice;
    Array srcArray;
    void* reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void* dstHost;
    DevicePointer dstDevice;
    Array dstArray;
    void* reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
};

// Returns the runtime API's description of the same copy.
[[nodiscard]] Copy3D converted(const DriverCopy3D& p);

struct DriverArray {
    size_t Width, Height;
    int Format;
    unsigned NumChannels;
};
struct DriverArray3D {
    size_t Width, Height, Depth;
    int Format;
    unsigned NumChannels, Flags;
};
struct DriverResource {
    int resType;
    union {
        Array array;
        Mipmap mipmap;
        struct {
            DevicePointer devPtr;
            int format;
            unsigned numChannels;
            size_t sizeInBytes;
        } linear;
        struct {
            DevicePointer devPtr;
            int format;
            unsigned numChannels;
            size_t width, height, pitchInBytes;
        } pitch2D;
        int unused[32];
    } res;
    unsigned flags;
};
struct DriverTexture {
    int addressMode[3], filterMode;
    unsigned flags, maxAnisotropy;
    int mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    float borderColor[4];
    int reserved[12];
};

struct DriverLaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    Stream hStream;
    LaunchAttribute* attrs;
    unsigned numAttrs;
};

struct DriverKernelNode {
    void* func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void** kernelParams;
    void** extra;
    void* kern;
    void* ctx;
};

struct AllocationProperties {
    int type, requestedHandleTypes;
    MemoryLocation location;
    void* win32HandleMetaData;
    unsigned char allocFlags[8];
};

}  // namespace coalesce::cudart
