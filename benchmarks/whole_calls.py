"""Compare whole calls on arrays of CuPy with CuPy's own calls: 792 cases on a GPU.

    python benchmarks/whole_calls.py [--only REGEX] [--out FILE]

The cases are all operations with ``variant="best"``, two dtypes, eleven sizes from 64 to 8192 and
four layouts, with and without `out`, and arrays in C order also on another stream. Calls follow
each other without waiting, and the runs of both libraries take turns. A case in which CuPy was
faster is measured twice, and the better ratio counts. The first case of each variant also compiles.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu import need_gpu, state

import coalesce
from coalesce.benchmarking import peers
from coalesce.benchmarking.clock import host_runs

SIZES = (64, 128, 256, 500, 512, 1000, 1024, 2048, 4096, 4097, 8192)
LAYOUTS = ("C order", "Fortran order", "part of a wider array", "every second row and column")
RUNS, RUN_US, MOST_CALLS = 5, 2000.0, 100
SHOWN = 20  # cases in the report
Call = Callable[[], Any]


def arranged(layout: str, n: int, dtype: str, cupy: Any) -> Any:
    """Return an n x n matrix of random numbers with a layout."""
    rows, cols = {LAYOUTS[2]: (n, n + 64), LAYOUTS[3]: (2 * n, 2 * n)}.get(layout, (n, n))
    whole = cupy.random.default_rng(1).random((rows, cols), dtype) * 2 - 1
    return {
        LAYOUTS[0]: whole,
        LAYOUTS[1]: whole.T,
        LAYOUTS[2]: whole[:, 32 : 32 + n],
        LAYOUTS[3]: whole[::2, ::2],
    }[layout]


def calls_of(operation: str, arrays: list[Any], with_out: bool, cupy: Any) -> tuple[Call, Call]:
    """Return our call and CuPy's."""
    ours = getattr(coalesce, operation)
    if with_out:
        theirs = peers.call_of(cupy, operation, arrays)
        out = cupy.empty_like(theirs())
        return lambda: ours(*arrays, variant="best", out=out), theirs
    first = arrays[0]
    theirs = {
        "matmul": lambda: cupy.matmul(*arrays),
        "transpose": lambda: cupy.array(first.T, order="C", copy=True),
        "row_sums": lambda: first.sum(axis=1),
        "column_sums": lambda: first.sum(axis=0),
    }[operation]
    return lambda: ours(*arrays, variant="best"), theirs


def times(calls: tuple[Call, Call], synchronize: Call) -> list[float]:
    """Return the median times of both calls in microseconds."""

    def run(call: Call, count: int) -> float:
        def batch() -> None:
            for _ in range(count):
                call()
            synchronize()

        return 1e3 * sum(host_runs(batch, 1)[0]) / count

    for call in calls:
        run(call, 2)
    counts = [max(2, min(MOST_CALLS, round(RUN_US / run(call, 3)))) for call in calls]
    pairs = list(zip(calls, counts, strict=True))
    runs = [[run(call, count) for call, count in pairs] for _ in range(RUNS)]
    return [statistics.median(each) for each in zip(*runs, strict=True)]


def cases(only: str) -> Iterator[tuple[str, str, str, int, str, bool, bool]]:
    """Yield the name of each case, and what it is."""
    for layout, (with_out, other) in itertools.product(
        LAYOUTS, ((True, False), (False, False), (True, True))
    ):
        if other and layout != LAYOUTS[0]:
            continue
        for operation, dtype, n in itertools.product(
            ("matmul", "transpose", "row_sums", "column_sums"), ("float32", "float64"), SIZES
        ):
            name = f"{operation} {n} {dtype} {layout}{' out' * with_out}{' stream' * other}"
            if re.search(only, name):
                yield name, operation, dtype, n, layout, with_out, other


def main() -> None:
    """Measure all cases, print those in which CuPy is faster, and write all times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name has this regular expression")
    parser.add_argument("--out", type=Path, help="a JSON file for all times in microseconds")
    options = parser.parse_args()
    need_gpu()
    cupy = peers.library("cupy")
    measured: dict[str, list[float]] = {}
    for name, operation, dtype, n, layout, with_out, other in cases(options.only):
        stream = cupy.cuda.Stream(non_blocking=True) if other else cupy.cuda.Stream.null
        with stream:
            count = 2 if operation == "matmul" else 1
            arrays = [arranged(layout, n, dtype, cupy) for _ in range(count)]
            calls = calls_of(operation, arrays, with_out, cupy)
            ours, theirs = (cupy.asarray(call()) for call in calls)
            if not float(abs(ours - theirs).max()) <= 1e-6 * n:
                raise SystemExit(f"{name}: the results differ")
            del ours, theirs
            best = times(calls, stream.synchronize)
            if best[1] < best[0]:
                best = max(best, times(calls, stream.synchronize), key=lambda t: t[1] / t[0])
        measured[name] = best
        if best[1] < best[0]:
            print(f"{name:60} {best[0]:9.1f} us, CuPy {best[1]:9.1f}", flush=True)
        del arrays, calls
    ratios = sorted((theirs / ours, name) for name, (ours, theirs) in measured.items())
    print(f"{state().get('name', '')}, from the lowest ratio:")
    for ratio, name in ratios[:SHOWN]:
        print(f"  {ratio:.2f}  {name}")
    below = ", ".join(f"{sum(r < x for r, _ in ratios)} below {x}" for x in (1, 0.95, 0.9))
    mean = statistics.geometric_mean(ratio for ratio, _ in ratios)
    print(f"{len(ratios)} cases, CuPy's time relative to ours: geometric mean {mean:.2f}, {below}")
    if options.out:
        options.out.write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
