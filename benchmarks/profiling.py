"""How much longer counting and profiling take on this machine than a plain run of the same kernel.

    python benchmarks/profiling.py [--n 512] [--large 1024] [--repeats 3]

Times a plain run, a run that counts, and the call that returns a profile with caches. The column
`report` times the text of that profile, which is computed when it is printed. Each ratio compares
with the plain run. Sums and transposes use matrices with four times the rows and columns. A time is
the CPU time of all threads, the best of the repeats. The kernels are compiled beforehand.

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
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    console = Console()
    console.print(f"{processor()} ({cores} usable), Python {platform.python_version()}")
    console.print(report_counting(options.n, options.repeats))
    console.print(report_large(options.large, options.repeats))


if __name__ == "__main__":
    main()
