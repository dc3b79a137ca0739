"""How fast the package's kernels are on a GPU. Peers run in the same process for comparison.

    python benchmarks/kernels.py [--n 4096] [--dtype float32] [--device cuda]
    python benchmarks/kernels.py --shapes 16384x16384 1000000x1000 --operations transpose row_sums

Arrays are on the GPU. A call with all its launches is repeated in a CUDA graph, all variants in
turn. The peers are calls of CuPy: cuBLAS for products (TF32 off), CuPy's own kernels for the rest,
and the copy of a matrix on the GPU for transpositions. Their times are medians of CUDA events after
a warm-up. With `--device sim`, the times are modelled, and there are no peers. Use this option to
try the script. `--shapes` lists rows x columns, and is only for operations of one matrix.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import figures
import numpy as np
from gpu import Gpu, Work, median_and_spread
from products import launches
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


def peers(rows: int, cols: int, dtype: np.dtype[Any]) -> dict[str, dict[str, Callable[[], object]]]:
    """Return CuPy's functions for each operation."""
    os.environ["CUPY_TF32"] = "0"
    try:
        import cupy
    except ImportError:
        return {}
    a = cupy.random.random((rows, cols), dtype=dtype)
    out, turned = cupy.empty_like(a), cupy.empty((cols, rows), dtype)
    row_sums, column_sums = cupy.empty(rows, dtype), cupy.empty(cols, dtype)
    return {
        "matmul": {"CuPy": lambda: cupy.matmul(a, a, out=out)},
        "transpose": {
            "CuPy": lambda: cupy.copyto(turned, a.T),
            "CuPy, a copy": lambda: cupy.copyto(out, a),
        },
        "row_sums": {"CuPy": lambda: a.sum(axis=1, out=row_sums)},
        "column_sums": {"CuPy": lambda: a.sum(axis=0, out=column_sums)},
    }


def shape_of(text: str) -> tuple[int, int]:
    """Return the rows and columns of "1000x2000"."""
    rows, cols = text.split("x")
    return int(rows), int(cols)


ROUNDS = 9
OPERATIONS = ("matmul", "transpose", "row_sums", "column_sums")


def main() -> None:
    """Measure every variant of every operation on matrices and print a table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--shapes", type=shape_of, nargs="+")
    parser.add_argument("--operations", choices=OPERATIONS, nargs="+", default=OPERATIONS)
    parser.add_argument("--variants", nargs="+", help="by default all")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    figures.add_option(parser)
    options = parser.parse_args()
    shapes = options.shapes or [(options.n, options.n)]
    figures.write([row for shape in shapes for row in measure(shape, options)], options.json)


def on_graphs(operation: str, arrays: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the milliseconds and the spread of each variant, with all launches of a call.

    If a variant of an operation on one matrix has several launches, each of them is also timed
    alone.
    """
    gpu = Gpu()
    works: dict[str, Work] = {}
    for name in names:
        result = getattr(coalesce, operation)(*arrays, variant=name)
        steps = launches(gpu, operation, arrays, variant=name, out=result)
        works[name] = partial(_enqueue, steps)
        if len(steps) > 1 and operation != "matmul":
            works |= {f"{name}, launch {i}": step for i, step in enumerate(steps, 1)}
    gpu.synchronize()  # the benchmark's stream does not wait for these calls
    return {name: median_and_spread(ms) for name, ms in gpu.interleaved(works, ROUNDS).items()}


def _enqueue(steps: Sequence[Work]) -> None:
    for step in steps:
        step()


def modelled(operation: str, a: np.ndarray[Any, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the modelled milliseconds of each variant, on the simulator."""
    function, times = getattr(coalesce, operation), {}
    for name in names:
        arguments = (a, a) if operation == "matmul" else (a,)
        _, timing = function(*arguments, variant=name, device="sim", return_timing=True)
        times[name] = timing.kernel_ms, timing.spread
    return times


def measure(shape: tuple[int, int], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of one shape, and print them as a table."""
    (rows, cols), dtype = shape, np.dtype(options.dtype)
    on_gpu = options.device == "cuda"
    a: Any = np.random.default_rng(0).random(shape, dtype)
    if on_gpu:
        a = to_device(a)

    title = f"{rows} x {cols}, {dtype}, on {coalesce.devices()[0].description}"
    table = Table(title=title)
    for column in ("operation", "variant", "ms", "spread", "GFLOP/s", "GB/s"):
        table.add_column(column, justify="left" if column in ("operation", "variant") else "right")
    theirs = peers(rows, cols, dtype) if on_gpu else {}
    elements = {
        "matmul": 3 * rows * cols,
        "transpose": 2 * rows * cols,
        "row_sums": rows * cols + rows,
        "column_sums": rows * cols + cols,
    }

    def row(operation: str, variant: str, ms: float, spread: str) -> dict[str, Any]:
        gflops = f"{2 * rows**3 / ms / 1e6:.0f}" if operation == "matmul" else ""
        # If a call has several launches, a single launch does not move all its bytes.
        gbps = None if ", launch" in variant else elements[operation] * dtype.itemsize / ms / 1e6
        shown = "" if gbps is None else f"{gbps:.0f}"
        table.add_row(operation, variant, f"{ms:.4f}", spread, gflops, shown)
        named = {"rows": rows, "cols": cols, "operation": operation, "variant": variant}
        return {**named, "ms": ms, "gbps": gbps}

    for operation in options.operations:
        if operation == "matmul" and rows != cols:
            continue
        arguments = (a, a) if operation == "matmul" else (a,)
        names = [
            name
            for name in coalesce.catalogue.runnable(operation, coalesce.devices()[0], dtype)
            if not options.variants or name in options.variants
        ]
        times = on_graphs(operation, arguments, names) if on_gpu else modelled(operation, a, names)
        for name, (ms, spread) in times.items():
            yield row(operation, name, ms, f"{spread:.1%}")
        for name, work in theirs.get(operation, {}).items():
            yield row(operation, name, median_ms(work), "")
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
