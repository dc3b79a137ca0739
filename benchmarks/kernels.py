"""How fast the package's kernels are on a GPU. Peers run in the same process for comparison.

    python benchmarks/kernels.py [--n 4096] [--dtype float32] [--device cuda]

Arrays are on the GPU. Each time is the median of CUDA events after a warm-up. The peers are calls
of CuPy: cuBLAS for products (TF32 off), CuPy's own kernels for the rest. With `--device sim` the
times are modelled and there are no peers. Use this option to try the script.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import coalesce
from coalesce.array import to_device


def median_ms(work: Callable[[], object], runs: int = 20) -> float:
    """Return the median of CuPy work by CUDA events, in milliseconds."""
    import cupy

    for _ in range(3):
        work()
    times = []
    for _ in range(runs):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return float(np.median(times))


def peers(n: int, dtype: np.dtype[Any]) -> dict[str, Callable[[], object]]:
    """Return CuPy's function for each operation."""
    os.environ["CUPY_TF32"] = "0"
    try:
        import cupy
    except ImportError:
        return {}
    a, b = cupy.random.random((2, n, n)).astype(dtype)
    out = cupy.empty_like(a)
    sums = cupy.empty(n, dtype)
    return {
        "matmul": lambda: cupy.matmul(a, b, out=out),
        "transpose": lambda: cupy.copyto(out, a.T),
        "row_sums": lambda: a.sum(axis=1, out=sums),
        "column_sums": lambda: a.sum(axis=0, out=sums),
    }


def main() -> None:
    """Measure every variant of every operation on matrices and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    options = parser.parse_args()
    n, dtype = options.n, np.dtype(options.dtype)
    on_gpu = options.device == "cuda"
    random = np.random.default_rng(0)
    a, b = (random.random((n, n)).astype(dtype) for _ in range(2))
    if on_gpu:
        a, b = to_device(a), to_device(b)

    table = Table(title=f"{n} x {n}, {dtype}, on {coalesce.devices()[0].description}")
    for column in ("operation", "variant", "ms", "spread", "GFLOP/s", "GB/s"):
        table.add_column(column, justify="left" if column in ("operation", "variant") else "right")
    theirs = peers(n, dtype) if on_gpu else {}
    bytes_moved = {"matmul": 3 * n * n, "transpose": 2 * n * n}
    for operation in ("matmul", "transpose", "row_sums", "column_sums"):
        function = getattr(coalesce, operation)
        arguments = (a, b) if operation == "matmul" else (a,)
        for variant in coalesce.variants(operation):
            _, t = function(
                *arguments, variant=variant.name, device=options.device, return_timing=True
            )
            # If a product transposes b first, count only the product's kernel, as for the peers.
            ms = t.parts[-1][1] if t.parts else t.kernel_ms
            scale = t.kernel_ms / ms
            gflops = f"{t.gflops * scale:.0f}" if operation == "matmul" else ""
            table.add_row(
                operation, variant.name, f"{ms:.4f}", f"{t.spread:.1%}", gflops,
                f"{t.gbps * scale:.0f}",
            )  # fmt: skip
        if operation in theirs:
            ms = median_ms(theirs[operation])
            moved = bytes_moved.get(operation, n * n + n) * dtype.itemsize
            gflops = f"{2 * n**3 / ms / 1e6:.0f}" if operation == "matmul" else ""
            table.add_row(operation, "CuPy", f"{ms:.4f}", "", gflops, f"{moved / ms / 1e6:.0f}")
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
