// Declares what device code uses, so that g++ compiles a kernel and its threads run on the host.
//
// METHOD
// tests/any_references.py includes this file before the text of a kernel, and run_kernel.hpp
// behind it. The threads of a block are fibers of one host thread. A barrier or a shuffle switches
// to the next fiber. Shared variables become static variables, because one block runs at a time.
// The parameters and the arithmetic are those of the host's compiler. So the results are
// independent of NVRTC and of the simulator.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#undef __shared__
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __managed__
#undef __launch_bounds__
#undef __forceinline__
#undef __noinline__
#undef __grid_constant__
#define __shared__ static
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __CUDA_ARCH__ 900
#define warpSize 32

using uint = unsigned;
using ulong = unsigned long;
using ushort = unsigned short;

namespace host {

extern uint3 thread, block;
extern dim3 block_extents, grid_extents;
extern int lane_of_block;               // the number of the running thread in its block
extern char* dynamic_shared;            // the block's dynamic shared memory
extern unsigned long long slots[1024];  // a value of each thread, for shuffles and votes

void block_barrier();
void warp_barrier(unsigned mask);
// Waits for the block. Returns how many threads have a condition that is true, and how many voted.
std::pair<int, int> block_vote(bool condition);

inline int first_of_warp() { return lane_of_block & ~31; }

template <class T>
T exchanged(unsigned mask, T value, int source, bool valid) {
    static_assert(sizeof(T) <= 8);
    std::memcpy(&slots[lane_of_block], &value, sizeof value);
    warp_barrier(mask);
    if (valid) std::memcpy(&value, &slots[first_of_warp() + source], sizeof value);
    warp_barrier(mask);
    return value;
}

}  // namespace host

#define threadIdx host::thread
#define blockIdx host::block
#define blockDim host::block_extents
#define gridDim host::grid_extents

inline void __syncthreads() { host::block_barrier(); }
inline int __syncthreads_or(int v) { return host::block_vote(v).first > 0; }
inline int __syncthreads_count(int v) { return host::block_vote(v).first; }
inline int __syncthreads_and(int v) {
    const auto [yes, all] = host::block_vote(v);
    return yes == all;
}
inline void __syncwarp(unsigned mask = 0xffffffff) { host::warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline long long clock64() { return 0; }
inline unsigned __activemask() { return 0xffffffff; }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const int lane = host::lane_of_block & 31;
    return host::exchanged(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), true);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const int lane = host::lane_of_block & 31, other = lane ^ bits;
    return host::exchanged(mask, value, other, other < (lane & ~(width - 1)) + width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const int lane = host::lane_of_block & 31, other = lane + int(by);
    return host::exchanged(mask, value, other, other < (lane & ~(width - 1)) + width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const int lane = host::lane_of_block & 31, other = lane - int(by);
    return host::exchanged(mask, value, other, other >= (lane & ~(width - 1)));
}
inline unsigned __ballot_sync(unsigned mask, int condition) {
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    host::slots[host::lane_of_block] = condition != 0;
    host::warp_barrier(mask);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) {
        const unsigned thread = unsigned(host::first_of_warp() + i);
        if ((mask >> i & 1) && thread < threads) result |= unsigned(host::slots[thread]) << i;
    }
    host::warp_barrier(mask);
    return result;
}
inline int __any_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition) != 0; }
inline int __all_sync(unsigned mask, int condition) {
    return __ballot_sync(mask, condition) == mask;
}

template <class T>
T __ldg(const T* p) {
    return *p;
}
template <class T>
T __ldcs(const T* p) {
    return *p;
}
template <class T>
T __ldcg(const T* p) {
    return *p;
}
template <class T>
void __stcs(T* p, T value) {
    *p = value;
}
template <class T>
void __stcg(T* p, T value) {
    *p = value;
}

// An atomic function: `changed` is the new value of the old value `old` and the operand `value`.
#define HOST_ATOMIC(name, changed)            \
    template <class T, class U>               \
    T name(T* p, U operand) {                 \
        const T old = *p, value = T(operand); \
        *p = changed;                         \
        return old;                           \
    }
HOST_ATOMIC(atomicAdd, old + value)
HOST_ATOMIC(atomicSub, old - value)
HOST_ATOMIC(atomicMax, value > old ? value : old)
HOST_ATOMIC(atomicMin, value < old ? value : old)
HOST_ATOMIC(atomicExch, value)
HOST_ATOMIC(atomicOr, old | value)
HOST_ATOMIC(atomicAnd, old& value)
HOST_ATOMIC(atomicXor, old ^ value)
HOST_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
HOST_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
template <class T, class U, class V>
T atomicCAS(T* p, U compared, V value) {
    const T old = *p;
    if (old == T(compared)) *p = T(value);
    return old;
}

// Fast functions of the device, computed with the accuracy of the host's library.
#define HOST_FUNCTION(name, value) \
    inline float name(float x) { return value; }
HOST_FUNCTION(rsqrtf, 1 / std::sqrt(x))
HOST_FUNCTION(rcbrtf, 1 / std::cbrt(x))
HOST_FUNCTION(sinpif, std::sin(x * 3.14159265358979323846))
HOST_FUNCTION(cospif, std::cos(x * 3.14159265358979323846))
HOST_FUNCTION(normcdff, 0.5 * std::erfc(-x * 0.70710678118654752440))
HOST_FUNCTION(__expf, std::exp(x))
HOST_FUNCTION(__exp10f, std::pow(10.0f, x))
HOST_FUNCTION(__logf, std::log(x))
HOST_FUNCTION(__log2f, std::log2(x))
HOST_FUNCTION(__log10f, std::log10(x))
HOST_FUNCTION(__sinf, std::sin(x))
HOST_FUNCTION(__cosf, std::cos(x))
HOST_FUNCTION(__tanf, std::tan(x))
HOST_FUNCTION(__saturatef, x < 0 ? 0 : x > 1 ? 1 : x)
HOST_FUNCTION(__frcp_rn, 1 / x)
HOST_FUNCTION(__fsqrt_rn, std::sqrt(x))
HOST_FUNCTION(__frsqrt_rn, 1 / std::sqrt(x))
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float fdividef(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline void __sincosf(float x, float* s, float* c) { *s = std::sin(x), *c = std::cos(x); }
inline int __float2int_rn(float x) { return int(std::nearbyint(x)); }
inline int __float2int_rd(float x) { return int(std::floor(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return unsigned(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
    return result;
}
template <class To, class From>
To host_bits(From x) {
    To result;
    std::memcpy(&result, &x, sizeof result);
    return result;
}
inline float __int_as_float(int x) { return host_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return host_bits<float>(x); }
inline int __float_as_int(float x) { return host_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return host_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return host_bits<double>(x); }
inline long long __double_as_longlong(double x) { return host_bits<long long>(x); }

using std::isinf;
using std::isnan;
using std::max;
using std::min;
template <class A, class B, class = std::enable_if_t<!std::is_same_v<A, B>>>
auto min(A a, B b) -> decltype(a + b) {
    return a < b ? a : b;
}
template <class A, class B, class = std::enable_if_t<!std::is_same_v<A, B>>>
auto max(A a, B b) -> decltype(a + b) {
    return a > b ? a : b;
}
