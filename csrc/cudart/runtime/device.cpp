// Functions for devices. The only device is the simulated GPU; here are its properties, attributes
// and limits.
//
// The features of a compute capability are from the CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability". Properties that the simulator does not know are 0.
#include <cstdio>
#include <cstring>
#include <map>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "sim/run/device_heap.hpp"

namespace coalesce::cudart {

namespace {

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
    // The memory clock in kHz that gives the GPU's DRAM bandwidth with a 1024-bit memory bus and
    // two transfers per cycle.
    constexpr int bus_bits = 1024;
    const int memory_khz = int(gpu.dram_gbps * 1e6 / (2 * bus_bits / 8));
    const std::map<int, int> values = {
        {1, p.maxThreadsPerBlock},
        {2, p.maxThreadsDim[0]},
        {3, p.maxThreadsDim[1]},
        {4, p.maxThreadsDim[2]},
        {5, p.maxGridSize[0]},
        {6, p.maxGridSize[1]},
        {7, p.maxGridSize[2]},
        {8, int(p.sharedMemPerBlock)},
        {9, int(p.totalConstMem)},
        {10, p.warpSize},
        {11, int(p.memPitch)},
        {12, p.regsPerBlock},
        {13, int(gpu.clock_ghz * 1e6)},  // kHz
        {14, int(p.textureAlignment)},
        {15, 1},  // the GPU can copy while kernels run
        {16, p.multiProcessorCount},
        {19, p.canMapHostMemory},
        {30, int(p.surfaceAlignment)},
        {31, p.concurrentKernels},
        {36, memory_khz},
        {37, bus_bits},
        {38, p.l2CacheSize},
        {39, p.maxThreadsPerMultiProcessor},
        {40, p.asyncEngineCount},
        {41, p.unifiedAddressing},
        {51, int(p.texturePitchAlignment)},
        {75, p.major},
        {76, p.minor},
        {78, p.streamPrioritiesSupported},
        {79, p.globalL1CacheSupported},
        {80, p.localL1CacheSupported},
        {81, int(p.sharedMemPerMultiprocessor)},
        {82, p.regsPerMultiprocessor},
        {83, p.managedMemory},
        {87, int(gpu.fp32_lanes / gpu.fp64_lanes)},
        {89, p.concurrentManagedAccess},
        {90, p.computePreemptionSupported},
        {91, p.canUseHostPointerForRegisteredMem},
        {95, p.cooperativeLaunch},
        {97, int(p.sharedMemPerBlockOptin)},
        {99, p.hostRegisterSupported},
        {102, 1},  // cuMemMap()
        {103, 1},  // its memory as a file descriptor
        {106, p.maxBlocksPerMultiProcessor},
        {111, int(p.reservedSharedMemPerBlock)},
        {115, p.memoryPoolsSupported},
        {120, p.clusterLaunch},
    };
    if (const auto known = values.find(number); known != values.end()) return known->second;
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
// The banks of shared memory are 4 bytes wide on every simulated GPU, whatever a program asks for.
CUDART(cudaDeviceSetSharedMemConfig)(int config) {
    return call("cudaDeviceSetSharedMemConfig", Waits::no,
                [&] { require(config >= 0 && config <= 2, cudaErrorInvalidValue); });
}
CUDART(cudaDeviceGetSharedMemConfig)(int* config) {
    return call("cudaDeviceGetSharedMemConfig", Waits::no, [&] {
        require(config, cudaErrorInvalidValue);
        *config = 1;  // cudaSharedMemBankSizeFourByte
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
