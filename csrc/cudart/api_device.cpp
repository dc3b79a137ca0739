// Functions for devices. The only device is the simulated GPU; here are its properties, attributes
// and limits.
//
// The features of a compute capability are from the CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability". Properties that the simulator does not know are 0.
#include <cstdio>
#include <cstring>
#include <map>

#include "cudart/api.hpp"
#include "cudart/runtime.hpp"
#include "sim/device_heap.hpp"

namespace coalesce::cudart {

namespace {

void check_device(int device) {
    require(device == 0, cudaErrorInvalidDevice, "there is one device, number 0");
}

DeviceProperties properties() {
    const Runtime& rt = runtime();
    const model::Gpu& gpu = rt.gpu;
    DeviceProperties p{};
    std::snprintf(p.name, sizeof p.name, "%.*s (simulated)", int(gpu.title.size()),
                  gpu.title.data());
    p.totalGlobalMem = rt.memory.total();
    p.sharedMemPerBlock = 48 << 10;
    p.regsPerBlock = p.regsPerMultiprocessor = int(model::registers);
    p.warpSize = 32;
    p.memPitch = 0x7fffffff;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.totalConstMem = 64 << 10;
    p.major = int(gpu.major);
    p.minor = int(gpu.minor);
    p.textureAlignment = 512;
    p.texturePitchAlignment = 32;
    p.surfaceAlignment = 512;
    p.multiProcessorCount = int(gpu.multiprocessors);
    p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.managedMemory = 1;
    p.asyncEngineCount = 2;
    p.l2CacheSize = int(gpu.l2_mb * (1 << 20));
    p.maxThreadsPerMultiProcessor = int(gpu.warps * 32);
    p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
    p.sharedMemPerMultiprocessor = size_t{gpu.shared_kb} << 10;
    p.concurrentManagedAccess = p.computePreemptionSupported = 1;
    p.canUseHostPointerForRegisteredMem = p.hostRegisterSupported = 1;
    p.cooperativeLaunch = 1;
    p.clusterLaunch = gpu.major >= 9;
    p.sharedMemPerBlockOptin = gpu.max_block_shared_bytes();
    p.reservedSharedMemPerBlock = gpu.reserved_shared_bytes();
    p.maxBlocksPerMultiProcessor = int(gpu.blocks);
    p.memoryPoolsSupported = 1;
    p.unifiedFunctionPointers = 1;
    return p;
}

// Returns the value of cudaDeviceGetAttribute() by its number. Some attributes are not in the
// properties.
int attribute(int number) {
    const DeviceProperties p = properties();
    const model::Gpu& gpu = runtime().gpu;
    switch (number) {
        case 1:
            return p.maxThreadsPerBlock;
        case 2:
            return p.maxThreadsDim[0];
        case 3:
            return p.maxThreadsDim[1];
        case 4:
            return p.maxThreadsDim[2];
        case 5:
            return p.maxGridSize[0];
        case 6:
            return p.maxGridSize[1];
        case 7:
            return p.maxGridSize[2];
        case 8:
            return int(p.sharedMemPerBlock);
        case 9:
            return int(p.totalConstMem);
        case 10:
            return p.warpSize;
        case 11:
            return int(p.memPitch);
        case 12:
            return p.regsPerBlock;
        case 13:
            return int(gpu.clock_ghz * 1e6);  // kHz
        case 14:
            return int(p.textureAlignment);
        case 15:
            return 1;  // the GPU can copy while kernels run
        case 16:
            return p.multiProcessorCount;
        case 19:
            return p.canMapHostMemory;
        case 30:
            return int(p.surfaceAlignment);
        case 31:
            return p.concurrentKernels;
        // The clock in kHz that gives this bandwidth with a 1024-bit memory bus and two transfers
        // per cycle.
        case 36:
            return int(gpu.dram_gbps * 1e6 / (2 * 1024 / 8));
        case 37:
            return 1024;
        case 38:
            return p.l2CacheSize;
        case 39:
            return p.maxThreadsPerMultiProcessor;
        case 40:
            return p.asyncEngineCount;
        case 41:
            return p.unifiedAddressing;
        case 51:
            return int(p.texturePitchAlignment);
        case 75:
            return p.major;
        case 76:
            return p.minor;
        case 78:
            return p.streamPrioritiesSupported;
        case 79:
            return p.globalL1CacheSupported;
        case 80:
            return p.localL1CacheSupported;
        case 81:
            return int(p.sharedMemPerMultiprocessor);
        case 82:
            return p.regsPerMultiprocessor;
        case 83:
            return p.managedMemory;
        case 87:
            return int(gpu.fp32_lanes / gpu.fp64_lanes);
        case 89:
            return p.concurrentManagedAccess;
        case 90:
            return p.computePreemptionSupported;
        case 91:
            return p.canUseHostPointerForRegisteredMem;
        case 95:
            return p.cooperativeLaunch;
        case 97:
            return int(p.sharedMemPerBlockOptin);
        case 99:
            return p.hostRegisterSupported;
        case 102:  // cuMemMap()
        case 103:  // its memory as a file descriptor
            return 1;
        case 106:
            return p.maxBlocksPerMultiProcessor;
        case 111:
            return int(p.reservedSharedMemPerBlock);
        case 115:
            return p.memoryPoolsSupported;
        case 120:
            return p.clusterLaunch;
        default:
            break;
    }
    require(number > 0 && number < 148, cudaErrorInvalidValue);
    return 0;
}

constexpr int malloc_heap = 2;  // cudaLimitMallocHeapSize

std::map<int, size_t>& limits() {
    static auto* const values = new std::map<int, size_t>{
        {0, 1024}, {1, 1 << 20}, {malloc_heap, sim::device_heap_bytes}, {5, 64}, {6, 0}};
    return *values;
}

}  // namespace

CUDART(cudaGetDeviceCount)(int* count) {
    return call("cudaGetDeviceCount", Waits::no, [&] {
        require(count, cudaErrorInvalidValue);
        *count = 1;
    });
}
CUDART(cudaGetDevice)(int* device) {
    return call("cudaGetDevice", Waits::no, [&] {
        require(device, cudaErrorInvalidValue);
        *device = 0;
    });
}
CUDART(cudaSetDevice)(int device) {
    return call("cudaSetDevice", Waits::no, [&] { check_device(device); });
}
CUDART(cudaInitDevice)(int device, unsigned, unsigned) {
    return call("cudaInitDevice", Waits::no, [&] { check_device(device); });
}
CUDART(cudaSetValidDevices)(int* devices, int count) {
    return call("cudaSetValidDevices", Waits::no, [&] {
        require(devices || count == 0, cudaErrorInvalidValue);
        for (int i = 0; i < count; ++i) check_device(devices[i]);
    });
}
CUDART(cudaChooseDevice)(int* device, const DeviceProperties*) {
    return call("cudaChooseDevice", Waits::no, [&] {
        require(device, cudaErrorInvalidValue);
        *device = 0;
    });
}
CUDART(cudaGetDeviceProperties)(DeviceProperties* p, int device) {
    return call("cudaGetDeviceProperties", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        check_device(device);
        *p = properties();
    });
}
CUDART(cudaDeviceGetAttribute)(int* value, int number, int device) {
    return call("cudaDeviceGetAttribute", Waits::no, [&] {
        require(value, cudaErrorInvalidValue);
        check_device(device);
        *value = attribute(number);
    });
}
CUDART(cudaDeviceSynchronize)() {
    return call("cudaDeviceSynchronize", Waits::yes, [&] { runtime().streams.join_all(); });
}
CUDART(cudaDeviceReset)() {
    return call("cudaDeviceReset", Waits::yes, [&] { runtime().reset(); });
}

