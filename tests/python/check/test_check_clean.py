"""A check reports nothing for correct kernels."""

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("on_simulator")


def clean(source, grid, block, *arguments, entry="k", **options):
    findings = coalesce.Kernel(source, entry).check(grid, block, *arguments, **options)
    assert not findings, str(findings)


REDUCTION = """
__device__ unsigned int count = 0;
__device__ __forceinline__ float block_sum(const float *x, int from, int step, int n) {
    __shared__ float part[128];
    float sum = 0;
    for (int i = from; i < n; i += step) sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}
// The last block to be done adds up what the others left.
extern "C" __global__ void k(const float *x, float *partial, float *out, int n) {
    __shared__ bool last;
    float sum = block_sum(x, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, n);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned int ticket = atomicInc(&count, gridDim.x - 1);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float total = block_sum(partial, threadIdx.x, blockDim.x, gridDim.x);
        if (threadIdx.x == 0) *out = total;
    }
}
"""


def test_last_block_reduction(random):
    x = random.random(5000, np.float32)
    partial, out = np.zeros(20, np.float32), np.zeros(1, np.float32)
    clean(REDUCTION, 20, 128, x, partial, out, x.size, undefined=["partial", "out"])
    np.testing.assert_allclose(out[0], x.sum(), rtol=1e-5)


@pytest.mark.parametrize("fence", [True, False])
def test_the_last_block_resets_the_counter(fence):
    """The last atomic of the counter has read what all others wrote, if each follows a fence."""
    source = """
        __device__ unsigned int count = 0;
        extern "C" __global__ void k(int *partial, int *out) {
            if (threadIdx.x) return;
            partial[blockIdx.x] = blockIdx.x;
            FENCE
            if (atomicInc(&count, gridDim.x) == gridDim.x - 1) {
                count = 0;
                *out = count;
            }
        }""".replace("FENCE", "__threadfence();" if fence else "")
    arguments = np.zeros(7, np.int32), np.zeros(1, np.int32)
    findings = coalesce.Kernel(source, "k").check(7, 32, *arguments, strict=True)
    assert [f.kind for f in findings] == ["race"] * (not fence), str(findings)


def test_last_block_reduction_with_a_fence_of_every_thread(random):
    """Each thread executes a fence after its write.

    After the barrier one thread counts the block.
    """
    x, out = random.random((20, 128), np.float32), np.zeros(128, np.float32)
    clean(
        """
        __device__ unsigned int count = 0;
        extern "C" __global__ void k(const float *x, volatile float *partial, float *out) {
            __shared__ bool last;
            partial[blockIdx.x * blockDim.x + threadIdx.x] =
                2 * x[blockIdx.x * blockDim.x + threadIdx.x];
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) last = atomicAdd(&count, 1) == gridDim.x - 1;
            __syncthreads();
            if (!last) return;
            float sum = 0;
            for (int b = 0; b < gridDim.x; ++b) sum += partial[b * blockDim.x + threadIdx.x];
            out[threadIdx.x] = sum;
        }""",
        20,
        128,
        x,
        np.zeros_like(x),
        out,
    )
    np.testing.assert_allclose(out, 2 * x.sum(0), rtol=1e-5)


def test_cooperative_groups(random):
    x = random.integers(0, 100, 200).astype(np.int32)
    out = np.zeros(4, np.int32)
    clean(
        """
        #include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
        __device__ int aggregated(int *counter) {
            auto active = cg::coalesced_threads();
            int first = 0;
            if (active.thread_rank() == 0) first = atomicAdd(counter, active.size());
            return active.shfl(first, 0) + active.thread_rank();
        }
        extern "C" __global__ void k(const int *x, int *out, int n) {
            __shared__ int parts[8];
            auto block = cg::this_thread_block();
            auto tile = cg::tiled_partition<16>(block);
            auto small = cg::tiled_partition<4>(tile);
            int i = block.thread_rank();
            int v = i < n ? x[i] : 0;
            int sum = cg::reduce(tile, v, cg::plus<int>());
            int least = cg::reduce(small, v, cg::less<int>());
            if (tile.thread_rank() == 0 && tile.meta_group_rank() % 2 == 0)
                parts[tile.meta_group_rank() / 2] = sum;
            block.sync();
            if (tile.thread_rank() == 0 && tile.meta_group_rank() % 2 == 1)
                parts[tile.meta_group_rank() / 2] += sum;
            block.sync();
            if (i == 0) for (int p = 0; p < 8; ++p) out[0] += parts[p];
            if (small.thread_rank() == 0) atomicMax(&out[1], least);
            if (v % 3 == 0) atomicMax(&out[3], aggregated(&out[2]));
        }""",
        1,
        256,
        x,
        out,
        x.size,
    )
    padded = np.zeros(256, np.int32)
    padded[:200] = x
    divisible = (padded % 3 == 0).sum()
    assert out.tolist() == [
        x.sum(),
        padded.reshape(-1, 4).min(1).max(),
        divisible,
        divisible - 1,
    ]


