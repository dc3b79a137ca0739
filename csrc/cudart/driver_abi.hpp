// The types that a program passes to the driver API, with the layout of CUDA 13. Types that have
// the layout of the runtime API's are in abi.hpp.
#pragma once

#include "cudart/abi.hpp"

namespace coalesce::cudart {

using DevicePointer = uint64_t;

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
