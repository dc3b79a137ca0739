// Ordinary CUDA C++, for tests that execute its machine code. Each kernel has 64 threads. It reads an
// array `a` and writes an array `o`; both have 256 elements. The results have no meaning. Each kernel
// has a machine instruction that neither the other test kernels nor the random ones have.
#include <cuda_fp16.h>

#define KERNEL(name, T) extern "C" __global__ void name(const T* a, T* o)
#define I const int i = threadIdx.x

KERNEL(saturation, float) {
    I;
    o[i] = __saturatef(a[i] * 2) + copysignf(a[i], -1) + ldexpf(a[i], 3) + hypotf(a[i], 2) +
           isnan(a[i]);
}
KERNEL(functions_of_halves, __half) {
    I;
    o[i] = hexp(a[i]) + hsqrt(a[i]) + hsin(a[i]) + hrcp(a[i]);
}
KERNEL(halves_and_integers, __half) {
    I;
    o[i] = __int2half_rn(__half2int_rz(a[i]) + i) + hfloor(a[i]) + __habs(a[i]);
}
KERNEL(pairs_of_halves_compared, __half) {
    I;
    const __half2* A = (const __half2*)a;
    __half2* O = (__half2*)o;
    O[i] = __hgt2(A[i], A[i + 1]);
    if (__hbgt2(A[i], A[i + 1])) O[i] = __hmax2(A[i], A[i + 2]);
}
KERNEL(bytes_of_words, unsigned) {
    I;
    unsigned v = a[i], w = a[i + 1];
    o[i] = __vadd4(v, w) + __vabsdiffu4(v, w) + __vmaxs4(v, w) + __vcmpgtu4(v, w) + __vavgu4(v, w) +
           __vsadu4(v, w);
}
KERNEL(products_of_bytes, int) {
    I;
    o[i] = __dp4a(a[i], a[i + 1], a[i + 2]) + __dp2a_lo(a[i], a[i + 1], 3) +
           __vimax3_s32(a[i], a[i + 1], a[i + 2]) + __viaddmax_s32(a[i], a[i + 1], 3) +
           __vimin_s32_relu(a[i], 5);
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
KERNEL(traps_that_are_not_met, int) {
    I;
    if (a[i] == 123456) __trap();
    o[i] = 1;
}
