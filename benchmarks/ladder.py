"""Time every variant of matmul and cuBLAS on a GPU, and write docs/measured/ladder.json.

    python benchmarks/ladder.py [--runs 18] [--out docs/measured/ladder.json] [--commit NAME]

Each case is a call of `coalesce.benchmark`, which checks every result and says in its table how it
measures. The operands are row-major matrices of random numbers in [-1, 1). The time of a variant
includes the preparation of its operands (`tma` packs a). The file is written after each case.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import recording

import coalesce
from coalesce.benchmarking import Benchmark
from coalesce.benchmarking.gpu_peers import cublas
from coalesce.common.dtypes import to_bfloat16

OUT = Path(__file__).parents[1] / "docs" / "measured" / "ladder.json"
LADDER = (4096, 4096, 4096)  # the shape at which every variant is timed
SHAPES = [  # M, N, K
    *((n, n, n) for n in (256, 512, 1024, 2048, 4096, 8192)),
    *((n, n, n) for n in (1000, 3072, 5000, 4097)),
    *(
        (16384, 128, 2048),
        (128, 16384, 2048),
        (8192, 512, 4096),
        (1024, 1024, 16384),
        (64, 64, 8192),
    ),
]
FASTEST = [
    *(f"split_k tile={tile}" for tile in (32, 64, 128)),
    *("tma", "tensor_map", "pipelined"),
]
TENSOR_CORES = [  # variant, cuBLAS' product, dtype of the operands, dtype of the result
    ("tf32x3", "cublas", "float32", "float32"),
    ("tf32", "cublas_tf32", "float32", "float32"),
    ("bf16", "cublas", "bfloat16", "float32"),
    ("bf16", "cublas", "bfloat16", "bfloat16"),
    ("dmma", "cublas", "float64", "float64"),
]
NO_RUNGS = ("transposed_b", "corner_turned", "corner_turned_padded")  # they are not on the ladder


def main() -> None:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=18, help="of each variant (default 18)")
    recording.add_options(parser, OUT)
    options = parser.parse_args()
    results: dict[str, Any] = {
        **recording.header("ladder.py", options),
        "cublas": cublas(0).version,
        "shapes": [],
        "tensor_cores": [],
    }
    for shape in SHAPES:
        rungs = _rungs() if shape == LADDER else FASTEST
        results["shapes"].append(_timed(shape, [*rungs, "cublas"], options.runs))
        recording.write(results, options.out)
    for variant, library, *dtypes in TENSOR_CORES:
        for size in (1024, 2048, 4096, 8192):
            row = _timed((size, size, size), [variant, library], options.runs, *dtypes)
            results["tensor_cores"].append(row)
            recording.write(results, options.out)


def _rungs() -> list[str]:
    """Return the names of all rungs: the variants that do not need tensor cores."""
    on_tensor_cores = {variant for variant, *_ in TENSOR_CORES}
    return [
        name
        for name in coalesce.variants("matmul").names
        if name not in NO_RUNGS and name not in on_tensor_cores
    ]


def _timed(
    shape: tuple[int, int, int],
    variants: Sequence[str],
    runs: int,
    dtype: str = "float32",
    result: str = "float32",
) -> dict[str, Any]:
    """Time variants on random operands. Print the table, and return it as a dict."""
    a, b, out = _arrays(shape, dtype, result)
    timed: Benchmark = coalesce.benchmark(
        "matmul", a, b, variants=variants, device="cuda", runs=runs, repeats="auto", out=out
    )
    print(timed, flush=True)
    if not timed.correct:
        raise SystemExit("a result is wrong")
    return timed.to_dict()


def _arrays(shape: tuple[int, int, int], dtype: str, result: str) -> tuple[Any, Any, Any]:
    """Return the operands, and an array for the result if it is bfloat16."""
    m, n, k = shape
    random = np.random.default_rng(1)
    real = np.dtype(np.float64 if dtype == "float64" else np.float32)
    a, b = (random.random(each, real) * 2 - 1 for each in ((m, k), (k, n)))
    if dtype == "bfloat16":
        a, b = to_bfloat16(a), to_bfloat16(b)
    return a, b, np.empty((m, n), "V2") if result == "bfloat16" else None


if __name__ == "__main__":
    main()