// These settings are hints that do not change results. They say how the host waits, and how L1 is
// divided.
namespace {
unsigned device_flags = 0;
int cache_preference = 0;
}  // namespace
CUDART(cudaSetDeviceFlags)(unsigned flags) {
    return call("cudaSetDeviceFlags", Waits::no, [&] {
        require(flags < 256, cudaErrorInvalidValue);
        device_flags = flags;
    });
}
CUDART(cudaGetDeviceFlags)(unsigned* flags) {
    return call("cudaGetDeviceFlags", Waits::no, [&] {
        require(flags, cudaErrorInvalidValue);
        *flags = device_flags;
    });
}
CUDART(cudaDeviceSetCacheConfig)(int preference) {
    return call("cudaDeviceSetCacheConfig", Waits::no, [&] {
        require(preference >= 0 && preference <= 3, cudaErrorInvalidValue);
        cache_preference = preference;
    });
}
CUDART(cudaDeviceGetCacheConfig)(int* preference) {
    return call("cudaDeviceGetCacheConfig", Waits::no, [&] {
        require(preference, cudaErrorInvalidValue);
        *preference = cache_preference;
    });
}
CUDART(cudaDeviceGetLimit)(size_t* value, int limit) {
    return call("cudaDeviceGetLimit", Waits::no, [&] {
        require(value && limits().contains(limit), cudaErrorUnsupportedLimit);
        *value = limits()[limit];
    });
}
CUDART(cudaDeviceSetLimit)(int limit, size_t value) {
    return call("cudaDeviceSetLimit", Waits::no, [&] {
        require(limits().contains(limit), cudaErrorUnsupportedLimit);
        limits()[limit] = value;
        if (limit == malloc_heap) sim::DeviceHeap::get().set_limit(value);
    });
}

