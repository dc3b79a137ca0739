"""Loads and stores of every width and space, as CUDA C++ uses them."""

import numpy as np
import pytest
from both_ways import run

import coalesce

VECTORS = [("char", 1), ("char2", 2), ("char3", 3), ("char4", 4), ("short", 2), ("short2", 4),
           ("short3", 6), ("short4", 8), ("int", 4), ("int2", 8), ("int3", 12), ("int4", 16),
           ("long long", 8), ("longlong2", 16), ("double", 8), ("double2", 16), ("float4", 16),
           ("uchar4", 4), ("ushort4", 8), ("float3", 12)]  # fmt: skip


def test_every_width_through_every_space(device, random):
    """Elements pass through registers, shared and local memory, in order and permuted."""
    n = 96
    for start in range(0, len(VECTORS), 5):
        parts, arguments, checks = [], [], []
        for number, (name, size) in enumerate(VECTORS[start : start + 5]):
            source = random.integers(0, 256, n * size).astype(np.uint8)
            out = np.zeros((3, n * size), np.uint8)
            arguments += [source, out]
            checks.append((name, source.reshape(n, size), out))
            parts.append(f"""
            {{
                typedef {name} T;
                const T *in = (const T *)in{number};
                T *out = (T *)out{number};
                __shared__ T tile[{n}];
                T mine[4];
                out[i] = in[i];
                tile[i] = in[i];
                for (int j = 0; j < 4; ++j) mine[(j + i) & 3] = in[(i + j) % {n}];
                __syncthreads();
                out[{n} + i] = tile[(i * 7 + 3) % {n}];
                out[{2 * n} + i] = mine[(2 + i) & 3];
            }}""")
        names = ", ".join(
            f"const unsigned char *in{k}, unsigned char *out{k}" for k in range(len(parts))
        )
        run(
            device,
            f'extern "C" __global__ void k({names}) {{ int i = threadIdx.x; {"".join(parts)} }}',
            *arguments,
            block=n,
        )
        i = np.arange(n)
        for name, source, out in checks:
            direct, permuted, local = out.reshape(3, n, -1)
            np.testing.assert_array_equal(direct, source, name)
            np.testing.assert_array_equal(permuted, source[(i * 7 + 3) % n], name)
            np.testing.assert_array_equal(local, source[(i + 2) % n], name)


