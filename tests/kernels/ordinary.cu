// Ordinary CUDA C++, for tests that execute its machine code. Each kernel has 64 threads. It reads an
// array `a` and writes an array `o`; both have 256 elements. The results have no meaning. The kernels
// contain many expressions for which compilers use special instructions.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;
typedef long long s64;
typedef unsigned long long u64;

#define KERNEL(name, T) extern "C" __global__ void name(const T* a, T* o)
#define I const int i = threadIdx.x

KERNEL(extremes, float) {
    I;
    o[i] = fminf(a[i], fmaxf(a[i + 1], 0.5f));
}
KERNEL(extremes_of_NaN, double) {
    I;
    o[i] = fmin(a[i], a[i + 1]);
    o[i + 64] = fmax(a[i], a[i + 2]);
}
KERNEL(fast_functions, float) {
    I;
    o[i] = __expf(a[i]) * __sinf(a[i]) + logf(a[i]) / a[i + 1] + powf(a[i], a[i + 1]);
}
KERNEL(rounding, float) {
    I;
    o[i] = __fdividef(a[i], a[i + 1]) + __frcp_rn(a[i]) + __fadd_ru(a[i], 1) +
           __fmaf_rz(a[i], a[i], 3);
}
KERNEL(functions, float) {
    I;
    o[i] = sinf(a[i]) + expf(a[i]) + logf(a[i]) + powf(a[i], 1.5f) + 1 / a[i] + tanhf(a[i]) +
           cbrtf(a[i]);
}
KERNEL(functions_of_doubles, double) {
    I;
    o[i] =
        sin(a[i]) + exp(a[i]) + log(a[i]) + pow(a[i], 1.5) + 1 / a[i] + floor(a[i]) + fmod(a[i], 3);
}
KERNEL(more_functions_of_doubles, double) {
    I;
    o[i] = tanh(a[i]) + erf(a[i]) + cbrt(a[i]) + rsqrt(a[i]) + atan2(a[i], a[i + 1]);
}
KERNEL(saturation, float) {
    I;
    o[i] = __saturatef(a[i] * 2) + copysignf(a[i], -1) + ldexpf(a[i], 3) + hypotf(a[i], 2) +
           isnan(a[i]);
}
KERNEL(halves, __half) {
    I;
    o[i] = __hfma(a[i], a[i + 1], __hadd(a[i + 2], __float2half(2.5f)));
}
KERNEL(halves_divided, __half) {
    I;
    o[i] = __hdiv(a[i], a[i + 1]);
}
KERNEL(halves_compared, __half) {
    I;
    o[i] = __hgt(a[i], a[i + 1]) ? a[i] : __hmax(a[i + 2], __hmin(a[i], a[i + 1]));
}
KERNEL(functions_of_halves, __half) {
    I;
    o[i] = hexp(a[i]) + hsqrt(a[i]) + hsin(a[i]) + hrcp(a[i]);
}
KERNEL(halves_and_integers, __half) {
    I;
    o[i] = __int2half_rn(__half2int_rz(a[i]) + i) + hfloor(a[i]) + __habs(a[i]);
}
KERNEL(pairs_of_halves, __half) {
    I;
    const __half2* A = (const __half2*)a;
    __half2* O = (__half2*)o;
    O[i] = __hfma2(A[i], A[i + 1], __hadd2(A[i], A[i + 2]));
}
KERNEL(pairs_of_halves_compared, __half) {
    I;
    const __half2* A = (const __half2*)a;
    __half2* O = (__half2*)o;
    O[i] = __hgt2(A[i], A[i + 1]);
    if (__hbgt2(A[i], A[i + 1])) O[i] = __hmax2(A[i], A[i + 2]);
}
KERNEL(halves_above_zero, __half) {
    I;
    const __half2* A = (const __half2*)a;
    __half2* O = (__half2*)o;
    O[i] = __hfma2_relu(A[i], A[i + 1], A[i + 2]);
}
KERNEL(bfloats, __nv_bfloat16) {
    I;
    o[i] = __hfma(a[i], a[i + 1], __hmul(a[i + 2], __float2bfloat16(2.5f)));
}
KERNEL(pairs_of_bfloats, __nv_bfloat16) {
    I;
    const __nv_bfloat162* A = (const __nv_bfloat162*)a;
    __nv_bfloat162* O = (__nv_bfloat162*)o;
    O[i] = __hfma2(A[i], A[i + 1], __hmax2(A[i], A[i + 2]));
}
KERNEL(votes_of_the_block, int) {
    I;
    o[i] = __syncthreads_count(a[i] > 3) + 100 * __syncthreads_and(a[i] != 5) +
           200 * __syncthreads_or(a[i] > 900);
}
KERNEL(votes_of_the_warp, int) {
    I;
    int p, v = a[i];
    o[i] = __any_sync(~0u, v > 9) + __popc(__ballot_sync(~0u, v > 1)) + __reduce_add_sync(~0u, v) +
           __match_any_sync(~0u, v & 3) + __shfl_xor_sync(~0u, v, 3) +
           (__match_all_sync(~0u, v, &p), p);
}
KERNEL(divisions_of_64_bits, s64) {
    I;
    o[i] = a[i] / (a[i + 1] | 1) + a[i] % (a[i + 2] | 1);
}
KERNEL(products_of_128_bits, u64) {
    I;
    unsigned __int128 p = (unsigned __int128)a[i] * a[i + 1] + a[i + 2];
    o[i] = (p >> 64) ^ p;
}
KERNEL(cached_loads, float) {
    I;
    o[i] = __ldg(a + i) + __ldcs(a + i + 1) + __ldcg(a + i + 2) + __ldcv(a + i + 3);
    __stcs(o + i + 64, a[i]);
}
KERNEL(switches, int) {
    I;
    int v = a[i];
    switch (v & 7) {
        case 0:
            v = a[3];
            break;
        case 1:
            v *= 7;
            break;
        case 2:
            v = i / 3;
            break;
        case 3:
            v = a[i + 1] + a[i + 2];
            break;
        case 4:
            v = __popc(v);
            break;
        case 5:
            v -= a[3] * a[i];
            break;
    }
    o[i] = v;
}
KERNEL(groups, float) {
    I;
    auto b = cg::this_thread_block();
    auto t = cg::tiled_partition<8>(b);
    float v = a[i];
    for (int k = 4; k; k /= 2) v += t.shfl_down(v, k);
    b.sync();
    o[i] = v + t.any(v > 1) + cg::reduce(t, a[i], cg::plus<float>());
}
KERNEL(groups_of_some_lanes, int) {
    I;
    int v = a[i];
    if (v & 1) {
        auto g = cg::coalesced_threads();
        v = g.shfl(v, 0) + g.thread_rank() + cg::reduce(g, v, cg::greater<int>());
    }
    o[i] = v;
}
KERNEL(bits, unsigned) {
    I;
    unsigned v = a[i];
    o[i] = __clz(v) + __ffs(v) + __brev(v) + __byte_perm(v, a[i + 1], 0x5140) +
           __funnelshift_l(v, a[i + 1], 7) + __umulhi(v, 7) + __sad(v, 3, 4) + __uhadd(v, a[i + 2]);
}
KERNEL(bits_of_64, u64) {
    I;
    o[i] = __clzll(a[i]) + __ffsll(a[i]) + __popcll(a[i]) + __brevll(a[i]) + (a[i] >> (i & 63)) +
           (a[i] << i);
}
KERNEL(bytes_of_words, unsigned) {
    I;
    unsigned v = a[i], w = a[i + 1];
    o[i] = __vadd4(v, w) + __vabsdiffu4(v, w) + __vmaxs4(v, w) + __vcmpgtu4(v, w) + __vavgu4(v, w) +
           __vsadu4(v, w);
}
KERNEL(halves_of_words, unsigned) {
    I;
    unsigned v = a[i], w = a[i + 1];
    o[i] = __vsub2(v, w) + __vminu2(v, w) + __vmaxs2(v, w) + __vadd2(v, w);
}
KERNEL(products_of_bytes, int) {
    I;
    o[i] = __dp4a(a[i], a[i + 1], a[i + 2]) + __dp2a_lo(a[i], a[i + 1], 3) +
           __vimax3_s32(a[i], a[i + 1], a[i + 2]) + __viaddmax_s32(a[i], a[i + 1], 3) +
           __vimin_s32_relu(a[i], 5);
}
KERNEL(conversions, double) {
    I;
    float x = a[i];
    double y = a[i + 1];
    o[i] = (int)x + (unsigned char)y + (long long)x + (int)y + (long long)y + (double)(float)y +
           __float2int_ru(x) + __double2int_rd(y) + rintf(x) + truncf(x) + ceil(y) + roundf(x);
}
KERNEL(bytes, int) {
    I;
    const signed char* c = (const signed char*)a;
    const unsigned short* s = (const unsigned short*)a;
    o[i] = c[i] * s[i];
    ((unsigned char*)o)[i + 512] = s[i + 1];
    ((short*)o)[i + 320] = c[i + 2];
}
KERNEL(comparisons, s64) {
    I;
    long long x = a[i], y = a[i + 1];
    o[i] = (x > y ? x : y) + llabs(x) + (x < 0) + ((unsigned long long)x < (unsigned long long)y);
}
KERNEL(integers, int) {
    I;
    int x = a[i], y = a[i + 1];
    o[i] = (x > y ? x & y : (x | y) ^ ~y) + min(max(x, -5), y) + abs(x) + (unsigned)x / 7 + x % 10 +
           x / (y | 1);
}
KERNEL(atomics_of_shared_memory, int) {
    I;
    __shared__ int s[4];
    __shared__ unsigned u[4];
    __shared__ unsigned long long l[2];
    if (i < 4) s[i] = u[i] = l[i / 2] = 0;
    __syncthreads();
    atomicAdd(s, 1);
    atomicMin(s + 1, a[i]);
    atomicOr(u, i);
    atomicInc(u + 1, 5);
    atomicXor(u + 2, i);
    atomicAdd(l, 1ull);
    atomicMax(l + 1, (unsigned long long)i);
    __syncthreads();
    o[i] = s[0] + s[1] + u[0] + u[1] + u[2] + (int)l[0] + (int)l[1];
}
KERNEL(atomics_of_global_memory, int) {
    I;
    unsigned* u = (unsigned*)o + 128;
    unsigned long long* l = (unsigned long long*)(o + 192);
    atomicAdd(o + 100, a[i]);
    atomicMax(o + 101, a[i]);
    atomicAnd(u, i);
    atomicXor(u + 1, i);
    atomicInc(u + 2, 5);
    atomicAdd(l, 3ull);
    atomicMax(l + 1, (unsigned long long)i);
    atomicAdd_block(o + 102, 2);
    atomicAdd((float*)o + 103, 1.0f);
    atomicAdd((double*)(o + 104), 1.0);
    __threadfence_system();
}
KERNEL(asynchronous_copies, float) {
    I;
    __shared__ float4 s[64];
    __pipeline_memcpy_async(&s[i], (const float4*)a + i, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    ((float4*)o)[i] = s[(i + 1) & 63];
}
KERNEL(local_arrays, int) {
    I;
    int t[40];
    for (int k = 0; k < 40; ++k) t[(k * 7 + (a[i] & 15)) % 40] = k;
    o[i] = t[a[i + 1] & 31];
}
KERNEL(traps_that_are_not_met, int) {
    I;
    if (a[i] == 123456) __trap();
    o[i] = 1;
}
KERNEL(barriers_with_names, int) {
    I;
    o[i] = a[i];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    o[i + 64] = o[(i + 1) & 63];
}