def test_partial_warp_synchronisation():
    """The halves of a warp exchange values through shared memory. Each half synchronises itself."""
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    clean(
        """
        extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int s[64];
            int i = threadIdx.x, lane = i % 32;
            unsigned mine = lane < 16 ? 0xffff : 0xffff0000;
            if (lane < 16) {
                for (int r = 0; r < 3; ++r) {
                    s[i] = x[i] + r;
                    __syncwarp(mine);
                    out[i] = s[i ^ 5];
                    __syncwarp(mine);
                }
            } else {
                s[i] = x[i];
                __syncwarp(mine);
                out[i] = s[i ^ 9];
            }
            __syncwarp();
            out[i] += s[i ^ 16];
        }""",
        1,
        64,
        x,
        out,
    )
    i = np.arange(64)
    low = i % 32 < 16
    want = np.where(low, (i ^ 5) + 2 + (i ^ 16), (i ^ 9) + (i ^ 16) + 2)
    np.testing.assert_array_equal(out, want)


LOCK = """
__device__ __forceinline__ void lock(int *l) {
    while (atomicCAS(l, 0, 1) != 0) {}
    __threadfence();
}
__device__ __forceinline__ void unlock(int *l) {
    __threadfence();
    atomicExch(l, 0);
}
"""


def test_spin_lock_between_blocks():
    state = np.zeros(3, np.int32)
    source = """
        extern "C" __global__ void k(int *state) {
            if (threadIdx.x == 0) {
                lock(state);
                state[1] += 1;
                state[2] = max(state[2], state[1]);
                unlock(state);
            }
        }"""
    clean(LOCK + source, 40, 32, state)
    assert state.tolist() == [0, 40, 40]


def test_acquire_and_release():
    """A ticket lock made of cuda::atomic_ref uses .acquire and .release instead of fences."""
    state = np.zeros(3, np.int32)
    source = """
        #include <cuda/atomic>
        extern "C" __global__ void k(int *state) {
            if (threadIdx.x) return;
            cuda::atomic_ref<int, cuda::thread_scope_device> next(state[0]), serving(state[1]);
            int mine = next.fetch_add(1, cuda::memory_order_relaxed);
            while (serving.load(cuda::memory_order_acquire) != mine) {}
            state[2] += 1;
            serving.fetch_add(1, cuda::memory_order_release);
        }"""
    clean(source, 30, 32, state)
    assert state.tolist() == [30, 30, 30]


GRID_BARRIER = """
__device__ __forceinline__ void everyone(int *arrived, int blocks, int round) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile int *)arrived < blocks * round) {}
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void k(float *a, float *b, int *arrived, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 1; r <= rounds; ++r) {
        if (i < n) b[i] = a[(i + n - 1) % n] + a[(i + 1) % n];
        everyone(arrived, gridDim.x, r);
        float *t = a;
        a = b;
        b = t;
    }
}
"""


@pytest.mark.parametrize("order", ["relaxed", "acquire", "seq_cst"])
def test_lanes_that_use_the_same_atomics(order):
    """The atomics of libcu++ are loads and stores. Their order is not known, but it is no race."""
    store = order.replace("acquire", "release")
    clean(
        f"""
        #include <cuda/atomic>
        extern "C" __global__ void k(cuda::atomic<int> *distance, cuda::atomic<int> *again) {{
            int i = threadIdx.x, old = distance[i % 3].load(cuda::memory_order_{order});
            if (old > i) {{
                distance[i % 2].store(i, cuda::memory_order_{store});
                again->store(1, cuda::memory_order_{store});
            }}
        }}""",
        1,
        64,
        np.full(3, 99, np.int32),
        np.zeros(1, np.int32),
        strict=True,
    )


