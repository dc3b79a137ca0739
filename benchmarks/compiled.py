"""How much compiled kernels shorten plain runs on the simulator. Needs llvmlite.

    taskset -c 0 python benchmarks/compiled.py [--rounds 5]

Times eleven kernels of compiled.cu and three matrix products of the catalogue without and with
compiled code. A time is the CPU time of a call, the median of the rounds. The two ways take turns.
The last columns say how much CPU time the compilation took, which is not part of the other times,
and whether both ways left the same bits. This takes about two minutes.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from simulator import processor

import coalesce
from coalesce import _core
from coalesce.launch import compiled_kernels

# Calls the kernel of a case with copies of its arrays.
Call = Callable[..., Any]


class Compiler:
    """Compiles kernels, and adds up the CPU time that this takes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, code: _core.sim.KernelCode) -> None:
        before = time.process_time()
        compiled_kernels.compile_now(code)
        self.seconds += time.process_time() - before


def users() -> Iterator[tuple[str, Call, Sequence[Any]]]:
    """Yield the name of each kernel of compiled.cu, its launch, and its arguments."""
    random = np.random.default_rng(0)
    a, b = random.random((2, 512, 512), np.float32)
    image = random.random((2048, 2048), np.float32)
    bodies = random.random((4096, 4), np.float32)
    numbers = random.integers(0, 1 << 30, 1 << 20, np.int32)
    starts = np.cumsum([0, *random.integers(4, 28, 100_000)], dtype=np.int32)
    columns = random.integers(0, 100_000, starts[-1], np.int32)
    values = random.random(starts[-1], np.float32)
    bytes_, words = random.integers(0, 256, 1 << 22, np.uint8), numbers.astype(np.uint64)
    x, n = random.random(1 << 23, np.float32), np.int32
    cases: dict[str, tuple[Any, Any, Sequence[Any]]] = {
        "naive": ((16, 16), (32, 32), (a, b, a, n(512))),
        "tiled": ((16, 16), (32, 32), (a, b, a, n(512))),
        "sum": (256, 256, (x, np.zeros(256, np.float32), n(x.size))),
        "histogram": (256, 256, (bytes_, np.zeros(256, np.uint32), n(bytes_.size))),
        "stencil": ((64, 256), (32, 8), (image, image, n(2048))),
        "nbody": (16, 256, (bodies, bodies, n(4096))),
        "mandelbrot": ((32, 128), (32, 8), (np.zeros((1024, 1024), np.int32), n(1024))),
        "scan": (numbers.size // 256, 256, (numbers, numbers)),
        "bitonic": (numbers.size // 512, 256, (numbers,)),
        "spmv": (391, 256, (starts, columns, values, a.ravel(), values[:100_000], n(100_000))),
        "hash": (words.size // 256, 256, (words, words)),
    }
    source = Path(__file__).with_suffix(".cu").read_text()
    for name, (grid, block, arguments) in cases.items():
        yield name, coalesce.Kernel(source, name, device="sim")[grid, block], arguments


def products() -> Iterator[tuple[str, Call, Sequence[Any]]]:
    """Yield the name of each product of the catalogue, its call, and its arguments."""
    matrices = tuple(np.random.default_rng(0).random((3, 512, 512), np.float32))
    for variant in ("tiled", "blocktiled_1d", "blocktiled_2d"):
        call = functools.partial(coalesce.matmul, variant=variant, device="sim")
        yield f"matmul {variant}", lambda a, b, c, call=call: call(a, b, out=c), matrices


def timed(call: Call, arguments: Sequence[Any], compiler: Compiler | None) -> tuple[float, bytes]:
    """Return the CPU time of a call with copies of the arrays, and the bits that it leaves."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    _core.sim.set_kernel_compiler(compiler)
    before = time.process_time()
    call(*given)
    seconds = time.process_time() - before
    return seconds, b"".join(a.tobytes() for a in given if isinstance(a, np.ndarray))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    table = Table(title="CPU seconds of a call")
    table.add_column("kernel")
    for head in ("interpreted", "compiled", "ratio", "compilation", "same bits"):
        table.add_column(head, justify="right")
    ratios = []
    for name, call, arguments in (*users(), *products()):
        compiler = Compiler()
        _, expected = timed(call, arguments, None)
        _, bits = timed(call, arguments, compiler)
        rounds = [
            [timed(call, arguments, way)[0] for way in (None, compiler)]
            for _ in range(options.rounds)
        ]
        plain, compiled = (statistics.median(times) for times in zip(*rounds, strict=True))
        ratios.append(plain / compiled)
        table.add_row(
            name,
            *(f"{x:.4f}" for x in (plain, compiled)),
            f"{ratios[-1]:.2f}",
            f"{compiler.seconds:.2f}",
            "yes" if bits == expected else "NO",
        )
    console = Console()
    cores = len(os.sched_getaffinity(0))
    console.print(f"{processor()} ({cores} usable), Python {platform.python_version()}")
    console.print(table)
    console.print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
