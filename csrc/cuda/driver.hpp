// The CUDA driver, loaded at its first use.
//
// Declares the few driver types and functions that this folder uses, so that a build needs no CUDA
// headers. Loading never throws, because many machines have no driver. Driver::status() gives the
// reason of a failure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/explain.hpp"
#include "fork.hpp"

namespace coalesce::cuda {

struct ContextRecord;
struct ModuleRecord;
struct FunctionRecord;
struct StreamRecord;
struct EventRecord;
struct ArrayRecord;
struct MipmapRecord;
struct GraphRecord;
struct ExecutableGraphRecord;
using ContextHandle = ContextRecord*;
using ModuleHandle = ModuleRecord*;
using FunctionHandle = FunctionRecord*;
// A null stream is the legacy default stream, which is ordered with all others.
using Stream = StreamRecord*;
using EventHandle = EventRecord*;
using ArrayHandle = ArrayRecord*;    // a CUDA array
using MipmapHandle = MipmapRecord*;  // a mipmapped CUDA array
using GraphHandle = GraphRecord*;
using ExecutableGraphHandle = ExecutableGraphRecord*;
using Address = unsigned long long;  // an address in device memory

// Each row is X(member, symbol in libcuda, parameters).
#define COALESCE_DRIVER_FUNCTIONS(X)                                                         \
    X(initialize, cuInit, (unsigned))                                                        \
    X(driver_version, cuDriverGetVersion, (int*))                                            \
    X(error_name, cuGetErrorName, (Result, const char**))                                    \
    X(error_string, cuGetErrorString, (Result, const char**))                                \
    X(device_count, cuDeviceGetCount, (int*))                                                \
    X(device_get, cuDeviceGet, (int*, int))                                                  \
    X(device_name, cuDeviceGetName, (char*, int, int))                                       \
    X(device_attribute, cuDeviceGetAttribute, (int*, int, int))                              \
    X(device_memory, cuDeviceTotalMem_v2, (size_t*, int))                                    \
    X(context_retain, cuDevicePrimaryCtxRetain, (ContextHandle*, int))                       \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int))                                  \
    X(context_reset, cuDevicePrimaryCtxReset_v2, (int))                                      \
    X(context_current, cuCtxGetCurrent, (ContextHandle*))                                    \
    X(context_set, cuCtxSetCurrent, (ContextHandle))                                         \
    X(context_synchronize, cuCtxSynchronize, ())                                             \
    X(memory_info, cuMemGetInfo_v2, (size_t*, size_t*))                                      \
    X(memory_allocate, cuMemAlloc_v2, (Address*, size_t))                                    \
    X(memory_free, cuMemFree_v2, (Address))                                                  \
    X(host_allocate, cuMemHostAlloc, (void**, size_t, unsigned))                             \
    X(host_free, cuMemFreeHost, (void*))                                                     \
    X(host_register, cuMemHostRegister_v2, (void*, size_t, unsigned))                        \
    X(host_unregister, cuMemHostUnregister, (void*))                                         \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (Address, const void*, size_t, Stream))          \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, Address, size_t, Stream))                  \
    X(copy_on_device, cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream))              \
    X(memory_set, cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                 \
    X(pointer_attributes, cuPointerGetAttributes, (unsigned, const int*, void**, Address))   \
    X(array_create, cuArray3DCreate_v2, (ArrayHandle*, const void*))                         \
    X(array_destroy, cuArrayDestroy, (ArrayHandle))                                          \
    X(mipmap_create, cuMipmappedArrayCreate, (MipmapHandle*, const void*, unsigned))         \
    X(mipmap_level, cuMipmappedArrayGetLevel, (ArrayHandle*, MipmapHandle, unsigned))        \
    X(mipmap_destroy, cuMipmappedArrayDestroy, (MipmapHandle))                               \
    X(copy_3d, cuMemcpy3DAsync_v2, (const void*, Stream))                                    \
    X(texture_create, cuTexObjectCreate, (uint64_t*, const void*, const void*, const void*)) \
    X(texture_destroy, cuTexObjectDestroy, (uint64_t))                                       \
    X(surface_create, cuSurfObjectCreate, (uint64_t*, const void*))                          \
    X(surface_destroy, cuSurfObjectDestroy, (uint64_t))                                      \
    X(stream_create, cuStreamCreate, (Stream*, unsigned))                                    \
    X(stream_destroy, cuStreamDestroy_v2, (Stream))                                          \
    X(stream_synchronize, cuStreamSynchronize, (Stream))                                     \
    X(stream_query, cuStreamQuery, (Stream))                                                 \
    X(event_create, cuEventCreate, (EventHandle*, unsigned))                                 \
    X(event_destroy, cuEventDestroy_v2, (EventHandle))                                       \
    X(event_record, cuEventRecord, (EventHandle, Stream))                                    \
    X(event_query, cuEventQuery, (EventHandle))                                              \
    X(event_synchronize, cuEventSynchronize, (EventHandle))                                  \
    X(event_elapsed, cuEventElapsedTime, (float*, EventHandle, EventHandle))                 \
    X(stream_wait_event, cuStreamWaitEvent, (Stream, EventHandle, unsigned))                 \
    X(module_load, cuModuleLoadDataEx, (ModuleHandle*, const void*, unsigned, int*, void**)) \
    X(module_function, cuModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))    \
    X(module_global, cuModuleGetGlobal_v2, (Address*, size_t*, ModuleHandle, const char*))   \
    X(function_attribute, cuFuncGetAttribute, (int*, int, FunctionHandle))                   \
    X(set_function_attribute, cuFuncSetAttribute, (FunctionHandle, int, int))                \
    X(launch, cuLaunchKernel,                                                                \
      (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
       Stream, void**, void**))                                                              \
    X(launch_cooperative, cuLaunchCooperativeKernel,                                         \
      (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
       Stream, void**))                                                                      \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, FunctionHandle, int, size_t))

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
    static constexpr int programmatic_serialization = 6;  // a CUlaunchAttributeID
    alignas(8) int id = 0;
    alignas(8) int value = 0;
    std::array<int, 15> rest_of_value{};
};
struct LaunchConfig {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    Stream stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

struct Driver {
    enum class Status : uint8_t {
        ok,
        no_driver,  // libcuda.so.1 is missing, or is not a driver
        failed,     // cuInit failed; `result` is its error
        no_device,  // there is a driver, but it can use no GPU
    };

