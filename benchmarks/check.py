"""Compare the processor time of a checked run and of a plain run.

python benchmarks/check.py [SCALE]

Prints the medians of five runs, for kernels typical of user code, and for the variants of matmul.
All inputs are larger by the factor SCALE.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import coalesce

SOURCE = """
extern "C" __global__ void reduction(const float* x, float* out, int n) {
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) s += x[i];
    for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
    if (lane == 0) part[warp] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) s += part[w];
        atomicAdd(out, s);
    }
}
extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&local[x[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
extern "C" __global__ void stencil(const float* in, float* out, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, i = y * n + x;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n]);
}
extern "C" __global__ void scan(const int* x, int* out) {
    __shared__ int sums[2][256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, from = 0;
    sums[0][t] = x[i];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2, from ^= 1) {
        sums[from ^ 1][t] = sums[from][t] + (t >= d ? sums[from][t - d] : 0);
        __syncthreads();
    }
    out[i] = sums[from][t];
}
extern "C" __global__ void sort(int* x) {
    __shared__ int s[512];
    int t = threadIdx.x, first = blockIdx.x * 512 + t;
    s[t] = x[first];
    s[t + 256] = x[first + 256];
    for (int size = 2; size <= 512; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (stride - 1)), a = s[i], b = s[i + stride];
            if ((a > b) == ((i & size) == 0)) s[i] = b, s[i + stride] = a;
        }
    __syncthreads();
    x[first] = s[t];
    x[first + 256] = s[t + 256];
}
extern "C" __global__ void sparse(const int* row, const int* col, const float* val, const float* x,
                                  float* y, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0;
    for (int k = row[r]; k < row[r + 1]; k++) s += val[k] * x[col[k]];
    y[r] = s;
}
"""


def arguments(n: int) -> dict[str, tuple[Any, Any, list[Any]]]:
    """Return the grid, the block and the arguments of each kernel."""
    random = np.random.default_rng(0)
    numbers = random.random(n, np.float32)
    integers = random.integers(0, 100, n, np.int32)
    side = int(n**0.5) // 32 * 32
    rows = n // 16
    starts = np.concatenate([[0], np.cumsum(random.integers(4, 28, rows))]).astype(np.int32)
    columns = random.integers(0, rows, starts[-1], np.int32)
    square = (numbers[: side * side], np.zeros(side * side, np.float32))
    return {
        "reduction": (256, 256, [numbers, np.zeros(1, np.float32), np.int32(n)]),
        "histogram": (
            *(256, 256),
            [integers.astype(np.uint8), np.zeros(256, np.uint32), np.int32(n)],
        ),
        "stencil": ((side // 32, side // 8), (32, 8), [*square, np.int32(side)]),
        "scan": (n // 256, 256, [integers, np.zeros(n, np.int32)]),
        "sort": (n // 512, 256, [integers]),
        "sparse": (
            *(-(-rows // 256), 256),
            [
                *(starts, columns, random.random(starts[-1], np.float32)),
                *(numbers[:rows], np.zeros(rows, np.float32), np.int32(rows)),
            ],
        ),
    }


def report(name: str, run: Callable[[], Any], check: Callable[[], Any]) -> None:
    """Measure both calls in turn, and print the medians."""

    def seconds(call: Callable[[], Any]) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    run()
    pairs = [(seconds(run), seconds(check)) for _ in range(5)]
    plain, checked = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{name:24}{plain:10.3f}{checked:10.3f}{checked / plain:8.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scale", nargs="?", type=float, default=1.0, help="of the inputs' sizes")
    scale = parser.parse_args().scale
    n = int(scale * (1 << 20)) // 512 * 512
    side = int(256 * scale ** (1 / 3))
    print(f"{n} elements, matrices of {side} x {side}: seconds of processor time")
    print(f"{'kernel':24}{'plain':>10}{'checked':>10}{'factor':>8}")
    for name, (grid, block, given) in arguments(n).items():
        kernel = coalesce.Kernel(SOURCE, name, device="sim")
        report(
            name,
            lambda k=kernel, g=grid, b=block, a=given: k[g, b](*a),
            lambda k=kernel, g=grid, b=block, a=given: k.check(g, b, *a).raise_if_any(),
        )
    a, b = np.random.default_rng(0).random((2, side, side), np.float32)
    for name in (v.name for v in coalesce.variants("matmul") if not v.hopper):
        report(
            name,
            lambda v=name: coalesce.matmul(a, b, variant=v, device="sim"),
            lambda v=name: coalesce.matmul(a, b, variant=v, check=True),
        )


if __name__ == "__main__":
    main()
