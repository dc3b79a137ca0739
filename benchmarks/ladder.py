"""Times every matmul rung beside cuBLAS on a GPU, and writes docs/measured/ladder.json.

Float32, row-major, random numbers in [-1, 1). A rung is timed with all that it does to its operands
first (tma packs a). Each size is a set of graphs replayed in turn, rung by rung and back, so that
all of them see the same clocks; medians of the rounds. L2 is as each rung's own last run leaves it.
Every result is checked against float64 before it is timed. cuBLAS computes without TF32.

    python benchmarks/ladder.py [--rounds 9] [--out docs/measured/ladder.json]
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from gpu import Gpu, median_and_spread, state
from products import Product

from coalesce import catalogue
from coalesce.compile import nvrtc

OUT = Path(__file__).parents[1] / "docs" / "measured" / "ladder.json"
LADDER = 4096  # the size at which every rung is timed
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
FASTEST = [("split_k", 32), ("split_k", 64), ("split_k", 128), ("tma", 0), ("pipelined", 0)]
LIMIT = 2.0  # of the scaled error; a float32 sum of K products stays below 1


def main() -> None:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    gpu = Gpu()
    shapes = [_shape(gpu, shape, options.rounds) for shape in SHAPES]
    found = {
        "command": "python benchmarks/ladder.py",
        "date": datetime.date.today().isoformat(),
        "gpu": state(),
        "nvrtc": "{}.{}".format(*nvrtc.nvrtc().version),
        "cublas": gpu.cublas_version,
        "shapes": shapes,
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _shape(gpu: Gpu, shape: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    m, n, k = shape
    product = Product(gpu, m, n, k)
    rungs = list(FASTEST)
    if shape == (LADDER,) * 3:
        rungs = [
            (v.name, v.tiles[-1] if v.tiles else 0)
            for v in catalogue.variants("matmul")
            if v.name not in ("transposed_b", "corner_turned", "corner_turned_padded")
        ]
    works, errors = {}, {}
    for name, tile in rungs:
        shown = f"{name} tile={tile}" if name == "split_k" else name
        works[shown] = product.rung(name, tile)
        errors[shown] = product.error(works[shown])
        if errors[shown] > LIMIT:
            raise SystemExit(f"{shown} at {shape} is wrong: scaled error {errors[shown]}")
    if (cublas := product.cublas()) is not None:
        works["cublas"], errors["cublas"] = cublas, product.error(cublas)
    before = state()
    times = gpu.interleaved(works, rounds)
    after = state()
    product.free()
    rows = {}
    for name, ms in times.items():
        median, spread = median_and_spread(ms)
        rows[name] = {
            "ms": round(median, 5),
            "spread": round(spread, 4),
            "tflops": round(2e-9 * m * n * k / median, 3),
            "error": round(errors[name], 3),
        }
    fastest = max((r for r in rows if r != "cublas"), key=lambda r: rows[r]["tflops"])
    line = f"{m} x {n} x {k}: {fastest} {rows[fastest]['tflops']} TFLOP/s"
    if "cublas" in rows:
        ratio = rows["cublas"]["ms"] / rows[fastest]["ms"]
        line += f", cuBLAS {rows['cublas']['tflops']}, ratio {ratio:.3f}"
    print(line, after.get("clocks.sm"), after.get("power.draw"), flush=True)
    return {"m": m, "n": n, "k": k, "clocks": [before, after], "rungs": rows}


if __name__ == "__main__":
    main()
