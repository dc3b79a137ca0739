// The types that a program passes to the CUDA runtime, with the layout of CUDA 13.
//
// They are declared here so that a build needs no CUDA headers, as in csrc/cuda/driver.hpp.
// tests/python/programs/test_program_api.py compares sizes and offsets with the real headers.
#pragma once

#include <array>
#include <cstddef>

#include "kernel_launch.hpp"

namespace coalesce::cudart {

#define E(name, number, text) name = number,
enum Error : int {
#include "cudart/runtime/errors.inc"
};
#undef E

using Dim = Dim3;  // it has the layout of CUDA's dim3

// For a program, a handle is a pointer. Null and the numbers 1 and 2 mean default streams.
struct StreamRecord;
struct EventRecord;
struct GraphRecord;
struct NodeRecord;
struct ExecutableRecord;
struct PoolRecord;
struct ArrayRecord;
struct MipmapRecord;
struct Function;
using Stream = StreamRecord*;
using Event = EventRecord*;
using Graph = GraphRecord*;
using Node = NodeRecord*;
using Executable = ExecutableRecord*;
using Pool = PoolRecord*;
using Array = ArrayRecord*;
using Mipmap = MipmapRecord*;
using StreamAttribute = std::array<char, 64>;  // cudaLaunchAttributeValue
using TextureHandle = unsigned long long;      // a texture or surface object
using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream, Error, void*);

enum class CopyKind : int { host_to_host, host_to_device, device_to_host, device_to_device, any };

struct PitchedPointer {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct Extent {
    size_t width, height, depth;
};
struct Position {
    size_t x, y, z;
};
struct ChannelFormat {
    int x, y, z, w;
    int f;
};
struct Copy3D {
    Array srcArray;
    Position srcPos;
    PitchedPointer srcPtr;
    Array dstArray;
    Position dstPos;
    PitchedPointer dstPtr;
    Extent extent;
    CopyKind kind;
};
struct Copy3DPeer {
    Array srcArray;
    Position srcPos;
    PitchedPointer srcPtr;
    int srcDevice;
    Array dstArray;
    Position dstPos;
    PitchedPointer dstPtr;
    int dstDevice;
    Extent extent;
};

struct ResourceDescription {
    int resType;
    union {
        Array array;
        Mipmap mipmap;
        struct {
            void* devPtr;
            ChannelFormat desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void* devPtr;
            ChannelFormat desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
    } res;
    // Newer headers have reserved bytes here, which are not accessed.
};
struct TextureDescription {
    int addressMode[3], filterMode, readMode, sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    int mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
struct ResourceView {
    int format;
    size_t width, height, depth;
    unsigned firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer;
    unsigned reserved[16];
};

struct FunctionAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
    int maxDynamicSharedSizeBytes, preferredShmemCarveout, clusterDimMustBeSet;
    int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
    int reserved[16];
};

enum class MemoryType : int { unregistered, host, device, managed };
struct PointerAttributes {
    MemoryType type;
    int device;
    void *devicePointer, *hostPointer;
    long reserved[8];
};

struct LaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int cooperative;
        struct {
            unsigned x, y, z;
        } clusterDim;
    } val;
};
struct LaunchConfig {
    Dim gridDim, blockDim;
    size_t dynamicSmemBytes;
    Stream stream;
    LaunchAttribute* attrs;
    unsigned numAttrs;
};

struct MemoryLocation {
    int type, id;
};
struct PoolProperties {
    int allocType, handleTypes;
    MemoryLocation location;
    void* win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};
struct AccessDescription {
    MemoryLocation location;
    int flags;
};

struct KernelNodeParameters {
    void* func;
    Dim gridDim, blockDim;
    unsigned sharedMemBytes;
    void** kernelParams;
    void** extra;
};
struct MemsetParameters {
    void* dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};
struct HostNodeParameters {
    HostFunction fn;
    void* userData;
};
struct AllocNodeParameters {
    PoolProperties poolProps;
    const AccessDescription* accessDescs;
    size_t accessDescCount, bytesize;
    void* dptr;
};
struct EdgeData {
    unsigned char from_port, to_port, type, reserved[5];
};
struct InstantiateParameters {
    unsigned long long flags;
    Stream uploadStream;
    Node errNode_out;
    int result_out;
};
struct UpdateResult {
    int result;
    Node errorNode, errorFromNode;
};

struct DeviceProperties {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int multiProcessorCount, integrated, canMapHostMemory;
    int maxTexture1D, maxTexture1DMipmap, maxTexture2D[2], maxTexture2DMipmap[2];
    int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3];
    int maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3];
    int maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3];
    int maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap;
    int maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
    int asyncEngineCount, unifiedAddressing, memoryBusWidth, l2CacheSize;
    int persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported;
    int globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported, pageableMemoryAccess, concurrentManagedAccess;
    int computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
    int unifiedFunctionPointers, deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
    unsigned gpuPciDeviceID, gpuPciSubsystemID;
    int hostNumaMultinodeIpcSupported;
    int reserved[56];
};

}  // namespace coalesce::cudart
