"""Branches, loops, calls and waiting, with lanes that go different ways."""

from __future__ import annotations

import numpy as np
import pytest

import coalesce


def run(device, source, *arguments, grid=1, block=32, shared=0, entry="k"):
    coalesce.Kernel(source, entry, device=device)[grid, block, shared](*arguments)


def test_switches(device):
    """A dense one (a table of branches), a sparse one and one that falls through."""
    x = np.arange(-3, 93, dtype=np.int32)
    out = np.zeros((3, 96), np.int32)
    cases = "".join(f"case {k}: r = v * {k * k + 3} ^ {k}; break;\n" for k in range(17))
    run(
        device,
        f"""
        extern "C" __global__ void k(const int *x, int *out) {{
            int i = threadIdx.x, v = x[i], r = 7;
            switch (v) {{ {cases} default: r = -v; }}
            out[i] = r;
            switch (v * 1000) {{
                case 1000: r = 1; break;
                case 50000: r = 2; break;
                case -3000: r = 3; break;
                case 91000: r = 4; break;
                default: r = 5;
            }}
            out[96 + i] = r;
            r = 0;
            switch (v & 7) {{
                case 0: r += 1;
                case 1: r += 10;
                case 2: r += 100; break;
                case 3: r += x[(i + 1) % 96];
                case 4: if (v > 20) break;
                case 5: r += 1000;
                case 6: r += 10000;
            }}
            out[192 + i] = r;
        }}""",
        x,
        out,
        block=96,
    )
    dense = [int(v) * (v * v + 3) ^ int(v) if 0 <= v < 17 else -int(v) for v in x]
    np.testing.assert_array_equal(out[0], dense)
    np.testing.assert_array_equal(out[1], [{1: 1, 50: 2, -3: 3, 91: 4}.get(int(v), 5) for v in x])

    def fall(i: int, v: int) -> int:
        c = v & 7
        if c <= 2:
            return [111, 110, 100][c]
        r = int(x[(i + 1) % 96]) if c == 3 else 0
        if c <= 4 and v > 20:
            return r
        return r + {7: 0, 6: 10000}.get(c, 11000)

    np.testing.assert_array_equal(out[2], [fall(i, int(v)) for i, v in enumerate(x)])


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def nested(i: int) -> int:
    total = 0
    for j in range(i % 7):
        for k in range(j, 40):
            if (i * k + j) % 11 == 3:
                continue
            if k > i % 13 + 5:
                break
            total += i * j + k
        else:
            total -= 1
        if total > 3000:
            return total * 2
    return total


def test_loops(device):
    """Different trip counts, nested, with break, continue and return."""
    n = 200
    out = np.zeros((3, n), np.int32)
    run(
        device,
        """
        __device__ int collatz(long long n) {
            int steps = 0;
            while (n != 1) n = n % 2 == 0 ? n / 2 : 3 * n + 1, ++steps;
            return steps;
        }
        __device__ __noinline__ int nested(int i) {
            int total = 0;
            for (int j = 0; j < i % 7; ++j) {
                bool broken = false;
                for (int k = j; k < 40; ++k) {
                    if ((i * k + j) % 11 == 3) continue;
                    if (k > i % 13 + 5) { broken = true; break; }
                    total += i * j + k;
                }
                if (!broken) total -= 1;
                if (total > 3000) return total * 2;
            }
            return total;
        }
        extern "C" __global__ void k(int *out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            out[i] = collatz(i + 1);
            out[n + i] = nested(i);
            int j = i % 32, spins = 0;
        again:
            if (j > 3) {
                j -= 3;
                ++spins;
                if (j & 1) goto again;
                j += 1;
                if (spins < 20) goto again;
            }
            out[2 * n + i] = spins * 100 + j;
        }""",
        out,
        n,
        grid=2,
        block=128,
    )
    np.testing.assert_array_equal(out[0], [collatz(i + 1) for i in range(n)])
    np.testing.assert_array_equal(out[1], [nested(i) for i in range(n)])

    def jumps(j: int) -> int:
        spins = 0
        while j > 3:
            j -= 3
            spins += 1
            if j & 1:
                continue
            j += 1
            if spins >= 20:
                break
        return spins * 100 + j

    np.testing.assert_array_equal(out[2], [jumps(i % 32) for i in range(n)])


