// Ordinary CUDA C++, for tests that execute its machine code. Each kernel has 64 threads. It reads an
// array `a` and writes an array `o`; both have 256 elements. The results have no meaning. Each kernel
// has a machine instruction that neither the other kernels of these tests have.

#define KERNEL(name, T) extern "C" __global__ void name(const T* a, T* o)
#define I const int i = threadIdx.x

KERNEL(saturation, float) {
    I;
    o[i] = __saturatef(a[i] * 2) + copysignf(a[i], -1) + ldexpf(a[i], 3) + hypotf(a[i], 2) +
           isnan(a[i]);
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
