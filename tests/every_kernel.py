"""Runs every shipped kernel on a GPU at small sizes, under the tools of compute-sanitizer.

    python tests/every_kernel.py                    # all groups of kernels, under all four tools
    python tests/every_kernel.py --run transpose    # one group, without a tool

The script needs a GPU and compute-sanitizer. Each tool runs each group in a separate process. The
script writes docs/measured/sanitizer_variants_<gpu>.json: for each group, how many kernels ran, and
for each tool, how many errors it reported and the first of them. The exit status is 1 if a tool
reported an error, or if a process did not run to its end.

The sizes are not multiples of a tile. The variants for Hopper run with each of their tiles, and
`split_k` with each division of K. They also run with matrices of several tiles whose rows are
aligned, and with a larger K. If CuPy is installed, the arrays are CuPy's, without a memory pool, so
that the tools see where each array ends. Otherwise they are NumPy arrays, which the package copies
to memory of its pool. The pool gives an array at most an eighth more memory than it needs.
"""

import argparse
import concurrent.futures
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import sanitize_faults

import coalesce
from coalesce.catalogue import best

DTYPES = ("float32", "float64")
SHAPES = {"small": (45, 37, 70), "aligned": (300, 264, 200), "long": (40, 36, 2500)}  # M, N, K
LIMIT = 80  # the time limit of a process in seconds
RAN = "kernels ran"


def groups() -> dict[str, Callable[[], int]]:
    """Return the groups of kernels. Each function runs a group, and returns how many calls ran."""
    runs: dict[str, Callable[[], int]] = {
        operation: partial(one_matrix, operation)
        for operation in ("transpose", "row_sums", "column_sums")
    }
    runs["access"] = access
    for dtype in DTYPES:
        runs[f"matmul {dtype}"] = partial(matmul, dtype)
        for shape in SHAPES:
            runs[f"matmul for Hopper, {dtype}, {shape}"] = partial(hopper, dtype, shape)
    return runs


def on_gpu(array: np.ndarray[Any, Any]) -> Any:
    """Return the array as a CuPy array, or unchanged without CuPy."""
    try:
        import cupy
    except ImportError:
        return array
    cupy.cuda.set_allocator(None)
    return cupy.asarray(array)


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return random numbers, the same in every run."""
    return np.random.default_rng(0).random(shape).astype(dtype)


def call(
    operation: str, choice: str, name: str, *arrays: np.ndarray[Any, Any], **options: Any
) -> int:
    """Run a variant. Its result is an array of the same library as its operands. Return 1."""
    given = {choice: name, **options}
    given = {o: on_gpu(v) if isinstance(v, np.ndarray) else v for o, v in given.items()}
    function = getattr(coalesce, operation)
    function(*map(on_gpu, arrays), device="cuda", **given)
    return 1


def one_matrix(operation: str) -> int:
    """Run all variants of an operation on one matrix."""
    return sum(
        call(operation, "variant", variant.name, numbers((45, 70), dtype))
        for dtype in DTYPES
        for variant in coalesce.variants(operation)
        if variant.dtype in ("", dtype)
    )


def matmul(dtype: str) -> int:
    """Run the variants of matmul that every GPU has."""
    m, n, k = SHAPES["small"]
    a, b = numbers((m, k), dtype), numbers((k, n), dtype)
    return sum(
        call("matmul", "variant", variant.name, a, b)
        for variant in coalesce.variants("matmul")
        if not variant.hopper and variant.dtype in ("", dtype)
    )


def hopper(dtype: str, shape: str) -> int:
    """Run the variants of matmul for Hopper with each of their forms."""
    m, n, k = SHAPES[shape]
    a, b = numbers((m, k), dtype), numbers((k, n), dtype)
    return sum(
        call("matmul", "variant", variant.name, a, b, **options)
        for variant in coalesce.variants("matmul")
        if variant.hopper and variant.dtype in ("", dtype)
        for options in forms(variant.name)
    )


def forms(variant: str) -> Iterator[dict[str, Any]]:
    """Yield the options of each form of a variant. Calls use this form until the next one."""
    if variant == "split_k":
        for form in best.constants().forms:
            for slices in (1, 3):
                with mock.patch.object(best, "division", return_value=(form.parts, slices)):
                    yield {"tile": form.tile}
        return
    for tile in best.tiles_of(variant) or (None,):
        with mock.patch.object(best, "tile", return_value=tile):
            yield {}


def access() -> int:
    """Run all patterns."""
    index = np.random.default_rng(0).permutation(1000).astype(np.int32)
    options: dict[str, dict[str, Any]] = {
        "offset": {"offset": 3}, "stride": {"stride": 3}, "gather": {"index": index},
        "vector": {"width": 16}, "aos": {"field": 1}, "soa": {"field": 1},
    }  # fmt: skip
    ran = 0
    for dtype in DTYPES:
        x = numbers((1000,), dtype)
        for variant in coalesce.variants("access"):
            shape = {"aos": (250, 4), "soa": (4, 250)}.get(variant.name, (1000,))
            more = options.get(variant.name, {})
            ran += call("access", "pattern", variant.name, x.reshape(shape), **more)
    return ran


def compiled(group: str) -> int:
    """Run a group without a tool, so that its kernels are in the cache. Return how many ran."""
    command = [sys.executable, __file__, "--run", group]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if ended.returncode:
        sys.exit(f"{group} failed without a tool:\n{ended.stdout}{ended.stderr}")
    return int(ended.stdout.split()[0])


def main() -> None:
    """Run every group under every tool, several at the same time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=16, help="processes at a time (default: 16)")
    parser.add_argument(
        "--output", type=Path, default=sanitize_faults.MEASURED, help="folder for the results"
    )
    parser.add_argument("--run", choices=groups(), help="run one group, without a tool")
    options = parser.parse_args()
    if options.run:
        print(groups()[options.run](), RAN)
        return
    sanitize_faults.require_tool()
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results: dict[str, dict[str, Any]] = {
            group: {"kernels": ran}
            for group, ran in zip(groups(), pool.map(compiled, groups()), strict=True)
        }
        print(
            f"{time.monotonic() - begin:.0f} s: {sum(g['kernels'] for g in results.values())} {RAN}"
        )
        running = {
            (group, tool): pool.submit(
                sanitize_faults.sanitized, tool, __file__, "--run", group, limit=LIMIT
            )
            for group in sorted(
                results, key=lambda group: "matmul" not in group
            )  # the longest first
            for tool in sanitize_faults.TOOLS
        }
        for (group, tool), future in running.items():
            results[group][tool] = future.result()
            seconds = time.monotonic() - begin
            print(f"{seconds:3.0f} s  {group:35} {tool:10} {future.result()}", flush=True)
    arrays = "numpy" if isinstance(on_gpu(np.zeros(1)), np.ndarray) else "cupy"
    sanitize_faults.write("sanitizer_variants", {"arrays": arrays, "rows": results}, options.output)
    clean = all(
        one[tool]["errors"] == 0 for one in results.values() for tool in sanitize_faults.TOOLS
    )
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