def test_calls(device):
    """Recursion, pointers to functions, virtual functions and lambdas, each lane its own way."""
    n = 96
    out = np.zeros((5, n), np.int32)
    run(
        device,
        """
        __device__ __noinline__ int fibonacci(int n) {
            return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
        }
        __device__ __noinline__ int ackermann(int m, int n) {
            if (m == 0) return n + 1;
            if (n == 0) return ackermann(m - 1, 1);
            return ackermann(m - 1, ackermann(m, n - 1));
        }
        __device__ int twice(int x) { return 2 * x; }
        __device__ int square(int x) { return x * x; }
        __device__ int minus(int x) { return -x; }
        __device__ int (*const functions[])(int) = {twice, square, minus};

        struct Shape {
            __device__ virtual int area() const = 0;
            int a;
        };
        struct Square : Shape { __device__ int area() const override { return a * a; } };
        struct Box : Shape { __device__ int area() const override { return a * b; } int b; };

        template <class F> __device__ __noinline__ int apply(F f, int n) {
            int r = 0;
            for (int j = 0; j < n; ++j) r = f(r) + j;
            return r;
        }
        extern "C" __global__ void k(int *out, int n) {
            int i = threadIdx.x;
            out[i] = fibonacci(i % 12);
            out[n + i] = ackermann(i % 3, i % 5);
            out[2 * n + i] = functions[i % 3](i) + functions[(i + 1) % 3](i + 1);
            Square s;
            Box b;
            s.a = i, b.a = i, b.b = 3;
            Shape *shape = i % 2 ? (Shape *)&s : &b;
            out[3 * n + i] = shape->area();
            int scale = i % 4;
            out[4 * n + i] = i % 2 ? apply([=](int v) { return v * scale; }, i % 6)
                                   : apply([&](int v) { return v ^ scale; }, i % 9);
        }""",
        out,
        n,
        block=n,
    )

    def fibonacci(k: int) -> int:
        return k if k < 2 else fibonacci(k - 1) + fibonacci(k - 2)

    def ackermann(m: int, k: int) -> int:
        if m == 0:
            return k + 1
        return ackermann(m - 1, 1 if k == 0 else ackermann(m, k - 1))

    f = [lambda v: 2 * v, lambda v: v * v, lambda v: -v]

    def apply(g, count: int) -> int:
        r = 0
        for j in range(count):
            r = g(r) + j
        return r

    i = range(n)
    np.testing.assert_array_equal(out[0], [fibonacci(k % 12) for k in i])
    np.testing.assert_array_equal(out[1], [ackermann(k % 3, k % 5) for k in i])
    np.testing.assert_array_equal(out[2], [f[k % 3](k) + f[(k + 1) % 3](k + 1) for k in i])
    np.testing.assert_array_equal(out[3], [k * k if k % 2 else 3 * k for k in i])
    lambdas = [
        apply(lambda v, s=k % 4: v * s, k % 6) if k % 2 else apply(lambda v, s=k % 4: v ^ s, k % 9)
        for k in i
    ]
    np.testing.assert_array_equal(out[4], lambdas)