    // Returns the driver of the process. The first call loads it. The environment variable
    // COALESCE_CUDA_DRIVER can name another library than libcuda.so.1.
    [[nodiscard]] static const Driver& get();

    // Loads a driver from `path`. Only get() and tests use this.
    explicit Driver(const std::string& path);

    Status status = Status::no_driver;
    std::string detail;  // the message of the loader or the driver
    // The newest CUDA version that the driver supports. 13000 means 13.0, and 0 means unknown.
    int version = 0;
    int devices = 0;  // number of GPUs
    // The number of forks of the process at loading. The driver does not work in a forked child.
    const uint64_t forks = fork::count();

    // Returns a text such as "CUDA_ERROR_ILLEGAL_ADDRESS (700): it read or wrote memory outside
    // every allocation".
    [[nodiscard]] std::string describe(Result result) const;

    // Throws LaunchError "<what>: <describe(result)>" unless the result is success.
    void check(Result result, const std::string& what) const;

#define COALESCE_DECLARE(member, symbol, parameters) Result(*member) parameters = nullptr;
    COALESCE_DRIVER_FUNCTIONS(COALESCE_DECLARE)
#undef COALESCE_DECLARE

    // cuCtxRecordEvent. Null for drivers before CUDA 12.5, which do not have it.
    Result (*context_record_event)(ContextHandle context, EventHandle event) = nullptr;

    // cuLaunchKernelEx. Null for drivers before CUDA 11.8, which do not have it.
    Result (*launch_with_attributes)(const LaunchConfig* config, FunctionHandle function,
                                     void** arguments, void** extra) = nullptr;

    // cuStreamBeginCapture_v2 and the other functions of graphs. graph_instantiate is
    // cuGraphInstantiateWithFlags. It is null for drivers before CUDA 11.4, which do not have it.
    Result (*stream_begin_capture)(Stream stream, int mode) = nullptr;
    Result (*stream_end_capture)(Stream stream, GraphHandle* graph) = nullptr;
    Result (*graph_instantiate)(ExecutableGraphHandle* executable, GraphHandle graph,
                                unsigned long long flags) = nullptr;
    Result (*graph_launch)(ExecutableGraphHandle executable, Stream stream) = nullptr;
    Result (*graph_destroy)(GraphHandle graph) = nullptr;
    Result (*executable_graph_destroy)(ExecutableGraphHandle executable) = nullptr;

    // cuTensorMapEncodeTiled. Null for drivers before CUDA 12.0, which do not have it.
    Result (*encode_tensor_map)(void* map, int element, uint32_t rank, Address address,
                                const uint64_t* extents, const uint64_t* strides,
                                const uint32_t* box, const uint32_t* steps, int interleave,
                                int swizzle, int promotion, int fill) = nullptr;
};

}  // namespace coalesce::cuda
