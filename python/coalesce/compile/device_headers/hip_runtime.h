// The names of HIP's <hip/hip_runtime.h> for kernels, defined by their equivalents in CUDA.
#pragma once
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];

// HIP's shuffles and votes take no mask.
#define __shfl(...) __shfl_sync(__activemask(), __VA_ARGS__)
#define __shfl_up(...) __shfl_up_sync(__activemask(), __VA_ARGS__)
#define __shfl_down(...) __shfl_down_sync(__activemask(), __VA_ARGS__)
#define __shfl_xor(...) __shfl_xor_sync(__activemask(), __VA_ARGS__)
#define __any(predicate) __any_sync(__activemask(), predicate)
#define __all(predicate) __all_sync(__activemask(), predicate)
#define __ballot(predicate) ((unsigned long long)__ballot_sync(__activemask(), predicate))

#define __ATOMIC_RELAXED __NV_ATOMIC_RELAXED
#define __ATOMIC_ACQUIRE __NV_ATOMIC_ACQUIRE
#define __ATOMIC_RELEASE __NV_ATOMIC_RELEASE
#define __ATOMIC_ACQ_REL __NV_ATOMIC_ACQ_REL
#define __ATOMIC_SEQ_CST __NV_ATOMIC_SEQ_CST
#define __HIP_MEMORY_SCOPE_SINGLETHREAD __NV_THREAD_SCOPE_THREAD
#define __HIP_MEMORY_SCOPE_WAVEFRONT __NV_THREAD_SCOPE_BLOCK // CUDA has no warp scope
#define __HIP_MEMORY_SCOPE_WORKGROUP __NV_THREAD_SCOPE_BLOCK
#define __HIP_MEMORY_SCOPE_AGENT __NV_THREAD_SCOPE_DEVICE
#define __HIP_MEMORY_SCOPE_SYSTEM __NV_THREAD_SCOPE_SYSTEM
#define __hip_atomic_load(...) __nv_atomic_load_n(__VA_ARGS__)
#define __hip_atomic_store(...) __nv_atomic_store_n(__VA_ARGS__)
#define __hip_atomic_exchange(...) __nv_atomic_exchange_n(__VA_ARGS__)
#define __hip_atomic_compare_exchange_strong(place, expected, value, ...)                          \
    __nv_atomic_compare_exchange_n(place, expected, value, false, __VA_ARGS__)
#define __hip_atomic_compare_exchange_weak(place, expected, value, ...)                            \
    __nv_atomic_compare_exchange_n(place, expected, value, true, __VA_ARGS__)
#define __hip_atomic_fetch_add(...) __nv_atomic_fetch_add(__VA_ARGS__)
#define __hip_atomic_fetch_and(...) __nv_atomic_fetch_and(__VA_ARGS__)
#define __hip_atomic_fetch_or(...) __nv_atomic_fetch_or(__VA_ARGS__)
#define __hip_atomic_fetch_xor(...) __nv_atomic_fetch_xor(__VA_ARGS__)
#define __hip_atomic_fetch_min(...) __nv_atomic_fetch_min(__VA_ARGS__)
#define __hip_atomic_fetch_max(...) __nv_atomic_fetch_max(__VA_ARGS__)
