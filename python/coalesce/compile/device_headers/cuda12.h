// Defines names of CUDA 12 and older that CUDA 13 removed. With them, programs that were written
// for the older versions compile.
//
// `coalesce run` includes this header after <cuda_runtime.h> and before the text of a .cu file. It
// has only names for which CUDA 13 has an equivalent. Texture references, which CUDA 12 removed,
// are in texture_references.h.
#pragma once
#if defined(__cplusplus) && defined(CUDART_VERSION) && CUDART_VERSION >= 13000

#define cudaThreadSynchronize cudaDeviceSynchronize
#define cudaThreadExit cudaDeviceReset
#define cudaThreadSetLimit cudaDeviceSetLimit
#define cudaThreadGetLimit cudaDeviceGetLimit
#define cudaThreadSetCacheConfig cudaDeviceSetCacheConfig
#define cudaThreadGetCacheConfig cudaDeviceGetCacheConfig

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

#endif
