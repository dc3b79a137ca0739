// Declares what device code uses, so that g++ compiles a kernel and its threads run on the host.
//
// METHOD
// tools/any_references.py includes this file before the text of a kernel, and run_kernel.hpp
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

#include <cuda_fp8.h>
#include <math.h>  // abs, signbit and others of float, also outside of std
#include <math_constants.h>
#include <stdlib.h>
#include <complex>

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
// The values of g++ for __ATOMIC_RELAXED and so on.
#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5

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
unsigned running(unsigned mask);  // the lanes of the mask whose threads have not returned
void until(const std::function<bool()>& condition);  // waits for another thread of the block
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
    host::slots[host::lane_of_block] = condition != 0;
    host::warp_barrier(mask);
    const unsigned lanes = host::running(mask);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) {
        if (lanes >> i & 1) result |= unsigned(host::slots[host::first_of_warp() + i]) << i;
    }
    host::warp_barrier(mask);
    return result;
}
inline int __any_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition) != 0; }
inline int __all_sync(unsigned mask, int condition) { return __ballot_sync(mask, !condition) == 0; }

#define HOST_LOAD(name)  \
    template <class T>   \
    T name(const T* p) { \
        return *p;       \
    }
HOST_LOAD(__ldg)
HOST_LOAD(__ldca)
HOST_LOAD(__ldcg)
HOST_LOAD(__ldcs)
HOST_LOAD(__ldcv)
HOST_LOAD(__ldlu)
#define HOST_STORE(name)                           \
    template <class T>                             \
    void name(T* p, std::common_type_t<T> value) { \
        *p = value;                                \
    }
HOST_STORE(__stwb)
HOST_STORE(__stcg)
HOST_STORE(__stcs)
HOST_STORE(__stwt)

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

inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }

// Four signed or unsigned bytes in a word.
template <class Part, class F>
unsigned host_bytes(unsigned a, unsigned b, F&& f) {
    unsigned result = 0;
    for (int i = 0; i < 32; i += 8)
        result |= unsigned(f(int(Part(a >> i)), int(Part(b >> i))) & 255) << i;
    return result;
}
#define HOST_BYTES(name, part, value)                                      \
    inline unsigned name(unsigned x, unsigned y) {                         \
        return host_bytes<part>(x, y, [](int a, int b) { return value; }); \
    }
HOST_BYTES(__vadd4, uint8_t, a + b)
HOST_BYTES(__vsub4, uint8_t, a - b)
HOST_BYTES(__vsubss4, int8_t, std::clamp(a - b, -128, 127))
HOST_BYTES(__vaddss4, int8_t, std::clamp(a + b, -128, 127))
HOST_BYTES(__vcmpeq4, uint8_t, a == b ? 255 : 0)
HOST_BYTES(__vcmpne4, uint8_t, a != b ? 255 : 0)
HOST_BYTES(__vcmpgtu4, uint8_t, a > b ? 255 : 0)
HOST_BYTES(__vmaxs4, int8_t, std::max(a, b))
HOST_BYTES(__vmins4, int8_t, std::min(a, b))
inline float __exp2f(float x) { return std::exp2(x); }
inline float __fmul_rz(float a, float b) { return a * b; }
inline float __fmaxf(float a, float b) { return std::fmax(a, b); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline int __float2int_ru(float x) { return int(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) { return unsigned(std::nearbyint(x)); }
inline unsigned __float2uint_rz(float x) { return unsigned(x); }
inline unsigned __float2uint_rd(float x) { return unsigned(std::floor(x)); }
inline double __int2double_rn(int x) { return x; }
inline int __double2int_rz(double x) { return int(x); }
inline int __double2int_rn(double x) { return int(std::nearbyint(x)); }
inline float __double2float_rn(double x) { return float(x); }
inline int __mulhi(int a, int b) { return int(static_cast<long long>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(unsigned(x))) << 32 | __brev(unsigned(x >> 32));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned select) {
    const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned which = select >> (4 * i) & 7;
        result |= unsigned(both >> (8 * which) & 255) << (8 * i);
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return by & 31 ? low >> (by & 31) | high << (32 - (by & 31)) : low;
}
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += int(int8_t(a >> (8 * i))) * int8_t(b >> (8 * i));
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 255) * (b >> (8 * i) & 255);
    return c;
}
inline int __dp4a(char4 a, char4 b, int c) {
    return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    host::warp_barrier(mask);
    const unsigned lanes = host::running(mask);
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) {
        const T other = __shfl_sync(mask, value, i);
        if (lanes >> i & 1 && other == value) result |= 1u << i;
    }
    return result;
}
#define HOST_REDUCTION(name, merged)                 \
    template <class T>                               \
    T name(unsigned mask, T value) {                 \
        host::warp_barrier(mask);                    \
        const unsigned lanes = host::running(mask);  \
        T result{};                                  \
        bool first = true;                           \
        for (int i = 0; i < 32; ++i) {               \
            const T x = __shfl_sync(mask, value, i); \
            if (!(lanes >> i & 1)) continue;         \
            result = first ? x : merged;             \
            first = false;                           \
        }                                            \
        return result;                               \
    }
