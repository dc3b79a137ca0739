"""How much compiled kernels shorten plain runs on the simulator. Needs llvmlite.

    python benchmarks/compiled.py [--n 512] [--repeats 5]

Times each kernel of the catalogue without and with compiled code. A time is the CPU time of all
threads for a call, the best of the repeats. The two calls take turns. The last column says how much
CPU time the compilation took. It is not part of the other times.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from profiling import OPERATIONS, best
from rich.console import Console
from rich.table import Table
from simulator import processor

import coalesce
from coalesce import _core
from coalesce.catalogue import table
from coalesce.launch import compiled_kernels


def with_compiler(compiler: Any, call: Callable[[], Any]) -> None:
    """Call the function, with kernels compiled by `compiler`, or interpreted if it is None."""
    _core.sim.set_kernel_compiler(compiler)
    call()
    _core.sim.set_kernel_compiler(None)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    n = options.n
    rows = Table(title=f"CPU seconds of a call, matmul {n}^3, others {4 * n}^2, float32")
    for head in ("operation", "variant"):
        rows.add_column(head)
    for head in ("interpreted", "compiled", "ratio", "compilation"):
        rows.add_column(head, justify="right")
    random = np.random.default_rng(0)
    square, large = random.random((2, n, n), np.float32), random.random((4 * n, 4 * n), np.float32)
    ratios = []
    for operation in OPERATIONS:
        arrays = tuple(square) if operation == "matmul" else (large,)
        for variant in (v.name for v in coalesce.variants(operation) if not v.hopper):
            run = functools.partial(
                table.operation(operation).run, arrays, {"variant": variant}, device="sim"
            )
            run()
            before = time.process_time()
            for _ in range(2):  # the code for inactive lanes is compiled when it is first missing
                with_compiler(compiled_kernels.compile_now, run)
            took = time.process_time() - before
            plain, compiled = best(
                [
                    functools.partial(with_compiler, None, run),
                    functools.partial(with_compiler, compiled_kernels.compile_now, run),
                ],
                options.repeats,
            )
            ratios.append(plain / compiled)
            rows.add_row(
                operation,
                variant,
                *(f"{x:.4f}" for x in (plain, compiled)),
                f"{ratios[-1]:.2f}",
                f"{max(0.0, took - 2 * compiled):.2f}",
            )
    console = Console()
    cores = len(os.sched_getaffinity(0))
    console.print(f"{processor()} ({cores} usable), Python {platform.python_version()}")
    console.print(rows)
    console.print(f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