def test_grid_barrier():
    n = 200
    a = np.arange(n, dtype=np.float32)
    b, arrived, want = np.zeros(n, np.float32), np.zeros(1, np.int32), a.copy()
    clean(GRID_BARRIER, 7, 32, a, b, arrived, n, 4)
    for _ in range(4):
        want = np.roll(want, 1) + np.roll(want, -1)
    np.testing.assert_array_equal(a, want)


def test_chained_scan():
    """Each block waits for the sum that the previous block publishes."""
    x = np.arange(640, dtype=np.int32)
    out, sums, flags = np.zeros_like(x), np.zeros(10, np.int32), np.zeros(10, np.int32)
    source = """
        extern "C" __global__ void k(const int *x, int *out, int *sums, int *flags) {
            __shared__ int s[2][64], before;
            int i = threadIdx.x, at = blockIdx.x * 64 + i, now = 0;
            s[0][i] = x[at];
            __syncthreads();
            for (int d = 1; d < 64; d *= 2) {
                s[now ^ 1][i] = s[now][i] + (i >= d ? s[now][i - d] : 0);
                now ^= 1;
                __syncthreads();
            }
            if (i == 0) {
                before = 0;
                if (blockIdx.x > 0) {
                    while (*(volatile int *)(flags + blockIdx.x - 1) == 0) {}
                    __threadfence();
                    before = sums[blockIdx.x - 1];
                }
                sums[blockIdx.x] = before + s[now][63];
                __threadfence();
                *(volatile int *)(flags + blockIdx.x) = 1;
            }
            __syncthreads();
            out[at] = before + s[now][i];
        }"""
    clean(source, 10, 64, x, out, sums, flags)
    np.testing.assert_array_equal(out, np.cumsum(x))


def test_producer_and_consumer_warps():
    """Producers arrive at one named barrier and wait at another; consumers do the opposite."""
    out = np.zeros((8, 32), np.int32)
    source = """
        extern "C" __global__ void k(int *out) {
            __shared__ int ring[2][32];
            int i = threadIdx.x & 31;
            for (int r = 0; r < 8; ++r) {
                if (threadIdx.x < 32) {
                    if (r >= 2) asm volatile("barrier.cta.sync %0, 64;" ::"r"(3 + r % 2)
                                             : "memory");
                    ring[r % 2][i] = r * 1000 + i;
                    asm volatile("barrier.cta.arrive %0, 64;" ::"r"(1 + r % 2) : "memory");
                } else {
                    asm volatile("barrier.cta.sync %0, 64;" ::"r"(1 + r % 2) : "memory");
                    out[32 * r + i] = ring[r % 2][31 - i];
                    if (r < 6) asm volatile("barrier.cta.arrive %0, 64;" ::"r"(3 + r % 2)
                                            : "memory");
                }
            }
        }"""
    clean(source, 1, 64, out)
    r, i = np.arange(8)[:, None], np.arange(31, -1, -1)
    np.testing.assert_array_equal(out, r * 1000 + i)


PIPELINE = """
#include <cuda_pipeline.h>
extern "C" __global__ void k(const float *x, float *out, int rounds) {
    __shared__ float tile[2][64];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&tile[0][i], x + i, 4);
    __pipeline_commit();
    float sum = 0;
    for (int r = 0; r < rounds; ++r) {
        if (r + 1 < rounds) __pipeline_memcpy_async(&tile[(r + 1) % 2][i], x + 64 * (r + 1) + i, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += tile[r % 2][63 - i];
        __syncthreads();
    }
    out[i] = sum;
}
"""


def test_asynchronous_copies_in_two_buffers(random):
    x, out = random.random((9, 64), np.float32), np.zeros(64, np.float32)
    clean(PIPELINE, 1, 64, x, out, 9)
    np.testing.assert_allclose(out, x.sum(0)[::-1], rtol=1e-5)


def test_double_buffering_with_one_barrier_per_iteration(random):
    x, out = random.random((9, 64), np.float32), np.zeros(64, np.float32)
    source = """
        extern "C" __global__ void k(const float *x, float *out, int rounds) {
            __shared__ float tile[2][64];
            int i = threadIdx.x;
            float sum = 0;
            tile[0][i] = x[i];
            for (int r = 0; r < rounds; ++r) {
                __syncthreads();
                if (r + 1 < rounds) tile[(r + 1) % 2][i] = x[64 * (r + 1) + i];
                sum += tile[r % 2][63 - i];
            }
            out[i] = sum;
        }"""
    clean(source, 1, 64, x, out, 9)
    np.testing.assert_allclose(out, x.sum(0)[::-1], rtol=1e-5)


