// Defines names of the runtime API of CUDA 12 and older that CUDA 13 removed or changed. With them,
// programs that were written for the older versions compile.
//
// The headers in this folder are found before those of CUDA with the same names. They include those
// of CUDA and then the names of older versions. A changed function gets an overload.
#pragma once
#if defined(CUDART_VERSION) && CUDART_VERSION >= 13000
#define cudaThreadSynchronize cudaDeviceSynchronize
#define cudaThreadExit cudaDeviceReset
#define cudaThreadSetLimit cudaDeviceSetLimit
#define cudaThreadGetLimit cudaDeviceGetLimit
#define cudaThreadSetCacheConfig cudaDeviceSetCacheConfig
#define cudaThreadGetCacheConfig cudaDeviceGetCacheConfig
#endif
#if defined(__cplusplus) && defined(CUDART_VERSION) && CUDART_VERSION >= 13000
extern "C++" {  // also if a program includes CUDA's headers in a block extern "C"

// The members of cudaDeviceProp that CUDA 13 replaced by attributes.
struct coalesceDeviceProp : cudaDeviceProp {
    int clockRate, memoryClockRate, deviceOverlap, kernelExecTimeoutEnabled, computeMode;
    int singleToDoublePrecisionPerfRatio, maxTexture1DLinear, cooperativeMultiDeviceLaunch;
};

static inline cudaError_t cudaGetDeviceProperties(coalesceDeviceProp *p, int device) {
    cudaError_t error = cudaGetDeviceProperties(static_cast<cudaDeviceProp *>(p), device);
    struct {
        int coalesceDeviceProp::*member;
        cudaDeviceAttr attribute;
    } const moved[] = {
        {&coalesceDeviceProp::clockRate, cudaDevAttrClockRate},
        {&coalesceDeviceProp::memoryClockRate, cudaDevAttrMemoryClockRate},
        {&coalesceDeviceProp::deviceOverlap, cudaDevAttrGpuOverlap},
        {&coalesceDeviceProp::kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout},
        {&coalesceDeviceProp::computeMode, cudaDevAttrComputeMode},
        {&coalesceDeviceProp::singleToDoublePrecisionPerfRatio,
         cudaDevAttrSingleToDoublePrecisionPerfRatio},
        {&coalesceDeviceProp::maxTexture1DLinear, cudaDevAttrMaxTexture1DLinearWidth},
    };
    p->cooperativeMultiDeviceLaunch = 0;
    for (const auto &one : moved)
        if (error == cudaSuccess)
            error = cudaDeviceGetAttribute(&(p->*one.member), one.attribute, device);
    return error;
}
#define cudaDeviceProp coalesceDeviceProp

// Before CUDA 13 a place was the number of a device, or cudaCpuDeviceId.
static inline cudaMemLocation coalesceLocation(int device) {
    cudaMemLocation place = {};
    place.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    place.id = device == cudaCpuDeviceId ? 0 : device;
    return place;
}
static inline cudaError_t cudaMemPrefetchAsync(const void *p, size_t count, int device,
                                               cudaStream_t stream = 0) {
    return cudaMemPrefetchAsync(p, count, coalesceLocation(device), 0, stream);
}
static inline cudaError_t cudaMemAdvise(const void *p, size_t count, cudaMemoryAdvise advice,
                                        int device) {
    return cudaMemAdvise(p, count, advice, coalesceLocation(device));
}

// Nodes of graphs had no data of edges.
static inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from,
                                            cudaGraphNode_t *to, size_t *count) {
    return cudaGraphGetEdges(graph, from, to, nullptr, count);
}
static inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                       size_t *count) {
    return cudaGraphNodeGetDependencies(node, nodes, nullptr, count);
}
static inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                         cudaGraphNode_t *nodes, size_t *count) {
    return cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}
static inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                   const cudaGraphNode_t *to, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
static inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                      const cudaGraphNode_t *from,
                                                      const cudaGraphNode_t *to, size_t count) {
    return cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}
static inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                           const cudaGraphNode_t *dependencies, size_t count,
                                           cudaGraphNodeParams *parameters) {
    return cudaGraphAddNode(node, graph, dependencies, nullptr, count, parameters);
}
static inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                              cudaGraphNode_t *dependencies,
                                                              size_t count, unsigned flags = 0) {
    return cudaStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count, flags);
}
static inline cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id = 0,
    cudaGraph_t *graph = 0, const cudaGraphNode_t **dependencies = 0, size_t *count = 0) {
    return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, 0, count);
}

// CUDA 13 kept the newer of two functions, without the number of its version.
#define cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo
#define cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies
#define cudaGraphGetEdges_v2 cudaGraphGetEdges
#define cudaGraphNodeGetDependencies_v2 cudaGraphNodeGetDependencies
#define cudaGraphNodeGetDependentNodes_v2 cudaGraphNodeGetDependentNodes
#define cudaGraphAddDependencies_v2 cudaGraphAddDependencies
#define cudaGraphRemoveDependencies_v2 cudaGraphRemoveDependencies
#define cudaGraphAddNode_v2 cudaGraphAddNode
#define cudaMemPrefetchAsync_v2 cudaMemPrefetchAsync
#define cudaMemAdvise_v2 cudaMemAdvise
#define cudaEventElapsedTime_v2 cudaEventElapsedTime
#define cudaGetDeviceProperties_v2 cudaGetDeviceProperties

// Members of cudaPointerAttributes that CUDA 11 removed.
struct coalescePointerAttributes : cudaPointerAttributes {
    cudaMemoryType memoryType;
    int isManaged;
};
static inline cudaError_t cudaPointerGetAttributes(coalescePointerAttributes *attributes,
                                                   const void *pointer) {
    const cudaError_t error =
        cudaPointerGetAttributes(static_cast<cudaPointerAttributes *>(attributes), pointer);
    attributes->isManaged = attributes->type == cudaMemoryTypeManaged;
    attributes->memoryType = attributes->isManaged ? cudaMemoryTypeDevice : attributes->type;
    return error;
}
#define cudaPointerAttributes coalescePointerAttributes

// Cooperative launches on several GPUs. The simulator has one.
struct cudaLaunchParams {
    void *func;
    dim3 gridDim, blockDim;
    void **args;
    size_t sharedMem;
    cudaStream_t stream;
};
enum { cudaCooperativeLaunchMultiDeviceNoPreSync = 1, cudaCooperativeLaunchMultiDeviceNoPostSync };
static inline cudaError_t cudaLaunchCooperativeKernelMultiDevice(cudaLaunchParams *launches,
                                                                 unsigned count, unsigned = 0) {
    if (count != 1) return cudaErrorInvalidValue;
    return cudaLaunchCooperativeKernel(launches->func, launches->gridDim, launches->blockDim,
                                       launches->args, launches->sharedMem, launches->stream);
}

}  // extern "C++"
#endif
#if defined(__CUDACC__) && defined(COALESCE_TEXTURE_REFERENCES)
#include "texture_references.h"
#endif
