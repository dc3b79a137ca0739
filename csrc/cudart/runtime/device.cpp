// Functions for devices. The only device is the simulated GPU; here are its properties, attributes
// and limits.
//
// The features of a compute capability are from the CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability". Properties that the simulator does not know are 0.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "cudart/state/api.hpp"
#include "cudart/state/arrays.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"
#include "round_up.hpp"
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
    p.memPitch = max_pitch;
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
    const ArrayLimits& l = array_limits;
    const auto copy = [](auto& to, const auto& from) {
        std::copy(std::begin(from), std::end(from), std::begin(to));
    };
    p.maxTexture1D = l.texture_1d, p.maxTexture1DMipmap = l.texture_1d_mipmap;
    copy(p.maxTexture2D, l.texture_2d), copy(p.maxTexture2DMipmap, l.texture_2d_mipmap);
    copy(p.maxTexture2DLinear, l.texture_2d_linear);
    copy(p.maxTexture2DGather, l.texture_2d_gather);
    copy(p.maxTexture3D, l.texture_3d), copy(p.maxTexture3DAlt, l.texture_3d_alternative);
    p.maxTextureCubemap = l.texture_cube, p.maxSurfaceCubemap = l.surface_cube;
    copy(p.maxTexture1DLayered, l.texture_1d_layered);
    copy(p.maxTexture2DLayered, l.texture_2d_layered);
    copy(p.maxTextureCubemapLayered, l.texture_cube_layered);
    p.maxSurface1D = l.surface_1d;
    copy(p.maxSurface2D, l.surface_2d), copy(p.maxSurface3D, l.surface_3d);
    copy(p.maxSurface1DLayered, l.surface_1d_layered);
    copy(p.maxSurface2DLayered, l.surface_2d_layered);
    copy(p.maxSurfaceCubemapLayered, l.surface_cube_layered);
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
        {21, p.maxTexture1D},
        {22, p.maxTexture2D[0]},
        {23, p.maxTexture2D[1]},
        {24, p.maxTexture3D[0]},
        {25, p.maxTexture3D[1]},
        {26, p.maxTexture3D[2]},
        {27, p.maxTexture2DLayered[0]},
        {28, p.maxTexture2DLayered[1]},
        {29, p.maxTexture2DLayered[2]},
        {42, p.maxTexture1DLayered[0]},
        {43, p.maxTexture1DLayered[1]},
        {45, p.maxTexture2DGather[0]},
        {46, p.maxTexture2DGather[1]},
        {47, p.maxTexture3DAlt[0]},
        {48, p.maxTexture3DAlt[1]},
        {49, p.maxTexture3DAlt[2]},
        {52, p.maxTextureCubemap},
        {53, p.maxTextureCubemapLayered[0]},
        {54, p.maxTextureCubemapLayered[1]},
        {55, p.maxSurface1D},
        {56, p.maxSurface2D[0]},
        {57, p.maxSurface2D[1]},
        {58, p.maxSurface3D[0]},
        {59, p.maxSurface3D[1]},
        {60, p.maxSurface3D[2]},
        {61, p.maxSurface1DLayered[0]},
        {62, p.maxSurface1DLayered[1]},
        {63, p.maxSurface2DLayered[0]},
        {64, p.maxSurface2DLayered[1]},
        {65, p.maxSurface2DLayered[2]},
        {66, p.maxSurfaceCubemap},
        {67, p.maxSurfaceCubemapLayered[0]},
        {68, p.maxSurfaceCubemapLayered[1]},
        {69, array_limits.texture_1d_linear},
        {70, p.maxTexture2DLinear[0]},
        {71, p.maxTexture2DLinear[1]},
        {72, p.maxTexture2DLinear[2]},
        {73, p.maxTexture2DMipmap[0]},
        {74, p.maxTexture2DMipmap[1]},
        {77, p.maxTexture1DMipmap},
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

constexpr const char* bus_id = "0000:00:00.0";

// The largest stack of a thread. All local memory of a thread has 524,288 bytes (CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability"). For an H200, 524,272 bytes
// are an invalid value; for 523,264 bytes, its memory is too small.
constexpr size_t max_stack = model::local_bytes - 1024;

// Returns the largest stack with which the GPU's memory can hold the stacks of all threads that can
// run at the same time.
size_t max_stack_in_memory() {
    const Runtime& rt = runtime();
    const uint64_t threads = uint64_t{rt.gpu.multiprocessors} * rt.gpu.warps * 32;
    return rt.gpu_bytes() / threads;
}

void check_limit(int limit) {
    require(limit >= Limit::stack_size && limit <= Limit::persisting_l2, cudaErrorInvalidValue);
    require(runtime().limits.contains(limit), cudaErrorUnsupportedLimit);
}