CUDART(cudaDeviceCanAccessPeer)(int* can, int device, int peer) {
    return call("cudaDeviceCanAccessPeer", Waits::no, [&] {
        require(can, cudaErrorInvalidValue);
        check_device(device), check_device(peer);
        *can = 0;  // a device is not its own peer
    });
}
CUDART(cudaDeviceEnablePeerAccess)(int, unsigned) {
    return call("cudaDeviceEnablePeerAccess", Waits::no,
                [&] { throw Failure{cudaErrorInvalidDevice}; });
}
CUDART(cudaDeviceDisablePeerAccess)(int) {
    return call("cudaDeviceDisablePeerAccess", Waits::no,
                [&] { throw Failure{cudaErrorPeerAccessNotEnabled}; });
}
CUDART(cudaDeviceGetPCIBusId)(char* text, int length, int device) {
    return call("cudaDeviceGetPCIBusId", Waits::no, [&] {
        require(text && length > 12, cudaErrorInvalidValue);
        check_device(device);
        std::snprintf(text, size_t(length), "0000:00:00.0");
    });
}
CUDART(cudaDeviceGetByPCIBusId)(int* device, const char* text) {
    return call("cudaDeviceGetByPCIBusId", Waits::no, [&] {
        require(device && text, cudaErrorInvalidValue);
        require(std::strcmp(text, "0000:00:00.0") == 0, cudaErrorInvalidDevice);
        *device = 0;
    });
}

extern "C" __attribute__((visibility("default"))) ChannelFormat cudaCreateChannelDesc(int x, int y,
                                                                                      int z, int w,
                                                                                      int f) {
    return {x, y, z, w, f};
}

CUDART(cudaRuntimeGetVersion)(int* version) {
    return call("cudaRuntimeGetVersion", Waits::no, [&] {
        require(version, cudaErrorInvalidValue);
        *version = runtime_version;
    });
}
CUDART(cudaDriverGetVersion)(int* version) {
    return call("cudaDriverGetVersion", Waits::no, [&] {
        require(version, cudaErrorInvalidValue);
        *version = runtime_version;
    });
}
// These calls have no effect, as on a GPU without an attached profiler.
CUDART(cudaProfilerStart)() {
    return call("cudaProfilerStart", Waits::no, [] {});
}
CUDART(cudaProfilerStop)() {
    return call("cudaProfilerStop", Waits::no, [] {});
}

}  // namespace coalesce::cudart
