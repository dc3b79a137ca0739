"""Branches, loops and calls in diverged warps; geometry, traps and clocks."""

from __future__ import annotations

import numpy as np
import pytest

import coalesce


def run(device, source, *arguments, grid=1, block=32, shared=0, entry="k"):
    coalesce.Kernel(source, entry, device=device)[grid, block, shared](*arguments)


def test_switches(device):
    """A dense switch (a branch table), a sparse one, and one with fall-through."""
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
    """Nested loops with different trip counts, break, continue and return."""
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
    """Recursion, function pointers, virtual functions and lambdas, different in each lane."""
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


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        (5, 70),
        ((3, 2), (8, 5)),
        ((2, 3, 4), (4, 3, 5)),
        ((1, 1, 7), (1, 1, 64)),
        (1, 1024),
        (70000, 1),
    ],
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
    assert "and 11 other threads of its warp" in text
    x[7] = -1
    with pytest.raises(coalesce.LaunchError, match=r"(?s)trap.*line 6.*thread \(7, 0, 0\)"):
        run(on_simulator, source, x, 32)


def test_launch_bounds_are_kept(on_simulator):
    source = 'extern "C" __global__ void __launch_bounds__(64) k(int *x) { x[threadIdx.x] = 1; }'
    x = np.zeros(128, np.int32)
    run(on_simulator, source, x, block=64)
    with pytest.raises(coalesce.LaunchError):
        run(on_simulator, source, x, block=96)
