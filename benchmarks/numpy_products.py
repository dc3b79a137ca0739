"""How long a product of NumPy arrays takes with a result in NumPy: this package, CuPy and PyTorch.

    python benchmarks/numpy_products.py [--json FILE]

Prints milliseconds of wall time, including the copies to the GPU and back, for float32 without
TF32. A time is the median of the rounds after a warm-up. Each round has another random order: a
call takes longer after a call of another library, because the processor's caches hold other code.

For "pinned", the operands and the result are in pinned memory (`coalesce.pinned_empty`). "copies"
is only the time of the pinned copies of both operands and the result. "product" is only the time of
the product, with all arrays on the GPU. 64 rows of every result are compared with the product in
float64.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import figures
import numpy as np
from gpu import need_gpu
from launch_latency import processor
from rich.console import Console
from rich.table import Table

import coalesce
from coalesce.array import to_device

SIZES, ROUNDS = (64, 1024, 4096, 8192), 9


def main() -> None:
    """Measure and print a table with a column for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    figures.add_option(parser)
    options = parser.parse_args()
    need_gpu()
    print(f"{coalesce.devices()[0].description}, {processor()}; ms, median of {ROUNDS}")
    columns = [measure(n) for n in SIZES]
    table = Table("n x n", *map(str, SIZES))
    for name in columns[0]:
        table.add_row(name, *(f"{column[name]:.3f}" for column in columns))
    Console(width=100).print(table)
    figures.write(dict(zip(SIZES, columns, strict=True)), options.json)


def measure(n: int) -> dict[str, float]:
    """Return the times of one size by name."""
    a, b = (np.random.default_rng(seed).random((n, n), np.float32) - 0.5 for seed in (1, 2))
    out = np.zeros_like(a)
    pinned = [coalesce.pinned_empty((n, n), np.float32) for _ in range(3)]
    for target, source in zip(pinned, (a, b, out), strict=True):
        target[...] = source
    works: dict[str, Callable[[], Any]] = {
        "new": lambda: coalesce.matmul(a, b, variant="best"),
        "out=": lambda: coalesce.matmul(a, b, variant="best", out=out),
        "pinned": lambda: coalesce.matmul(pinned[0], pinned[1], variant="best", out=pinned[2]),
        "copies": copies(pinned),
        "product": product(a, b),
        **peers(a, b),
    }
    rows = np.linspace(0, n - 1, 64).astype(int)
    right = a[rows].astype(np.float64) @ b.astype(np.float64)
    for name, work in works.items():
        for _ in range(2):
            result = work()
        if result is not None:
            error = np.linalg.norm(result[rows] - right) / np.linalg.norm(right)
            assert error < 1e-5, (name, error)
    # The threads of NumPy's BLAS library wait in loops for some 30 ms after the product above.
    # Meanwhile they keep processors busy that the copies need.
    time.sleep(0.3)
    times: dict[str, list[float]] = {name: [] for name in works}
    order, shuffled = list(works), random.Random(1)
    for _ in range(ROUNDS if n > 64 else 100 * ROUNDS):
        shuffled.shuffle(order)
        for name in order:
            work = works[name]
            started = time.perf_counter()
            work()
            times[name].append(1e3 * (time.perf_counter() - started))
    return {name: statistics.median(ms) for name, ms in times.items()}


def copies(pinned: list[np.ndarray[Any, Any]]) -> Callable[[], None]:
    """Return a function that copies a product's operands to the GPU, and its result back."""
    arrays = [to_device(array) for array in pinned]

    def work() -> None:
        for array, source in zip(arrays[:2], pinned[:2], strict=True):
            array.set(source)
        arrays[2].get(out=pinned[2])

    return work


def product(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Callable[[], None]:
    """Return a function that multiplies arrays on the GPU, and waits for the result."""
    on_gpu = to_device(a), to_device(b)
    out = coalesce.empty(a.shape, a.dtype, device="cuda:0")
    gpu = coalesce._core.cuda.Device(0)

    def work() -> None:
        coalesce.matmul(*on_gpu, variant="best", out=out)
        gpu.synchronize()

    return work


def peers(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> dict[str, Callable[[], Any]]:
    """Return the same product with the other libraries that are installed."""
    os.environ["CUPY_TF32"] = "0"
    works: dict[str, Callable[[], Any]] = {}
    try:
        import cupy

        works["CuPy"] = lambda: cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))
    except ImportError:
        pass
    try:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        works["torch"] = lambda: (x.cuda() @ y.cuda()).cpu().numpy()
    except ImportError:
        pass
    return works


if __name__ == "__main__":
    main()