def test_calls_that_are_interleaved(device):
    """Lanes of a warp in different functions that wait for each other, their registers apart."""
    out = np.zeros((2, 32))
    run(
        device,
        """
        __device__ __noinline__ double wide(volatile int *turn, int i, double a) {
            double x[6];
            for (int j = 0; j < 6; ++j) x[j] = a * (j + 1);
            double s = 0;
            for (int round = 0; round < 40; ++round) {
                while (*turn % 2 != 0) {}
                for (int j = 0; j < 6; ++j) s += x[j] * (round + i), x[j] += 1;
                __threadfence_block();
                *turn = *turn + 1;
            }
            return s;
        }
        __device__ __noinline__ int narrow(volatile int *turn, int i, int a) {
            int p = a, q = a + 1, r = a + 2, t = a + 3;
            for (int round = 0; round < 40; ++round) {
                while (*turn % 2 != 1) {}
                p += q * round, q ^= r + round, r += t - round, t = t * 3 + i;
                __threadfence_block();
                *turn = *turn + 1;
            }
            return p ^ q ^ r ^ t;
        }
        extern "C" __global__ void k(double *out) {
            __shared__ int turn[16];
            int i = threadIdx.x;
            if (i < 16) turn[i] = 0;
            __syncthreads();
            out[i] = i < 16 ? wide(turn + i, i, i * 0.5) : narrow(turn + i - 16, i, i);
        }""",
        out,
    )

    def wide(i: int) -> float:
        x, s = [i * 0.5 * (j + 1) for j in range(6)], 0.0
        for r in range(40):
            for j in range(6):
                s += x[j] * (r + i)
                x[j] += 1
        return s

    def wrap(v: int) -> int:
        return (v + 2**31) % 2**32 - 2**31

    def narrow(i: int) -> int:
        p, q, r, t = i, i + 1, i + 2, i + 3
        for n in range(40):
            p = wrap(p + q * n)
            q = wrap(q ^ (r + n))
            r = wrap(r + t - n)
            t = wrap(t * 3 + i)
        return p ^ q ^ r ^ t

    np.testing.assert_allclose(out[0][:16], [wide(i) for i in range(16)], rtol=1e-12)
    np.testing.assert_array_equal(out[0][16:], [narrow(i) for i in range(16, 32)])


def test_spin_locks(device):
    """Between lanes of one warp, and between blocks."""
    state = np.zeros(3, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *state) {
            int *lock = state;
            volatile int *count = state + 1, *longest = state + 2;
            for (int j = 0; j < 3; ++j) {
                while (atomicCAS(lock, 0, 1) != 0) {}
                __threadfence();
                int before = *count;
                *longest = max(*longest, before);
                *count = before + 1;
                __threadfence();
                atomicExch(lock, 0);
            }
        }""",
        state,
        grid=6,
        block=40,
    )
    np.testing.assert_array_equal(state, [0, 720, 719])


def test_producer_and_consumer_warps(device):
    """A ring of one slot a warp: flags in shared memory, and named barriers."""
    out = np.zeros((2, 8, 32), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out) {
            __shared__ volatile int slot[32], full;
            int i = threadIdx.x & 31, w = threadIdx.x / 32;
            if (threadIdx.x == 0) full = 0;
            __syncthreads();
            for (int r = 0; r < 8; ++r) {
                if (w == 0) {
                    if (i == 0) while (full) {}
                    __syncwarp();
                    slot[i] = r * 100 + i;
                    __threadfence_block();
                    __syncwarp();
                    if (i == 0) full = 1;
                } else if (w == 1) {
                    if (i == 0) while (!full) {}
                    __syncwarp();
                    out[32 * r + i] = slot[31 - i];
                    __syncwarp();
                    if (i == 0) full = 0;
                }
            }
            __syncthreads();
            __shared__ int ring[32];
            for (int r = 0; r < 8; ++r) {
                if (w == 2) {
                    ring[i] = r * 1000 + i;
                    asm volatile("barrier.cta.arrive 1, 64;" ::: "memory");
                    asm volatile("barrier.cta.sync 2, 64;" ::: "memory");
                } else if (w == 3) {
                    asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
                    out[256 + 32 * r + i] = ring[31 - i];
                    asm volatile("barrier.cta.arrive 2, 64;" ::: "memory");
                }
            }
        }""",
        out,
        block=128,
    )
    r, i = np.arange(8)[:, None], np.arange(31, -1, -1)
    np.testing.assert_array_equal(out[0], r * 100 + i)
    np.testing.assert_array_equal(out[1], r * 1000 + i)