void set_limit(int limit, size_t value) {
    Runtime& rt = runtime();
    rt.streams.refuse_in_capture();
    check_limit(limit);
    require(limit != Limit::l2_fetch_granularity || value <= 128, cudaErrorInvalidValue);
    require(limit != Limit::persisting_l2 || double(value) <= rt.gpu.l2_mb * 1e6,
            cudaErrorInvalidValue);
    if (limit == Limit::stack_size) {
        value = round_up(std::max<size_t>(value, 1), size_t{16});
        require(value <= max_stack, cudaErrorInvalidValue,
                "the stack of a thread would not fit in its local memory");
        require(value <= max_stack_in_memory(), cudaErrorMemoryAllocation,
                "the stacks of the threads would not fit in the GPU's memory");
    }
    if (limit == Limit::malloc_heap) {
        require(!rt.heap_used, cudaErrorInvalidValue,
                "the heap of malloc() cannot change after a launch of a kernel that uses it");
        // An H200 has at least 4 MiB, and accepts more than its memory.
        value = std::max<size_t>(value, 4 << 20);
        sim::DeviceHeap::get().set_limit(std::min<uint64_t>(value, rt.memory.total()));
    }
    rt.limits[limit] = value;
}

}  // namespace

void core::cudaGetDeviceCount(int* count) {
    require(count, cudaErrorInvalidValue);
    *count = 1;
}
void core::cudaGetDevice(int* device) {
    require(device, cudaErrorInvalidValue);
    *device = 0;
}
void core::cudaSetDevice(int device) { check_device(device); }
void core::cudaInitDevice(int device, unsigned, unsigned) { check_device(device); }
void core::cudaSetValidDevices(int* devices, int count) {
    require(devices || count == 0, cudaErrorInvalidValue);
    for (int i = 0; i < count; ++i) check_device(devices[i]);
}
void core::cudaChooseDevice(int* device, const DeviceProperties*) {
    require(device, cudaErrorInvalidValue);
    *device = 0;
}
void core::cudaGetDeviceProperties(DeviceProperties* p, int device) {
    require(p, cudaErrorInvalidValue);
    check_device(device);
    *p = properties();
}
void core::cudaDeviceGetAttribute(int* value, int number, int device) {
    require(value, cudaErrorInvalidValue);
    check_device(device);
    *value = attribute(number);
}
void core::cudaDeviceSynchronize() {
    runtime().streams.refuse_in_capture(true);
    runtime().order.host_waits_for_all();
    runtime().streams.join_all();
}
void core::cudaDeviceReset() { runtime().reset(); }

// These settings are hints that do not change results. They say how the host waits, and how L1 is
// divided.
namespace {
unsigned device_flags = 0;
int cache_preference = 0;
}  // namespace
void core::cudaSetDeviceFlags(unsigned flags) {
    require(flags < 256, cudaErrorInvalidValue);
    device_flags = flags;
}
void core::cudaGetDeviceFlags(unsigned* flags) {
    require(flags, cudaErrorInvalidValue);
    *flags = device_flags;
}
void core::cudaDeviceSetCacheConfig(int preference) {
    require(preference >= 0 && preference <= 3, cudaErrorInvalidValue);
    cache_preference = preference;
}
void core::cudaDeviceGetCacheConfig(int* preference) {
    require(preference, cudaErrorInvalidValue);
    *preference = cache_preference;
}
// The banks of shared memory are 4 bytes wide on every simulated GPU, whatever a program asks for.
void core::cudaDeviceSetSharedMemConfig(int config) {
    require(config >= 0 && config <= 2, cudaErrorInvalidValue);
}
void core::cudaDeviceGetSharedMemConfig(int* config) {
    require(config, cudaErrorInvalidValue);
    *config = 1;  // cudaSharedMemBankSizeFourByte
}
void core::cudaDeviceGetLimit(size_t* value, int limit) {
    require(value, cudaErrorInvalidValue);
    check_limit(limit);
    *value = runtime().limits[limit];
}
void core::cudaDeviceSetLimit(int limit, size_t value) { set_limit(limit, value); }

void core::cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    require(can, cudaErrorInvalidValue);
    check_device(device), check_device(peer);
    *can = 0;  // a device is not its own peer
}
void core::cudaDeviceEnablePeerAccess(int device, unsigned) {
    check_device(device);
    throw Failure{cudaErrorPeerAccessUnsupported};  // a device is not its own peer
}
void core::cudaDeviceDisablePeerAccess(int) { throw Failure{cudaErrorPeerAccessNotEnabled}; }
void core::cudaDeviceGetPCIBusId(char* text, int length, int device) {
    require(text && length > 12, cudaErrorInvalidValue);
    check_device(device);
    std::snprintf(text, size_t(length), "%s", bus_id);
}
void core::cudaDeviceGetByPCIBusId(int* device, const char* text) {
    require(device && text, cudaErrorInvalidValue);
    require(std::string_view(text) == bus_id, cudaErrorInvalidDevice);
    *device = 0;
}

extern "C" __attribute__((visibility("default"))) ChannelFormat cudaCreateChannelDesc(int x, int y,
                                                                                      int z, int w,
                                                                                      int f) {
    return {x, y, z, w, f};
}

void core::cudaRuntimeGetVersion(int* version) {
    require(version, cudaErrorInvalidValue);
    *version = runtime_version;
}
void core::cudaDriverGetVersion(int* version) {
    require(version, cudaErrorInvalidValue);
    *version = runtime_version;
}
// These calls have no effect, as on a GPU without an attached profiler.
void core::cudaProfilerStart() {}
void core::cudaProfilerStop() {}

}  // namespace coalesce::cudart