HOST_REDUCTION(__reduce_add_sync, result + x)
HOST_REDUCTION(__reduce_min_sync, x < result ? x : result)
HOST_REDUCTION(__reduce_max_sync, x > result ? x : result)
HOST_REDUCTION(__reduce_and_sync, result& x)
HOST_REDUCTION(__reduce_or_sync, result | x)
HOST_REDUCTION(__reduce_xor_sync, result ^ x)
HOST_ATOMIC(atomicAdd_block, old + value)
HOST_ATOMIC(atomicAdd_system, old + value)
inline void __nanosleep(unsigned) {}
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void __trap() { std::abort(); }
inline unsigned long long __cvta_generic_to_shared(const void* p) {
    return reinterpret_cast<unsigned long long>(p);
}

// Fetches of the nearest texel; outside, of the texel at the edge.
namespace host {
struct Texture {
    const void* texels;
    long extents[3];
    long bytes;  // of a texel
};
template <class T>
T texel(cudaTextureObject_t object, float x, float y, float z) {
    const auto& texture = *reinterpret_cast<const Texture*>(object);
    long index = 0;
    const float place[] = {x, y, z};
    for (int axis = 2; axis >= 0; --axis) {
        const long extent = texture.extents[axis], i = long(std::floor(place[axis]));
        index = index * extent + std::clamp(i, 0L, extent - 1);
    }
    if (texture.bytes != sizeof(T)) std::abort();  // the hardware would convert the texel
    return static_cast<const T*>(texture.texels)[index];
}
}  // namespace host
template <class T>
T tex1Dfetch(cudaTextureObject_t object, int x) {
    return host::texel<T>(object, float(x), 0, 0);
}
template <class T>
T tex1D(cudaTextureObject_t object, float x) {
    return host::texel<T>(object, x, 0, 0);
}
template <class T>
T tex2D(cudaTextureObject_t object, float x, float y) {
    return host::texel<T>(object, x, y, 0);
}
template <class T>
T tex3D(cudaTextureObject_t object, float x, float y, float z) {
    return host::texel<T>(object, x, y, z);
}

// Functions of 16-bit floats, computed in float and rounded once.
#define HOST_HALF(name, value)                                                  \
    inline __half h##name(__half h) {                                           \
        const float x = __half2float(h);                                        \
        return __float2half(value);                                             \
    }                                                                           \
    inline __half2 h2##name(__half2 h) { return {h##name(h.x), h##name(h.y)}; } \
    inline __nv_bfloat16 h##name(__nv_bfloat16 h) {                             \
        const float x = __bfloat162float(h);                                    \
        return __float2bfloat16(value);                                         \
    }                                                                           \
    inline __nv_bfloat162 h2##name(__nv_bfloat162 h) { return {h##name(h.x), h##name(h.y)}; }
HOST_HALF(exp, std::exp(x))
HOST_HALF(exp2, std::exp2(x))
HOST_HALF(exp10, std::pow(10.0f, x))
HOST_HALF(log, std::log(x))
HOST_HALF(log2, std::log2(x))
HOST_HALF(log10, std::log10(x))
HOST_HALF(sin, std::sin(x))
HOST_HALF(cos, std::cos(x))
HOST_HALF(tanh, std::tanh(x))
HOST_HALF(sqrt, std::sqrt(x))
HOST_HALF(rsqrt, 1 / std::sqrt(x))
HOST_HALF(rcp, 1 / x)
HOST_HALF(floor, std::floor(x))
HOST_HALF(ceil, std::ceil(x))
HOST_HALF(trunc, std::trunc(x))
HOST_HALF(rint, std::nearbyint(x))
inline __half __hfma(__half a, __half b, __half c) {
    return __double2half(double(__half2float(a)) * __half2float(b) + double(__half2float(c)));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __double2bfloat16(double(__bfloat162float(a)) * __bfloat162float(b) +
                             double(__bfloat162float(c)));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline int __half2int_rn(__half x) { return int(std::nearbyint(__half2float(x))); }
inline int __half2int_rd(__half x) { return int(std::floor(__half2float(x))); }

#include "groups.hpp"
#include "tensor_cores.hpp"

using std::isfinite;
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