@pytest.mark.parametrize("first", ["*p", "*(volatile unsigned long long *)p"])
def test_compare_and_swap_loops(random, first):
    """The documented loop for a missing atomic function. Its first read is only a guess."""
    x = random.random(192)
    out = np.zeros(2)
    clean(
        f"""
        __device__ void add(double *address, double v) {{
            unsigned long long *p = (unsigned long long *)address, old = {first}, assumed;
            do {{
                assumed = old;
                old = atomicCAS(p, assumed,
                                __double_as_longlong(v + __longlong_as_double(assumed)));
            }} while (assumed != old);
        }}
        __device__ void largest(double *address, double v) {{
            unsigned long long *p = (unsigned long long *)address, old = {first}, assumed;
            while (__longlong_as_double(old) < v) {{
                assumed = old;
                old = atomicCAS(p, assumed, __double_as_longlong(v));
                if (old == assumed) break;
            }}
        }}
        extern "C" __global__ void k(const double *x, double *out) {{
            double v = x[blockIdx.x * blockDim.x + threadIdx.x];
            add(out, v);
            largest(out + 1, v);
        }}""",
        3,
        64,
        x,
        out,
    )
    np.testing.assert_allclose(out, [x.sum(), x.max()])


def test_pipeline():
    source = """#include <cooperative_groups.h>
    #include <cuda/pipeline>
    __global__ void k(const int *x, int *y) {
        __shared__ int s[2][64];
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        auto block = cooperative_groups::this_thread_block();
        auto pipe = cuda::make_pipeline(block, &state);
        for (int i = 0, filled = 0; i < 4; ++i) {
            for (; filled < 4 && filled < i + 2; ++filled) {
                pipe.producer_acquire();
                cuda::memcpy_async(block, s[filled % 2], x + 64 * filled, sizeof(s[0]), pipe);
                pipe.producer_commit();
            }
            pipe.consumer_wait();
            block.sync();
            y[64 * i + threadIdx.x] = s[i % 2][63 - threadIdx.x];
            block.sync();
            pipe.consumer_release();
        }
    }"""
    clean(source, 1, 64, np.arange(256, dtype=np.int32), np.zeros(256, np.int32))


# Debug code copies structures with several loads, and also their padding and members without a
# value. Each snippet returns a number.
COPIES = {
    "padding": "V v; v.t = 1; v.x = i; v.s = 2; V w = v, u[2] = {w, v};"
    " return u[i & 1].x + u[0].s;",
    "shared": "__shared__ V all[32]; V v; v.t = 1; v.x = i; all[i] = v; __syncthreads();"
    " V w = all[i ^ 1]; return w.x + w.t;",
    "memcpy": "V v, w; v.t = 1; v.x = i; memcpy(&w, &v, sizeof v); return w.x + w.t;",
    "heap": "V *v = new V; v->t = 1; v->x = i; V w = *v; delete v; return w.x + w.t;",
    "lambda": "char c = 2; double d = i; auto f = [=](int n) { return c * d + n; }; auto g = f;"
    " return g(1);",
    "union": "union U { char c; double x; } u; u.c = 3; U v = u; return v.c;",
    "empty class": "struct Plus { __device__ int operator()(int a, int b) { return a + b; } } p;"
    " Plus q = p; return q(i, 1);",
    "member without a value": "struct R { int a[5], flag; double extra; } r;"
    " for (int &x : r.a) x = i; r.flag = 0; R l = r; r = l; return r.a[3];",
    "shuffle": "auto t = cg::tiled_partition<32>(cg::this_thread_block()); V v; v.t = 1; v.x = i;"
    " V r = t.shfl(v, 5); return r.x + r.t;",
    "cooperative groups": "auto b = cg::this_thread_block(); auto t = cg::tiled_partition<8>(b);"
    " return cg::reduce(t, i, cg::plus<int>()) + b.size();",
}


@pytest.mark.parametrize("options", [(), ("-G",)])
@pytest.mark.parametrize("body", COPIES.values(), ids=COPIES)
def test_copies_of_structures(body, options):
    source = f"""#include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    struct V {{ char t; double x; short s; }};
    __device__ double of(int i) {{ {body} }}
    extern "C" __global__ void k(double *out) {{ out[threadIdx.x] = of(threadIdx.x); }}"""
    out = np.zeros(32)
    findings = coalesce.Kernel(source, "k", options).check(1, 32, out)
    assert not findings, str(findings)
    assert out.any()