def test_hints_and_volatile(device, random):
    x = random.integers(0, 1 << 30, 128).astype(np.int32)
    out = np.zeros((10, 128), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(const int *x, int *out) {
            int i = threadIdx.x, n = 128;
            out[i] = __ldg(x + i);
            out[n + i] = __ldca(x + i) + __ldcg(x + i);
            out[2 * n + i] = __ldcs(x + i) + __ldlu(x + i);
            out[3 * n + i] = __ldcv(x + i);
            int4 four = __ldg((const int4 *)x + i % 32);
            __stcs(out + 4 * n + i, four.x);
            __stcg(out + 5 * n + i, four.w);
            __stwb(out + 6 * n + i, 5);
            __stwt(out + 7 * n + i, i);
            volatile int *v = out + 8 * n;
            v[i] = 3;
            v[i] = v[i] + ((volatile const int *)x)[i];
            const int *__restrict__ r = x;
            asm volatile("prefetch.global.L2 [%0];" ::"l"(r));
            asm volatile("{ .reg .b32 t; ld.relaxed.gpu.global.L1::no_allocate.b32 t, [%0];"
                         "st.release.sys.global.b32 [%1], t; }"
                         ::"l"(x + i), "l"(out + 9 * n + i));
        }""",
        x,
        out,
        block=128,
    )
    i = np.arange(128)
    want = [x, x * 2, x * 2, x, x[i % 32 * 4], x[i % 32 * 4 + 3], i * 0 + 5, i, x + 3, x]
    np.testing.assert_array_equal(out, np.array(want))


def test_sign_and_zero_extension(device):
    """Narrow loads extend to wider registers; narrow stores truncate them."""
    x = np.arange(256, dtype=np.uint8)
    out = np.zeros((6, 256), np.int64)
    low = np.zeros(256, np.int8)
    run(
        device,
        """
        extern "C" __global__ void k(const unsigned char *x, long long *out, signed char *low) {
            int i = threadIdx.x;
            long long s, u, w;
            asm("ld.global.s8 %0, [%1];" : "=l"(s) : "l"(x + i));
            asm("ld.global.u8 %0, [%1];" : "=l"(u) : "l"(x + i));
            asm("{ .reg .b16 h; ld.global.b8 h, [%1]; cvt.s64.s8 %0, h; }" : "=l"(w) : "l"(x + i));
            out[i] = s, out[256 + i] = u, out[512 + i] = w;
            out[768 + i] = ((const short *)x)[i / 2];
            out[1024 + i] = ((const unsigned short *)x)[i / 2];
            out[1280 + i] = ((const int *)x)[i / 4];
            low[i] = out[i] * 0x101 + 1;
        }""",
        x,
        out,
        low,
        block=256,
    )
    i = np.arange(256)
    for row, dtype in enumerate([np.int8, np.uint8, np.int8, np.int16, np.uint16, np.int32]):
        want = x.view(dtype)[i // np.dtype(dtype).itemsize]
        np.testing.assert_array_equal(out[row], want, str(dtype))
    np.testing.assert_array_equal(low, (x + np.uint8(1)).view(np.int8))


def test_dynamic_shared_memory_lies_behind_static(device):
    out = np.zeros(64, np.int32)
    run(
        device,
        """
        extern __shared__ int more[];
        __shared__ int tile[32];
        extern "C" __global__ void k(int *out) {
            extern __shared__ int again[];
            int i = threadIdx.x;
            tile[i] = i;
            more[i] = 100 + i;
            more[32 + i] = 200 + i;
            __syncthreads();
            out[i] = tile[31 - i] * 1000 + again[31 - i];
            out[32 + i] = again[63 - i] + (more == again) + !((char *)more - (char *)tile < 128);
        }""",
        out,
        shared=256,
    )
    i = np.arange(32)
    np.testing.assert_array_equal(out[:32], (31 - i) * 1000 + 131 - i)
    np.testing.assert_array_equal(out[32:], 231 - i + 2)


GLOBALS = """
struct Item { short a; double b; const int *where; };
__constant__ int table[4] = {10, 20, 30};
__constant__ Item items[2] = {{1, 2.5, table}, {3, 4.5, table + 2}};
__device__ int counter = 5;
__device__ float matrix[2][3] = {{1, 2, 3}, {4, 5}};
__device__ const char *word = "simulator";
__device__ int *pointer = &counter;
__device__ unsigned char bytes[3] = {1, 255, 7};
__device__ long long big = -1234567890123LL;
extern "C" __global__ void read(double *out, int n) {
    int i = threadIdx.x;
    if (i == 0) {
        out[0] = table[n] + table[3];
        out[1] = items[1].b + items[n].a + *items[1].where;
        out[2] = matrix[1][n] + matrix[1][2];
        out[3] = word[n + 2];
        out[4] = *pointer;
        out[5] = bytes[1];
        out[6] = big;
        atomicAdd(pointer, 3);
    }
}
extern "C" __global__ void change(int value) { *pointer = value; }
"""


def test_module_variables(device):
    """Initial values of every kind; values persist between launches of one kernel."""
    kernel = coalesce.Kernel(GLOBALS, "read", device=device)
    for launch in range(3):
        out = np.zeros(7)
        kernel[1, 32](out, 1)
        np.testing.assert_array_equal(
            out, [20, 4.5 + 3 + 30, 5, ord("u"), 5 + 3 * launch, 255, -1234567890123]
        )
    # Another kernel object has its own module, which starts with the initial values.
    out = np.zeros(7)
    coalesce.Kernel(GLOBALS, "read", device=device)[1, 32](out, 1)
    assert out[4] == 5


def test_structures_by_value(device):
    record = np.dtype([("a", np.int8), ("b", np.float64), ("c", np.int16, 3), ("d", np.float32)],
                      align=True)  # fmt: skip
    value = np.zeros((), record)
    value["a"], value["b"], value["c"], value["d"] = -3, 2.5, [7, 8, 9], 0.25
    out = np.zeros(5 * 32)
    run(
        device,
        """
        struct Record { signed char a; double b; short c[3]; float d; };
        __device__ __noinline__ double second(Record r, int i) { return r.c[i % 3] + r.b; }
        __device__ __noinline__ Record make(int i) {
            return {(signed char)i, i * .5, {1, 2, 3}, 4};
        }
        extern "C" __global__ void k(Record r, double *out) {
            int i = threadIdx.x;
            out[i] = r.a;
            out[32 + i] = r.c[i % 3];
            out[64 + i] = second(r, i);
            r.c[i % 3] += i;
            out[96 + i] = second(r, i) + r.d;
            Record made = make(i);
            out[128 + i] = made.a + made.b + made.c[2] + made.d;
        }""",
        value[()],
        out,
    )
    i = np.arange(32)
    c = np.array([7, 8, 9])[i % 3]
    want = [i * 0 - 3, c, c + 2.5, c + i + 2.75, i * 1.5 + 7]
    np.testing.assert_array_equal(out.reshape(5, 32), want)


def test_generic_pointers_to_every_space(device, random):
    """In one load instruction, lanes point to global, shared, local and constant memory."""
    x = random.integers(0, 1000, 64).astype(np.int32)
    out = np.zeros((4, 64), np.int32)
    run(
        device,
        """
        __constant__ int table[4] = {-1, -2, -3, -4};
        __device__ __noinline__ int get(const int *p) { return *p; }
        __device__ __noinline__ void put(int *p, int v) { *p = v; }
        extern "C" __global__ void k(int *x, int *out) {
            int i = threadIdx.x, n = 64;
            __shared__ int shared[64];
            __shared__ int *chain[64];
            int local[4] = {i, i + 1, i + 2, i + 3};
            shared[i] = 1000 + i;
            __syncthreads();
            int j = (i / 4) % 4;
            int *from[4] = {x + i, shared + (63 - i), local + j, (int *)table + j};
            out[i] = get(from[i % 4]);
            // Stores and atomics too; pointers to pointers.
            chain[i] = from[i % 3];
            __syncthreads();
            put(chain[i], 5000 + i);
            atomicAdd(chain[i], 2);
            int **p = &chain[i];
            out[n + i] = **p;
            out[2 * n + i] = (__isGlobal(from[i % 4]) != 0) + 2 * (__isShared(from[i % 4]) != 0) +
                             4 * (__isLocal(from[i % 4]) != 0);
            size_t narrow = __cvta_generic_to_shared(shared + i);
            out[3 * n + i] = *(int *)__cvta_shared_to_generic(narrow) == shared[i];
        }""",
        x.copy(),
        out,
        block=64,
    )
    i = np.arange(64)
    want = np.choose(i % 4, [x, 1000 + 63 - i, i + i // 4 % 4, -1 - i // 4 % 4])
    np.testing.assert_array_equal(out[0], want)
    np.testing.assert_array_equal(out[1], 5002 + i)
    np.testing.assert_array_equal(out[2][i % 4 < 3], np.choose(i % 4, [1, 2, 4, 0])[i % 4 < 3])
    np.testing.assert_array_equal(out[3], 1)


ASYNC = """
#include <cuda_pipeline.h>
extern "C" __global__ void k(const int *x, int *out, int n) {
    __shared__ __align__(16) int tile[4][128];
    int i = threadIdx.x;
    // 4, 8 and 16 bytes; past the end of x nothing is read and zeros arrive.
    __pipeline_memcpy_async(&tile[0][i], x + i, 4, i < n ? 0 : 4);
    int zeros = 2 * i < n ? (2 * i + 1 < n ? 0 : 4) : 8;
    if (i < 64) __pipeline_memcpy_async(&tile[1][2 * i], x + 2 * i, 8, zeros);
    __pipeline_commit();
    if (i < 32) {
        int have = min(max(n - 4 * i, 0), 4);
        __pipeline_memcpy_async(&tile[2][4 * i], x + 4 * i, 16, 16 - 4 * have);
    }
    __pipeline_commit();
    tile[3][i] = i;
    __pipeline_wait_prior(1);
    __syncthreads();
    out[i] = tile[0][127 - i];
    out[128 + i] = tile[1][127 - i];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[256 + i] = tile[2][127 - i];
    out[384 + i] = tile[3][127 - i];
}
"""


@pytest.mark.parametrize("n", [128, 97, 3])
def test_asynchronous_copies(device, random, n):
    x = random.integers(1, 1000, n).astype(np.int32)
    out = np.zeros((4, 128), np.int32)
    run(device, ASYNC, x, out, n, block=128)
    padded = np.zeros(128, np.int32)
    padded[:n] = x
    for row in range(3):
        np.testing.assert_array_equal(out[row], padded[::-1])
    np.testing.assert_array_equal(out[3], np.arange(128)[::-1])


def test_asynchronous_copies_that_ignore_their_source(device, random):
    x = random.integers(1, 1000, 32).astype(np.int32)
    out = np.zeros(32, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(const int *x, int *out, int n) {
            __shared__ int tile[32];
            int i = threadIdx.x;
            unsigned to = __cvta_generic_to_shared(tile + i);
            asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, %3;"
                         "cp.async.ca.shared.global [%0], [%1], 4, p; }"
                         ::"r"(to), "l"(x + (i < n ? i : 1000000)), "r"(i), "r"(n));
            asm volatile("cp.async.wait_all;");
            __syncthreads();
            out[i] = tile[31 - i];
        }""",
        x,
        out,
        20,
    )
    np.testing.assert_array_equal(out[::-1], np.where(np.arange(32) < 20, x, 0))
