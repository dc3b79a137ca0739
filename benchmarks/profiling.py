"""How much longer counting and profiling take on this machine than a plain run of the same kernel.

    python benchmarks/profiling.py [--n 512] [--large 1024] [--sizes 500 512 513] [--repeats 3]

Times a plain run, a run that counts, and the call that returns a profile with caches. The column
`report` times the text of that profile, which is computed when it is printed. Each ratio compares
with the plain run. Sums and transposes use matrices with four times the rows and columns. A time is
the CPU time of all threads, the best of the repeats. The kernels are compiled beforehand.

The table of sizes shows how much a profile depends on the input: at sizes that are a power of two
and at their neighbours, with two matrices and with one matrix as both operands, and for kernels
like those that users write.

The calls of a row take turns, because a host that other users share may be slow for seconds. Short
calls are repeated more often, for half a second.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from simulator import processor

import coalesce
from coalesce.catalogue import table

# Kernels whose accesses depend on their data.
USERS = """
extern "C" __global__ void spmv(const int* __restrict__ starts, const int* __restrict__ columns,
                                const float* __restrict__ values, const float* __restrict__ x,
                                float* __restrict__ y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
}
extern "C" __global__ void histogram(const unsigned char* __restrict__ x, unsigned* bins, int n) {
    __shared__ unsigned of_block[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) of_block[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&of_block[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], of_block[i]);
}
"""

OPERATIONS = ("matmul", "transpose", "row_sums", "column_sums")


def best(calls: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Return the smallest CPU time of each call in seconds. The calls take turns."""
    seconds = [math.inf] * len(calls)
    start, rounds = time.perf_counter(), 0
    while rounds < repeats or time.perf_counter() - start < 0.5:
        for i, call in enumerate(calls):
            before = time.process_time()
            call()
            seconds[i] = min(seconds[i], time.process_time() - before)
        rounds += 1
    return seconds


def report_counting(n: int, repeats: int) -> Table:
    """Time every variant plainly, counting and profiled."""
    table = Table(
        title=f"CPU seconds of a call, matmul {n}^3, others {4 * n}^2, float32, simulated"
    )
    for head in ("operation", "variant"):
        table.add_column(head)
    for head in ("plain", "counting", "ratio", "profile", "ratio", "report"):
        table.add_column(head, justify="right")
    random = np.random.default_rng(0)
    a, b = random.random((2, n, n), np.float32)
    large = random.random((4 * n, 4 * n), np.float32)
    for operation in OPERATIONS:
        arrays = (a, b) if operation == "matmul" else (large,)
        for variant in (v.name for v in coalesce.variants(operation) if not v.hopper):
            table.add_row(operation, variant, *times(operation, variant, arrays, repeats))
    return table


def times(operation: str, variant: str, arrays: Sequence[Any], repeats: int) -> list[str]:
    """Return the figures of a row: seconds, and their ratios to those of a plain run."""
    chosen: dict[str, Any] = {"variant": variant, "device": "sim"}
    asked = {"variant": variant}
    call = functools.partial(table.operation(operation).run, arrays, asked, device="sim")
    call(counts=True)  # the first call compiles
    profiles = []
    calls = [
        call,
        lambda: call(counts=True),
        lambda: profiles.append(coalesce.profile(operation, *arrays, **chosen)),
        lambda: str(profiles.pop()),  # a profile keeps its text
    ]
    plain, counting, profile, report = best(calls, repeats)
    figures = [f"{plain:.3f}", f"{counting:.3f}", f"{counting / plain:.2f}"]
    return [*figures, f"{profile:.3f}", f"{profile / plain:.2f}", f"{report:.3f}"]


def report_sizes(sizes: Sequence[int], repeats: int) -> Table:
    """Compare the profile with the plain run at several sizes, and for users' kernels."""
    table = Table(title="profile / plain run, CPU time")
    for head in ("operation", "variant", "operands"):
        table.add_column(head)
    for n in sizes:
        table.add_column(str(n), justify="right")
    random = np.random.default_rng(0)
    square = {n: random.random((2, n, n), np.float32) for n in sizes}
    large = {n: random.random((4 * n, 4 * n), np.float32) for n in sizes}
    for operation in OPERATIONS:
        operands: dict[str, Callable[[int], tuple[Any, ...]]] = {"a": lambda n: (large[n],)}
        if operation == "matmul":
            operands = {"a, b": lambda n: tuple(square[n]), "a, a": lambda n: (square[n][0],) * 2}
        for variant in (v.name for v in coalesce.variants(operation) if not v.hopper):
            for text, of_size in operands.items():
                ratios = [times(operation, variant, of_size(n), repeats)[4] for n in sizes]
                table.add_row(operation, variant, text, *ratios)
    for name in ("spmv", "histogram"):
        table.add_row("user", name, "", *(user_ratio(name, 200 * n, repeats) for n in sizes))
    return table


def user_ratio(name: str, n: int, repeats: int) -> str:
    """Return the ratio for a kernel of USERS. Its data have `n` rows, or 20 n bytes."""
    random = np.random.default_rng(0)
    grid, arguments = 256, tuple[Any, ...]()
    if name == "spmv":
        starts = np.cumsum([0, *random.integers(4, 28, n)], dtype=np.int32)
        columns = random.integers(0, n, starts[-1], np.int32)
        values, x = random.random(starts[-1], np.float32), random.random(n, np.float32)
        grid, arguments = -(-n // 256), (starts, columns, values, x, np.zeros_like(x), np.int32(n))
    else:
        data = random.integers(0, 256, 20 * n, np.uint8)
        arguments = (data, np.zeros(256, np.uint32), np.int32(20 * n))
    kernel = coalesce.Kernel(USERS, name, device="sim")
    calls: list[Callable[[], Any]] = [
        functools.partial(kernel[grid, 256], *arguments),
        functools.partial(kernel.profile, grid, 256, *arguments),
    ]
    calls[1]()  # the first call compiles
    plain, profile = best(calls, repeats)
    return f"{profile / plain:.2f}"


def report_large(n: int, repeats: int) -> Table:
    """Time the full profile of a large tiled matmul, without and with the cache model."""
    table = Table(title=f"CPU seconds of the profile of tiled matmul, {n}^3, float32")
    table.add_column("what")
    table.add_column("s", justify="right")
    a, b = np.random.default_rng(0).random((2, n, n), np.float32)
    profile = functools.partial(coalesce.profile, "matmul", a, b, variant="tiled", device="sim")
    calls = [functools.partial(profile, caches=caches) for caches in (False, True)]
    for what, seconds in zip(
        ("per line", "per line, with caches"), best(calls, repeats), strict=True
    ):
        table.add_row(what, f"{seconds:.2f}")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 512, 513])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    console = Console()
    console.print(f"{processor()} ({cores} usable), Python {platform.python_version()}")
    console.print(report_counting(options.n, options.repeats))
    console.print(report_large(options.large, options.repeats))
    if options.sizes:
        console.print(report_sizes(options.sizes, options.repeats))


if __name__ == "__main__":
    main()