def test_block_wide_counts(device):
    out = np.zeros((3, 100), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out) {
            int i = threadIdx.x;
            out[i] = __syncthreads_count(i % 3 == 0);
            out[100 + i] = __syncthreads_and(i < 100) + 2 * __syncthreads_and(i < 99);
            out[200 + i] = __syncthreads_or(i == 77) + 2 * __syncthreads_or(i > 100);
        }""",
        out,
        block=100,
    )
    np.testing.assert_array_equal(out[0], 34)
    np.testing.assert_array_equal(out[1] != 0, True)
    assert (out[1] % 2 == 1).all() or (out[1] > 0).all()
    assert ((out[1] & 2) == 0).all()
    assert (out[2] != 0).all()


@pytest.mark.parametrize(
    ("grid", "block"),
    [(5, 70), ((3, 2), (8, 5)), ((2, 3, 4), (4, 3, 5)), ((1, 1, 7), (1, 1, 64)), (1, 1024), (70000, 1)],
)
def test_geometry(device, grid, block):
    g = grid if isinstance(grid, tuple) else (grid,)
    b = block if isinstance(block, tuple) else (block,)
    gx, gy, gz = (*g, 1, 1)[:3]
    bx, by, bz = (*b, 1, 1)[:3]
    threads = gx * gy * gz * bx * by * bz
    out = np.full((threads, 4), -1, np.int32)
    run(
        device,
        """
        extern "C" __global__ void __launch_bounds__(1024) k(int4 *out) {
            int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
            int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
            int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
            out[at] = make_int4(threadIdx.x + blockIdx.x * 1000, threadIdx.y + blockIdx.y * 1000,
                                threadIdx.z + blockIdx.z * 1000, at + warpSize);
        }""",
        out,
        grid=grid,
        block=block,
    )
    z, y, x, tz, ty, tx = np.unravel_index(np.arange(threads), (gz, gy, gx, bz, by, bx))
    want = np.stack([tx + 1000 * x, ty + 1000 * y, tz + 1000 * z, np.arange(threads) + 32], 1)
    np.testing.assert_array_equal(out, want)


def test_clocks_go_forward(device):
    out = np.zeros((3, 32), np.int64)
    run(
        device,
        """
        extern "C" __global__ void k(long long *out) {
            int i = threadIdx.x;
            long long start = clock64();
            unsigned long long t0, t1;
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
            float s = 0;
            for (int j = 0; j < 5000; ++j) s += sqrtf(s + j);
            __nanosleep(1000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
            out[i] = clock64() - start;
            out[32 + i] = t1 >= t0;
            out[64 + i] = s;
        }""",
        out,
    )
    assert (out[0] > 0).all()
    assert out[1].all()


def test_traps_and_assertions(on_simulator):
    source = """
    #include <assert.h>
    extern "C" __global__ void k(const int *x, int n) {
        int i = threadIdx.x;
        assert(x[i] < n && "too large");
        if (x[i] == -1) __trap();
    }"""
    x = np.arange(32, dtype=np.int32)
    run(on_simulator, source, x, 32)
    with pytest.raises(coalesce.LaunchError) as caught:
        run(on_simulator, source, x, 20)
    text = str(caught.value)
    assert 'x[i] < n && "too large"' in text
    assert "thread (20, 0, 0)" in text
    assert "line 5" in text
    assert "11 more" in text
    x[7] = -1
    with pytest.raises(coalesce.LaunchError, match=r"(?s)trap.*line 6.*thread \(7, 0, 0\)"):
        run(on_simulator, source, x, 32)


def test_launch_bounds_are_kept(on_simulator):
    source = 'extern "C" __global__ void __launch_bounds__(64) k(int *x) { x[threadIdx.x] = 1; }'
    x = np.zeros(128, np.int32)
    run(on_simulator, source, x, block=64)
    with pytest.raises(coalesce.LaunchError):
        run(on_simulator, source, x, block=96)
