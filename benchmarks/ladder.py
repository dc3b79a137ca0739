"""Time every variant of matmul and cuBLAS on a GPU, and write docs/measured/ladder.json.

Matrices are float32 and row-major, with random numbers in [-1, 1). The time of a variant includes
the preparation of its operands (`tma` packs a). For each size, one graph per variant is replayed:
all variants in turn, then in the opposite order, so that all of them see the same clocks. A time is
the median of the rounds. L2 holds what the variant's own last run left there. Every result is
checked against float64 before it is timed. cuBLAS computes without TF32.

    python benchmarks/ladder.py [--rounds 9] [--out docs/measured/ladder.json] [--commit NAME]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import recording
from gpu import Gpu, median_and_spread, state
from products import ROUNDING, Product

from coalesce import catalogue

OUT = Path(__file__).parents[1] / "docs" / "measured" / "ladder.json"
LADDER = 4096  # the size at which every variant is timed
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
    *(("split_k", tile) for tile in (32, 64, 128)),
    *((name, 0) for name in ("tma", "tensor_map", "pipelined")),
]
TENSOR_CORES = [  # variant, dtype of its operands, kind of cuBLAS' product
    ("tf32x3", "float32", "float32"),
    ("tf32", "float32", "tf32"),
    ("bf16", "bfloat16", "bfloat16"),
    ("bf16", "bfloat16", "bfloat16 result"),
    ("dmma", "float64", "float64"),
]
LIMIT = 2.0  # the largest scaled error; a float32 sum of K products stays below 1


def main() -> None:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    recording.add_options(parser, OUT)
    options = parser.parse_args()
    gpu = Gpu()
    shapes = [_shape(gpu, shape, options.rounds) for shape in SHAPES]
    tensor_cores = [
        _tensor_cores(gpu, *row, size, options.rounds)
        for row in TENSOR_CORES
        for size in (2048, 4096, 8192)
    ]
    found = {
        **recording.header("ladder.py", options),
        "cublas": gpu.cublas_version,
        "shapes": shapes,
        "tensor_cores": tensor_cores,
    }
    recording.write(found, options.out)


def _shape(gpu: Gpu, shape: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    m, n, k = shape
    product = Product(gpu, m, n, k)
    rungs = list(FASTEST)
    if shape == (LADDER,) * 3:
        rungs = [
            (v.name, v.tiles[-1] if v.tiles else 0)
            for v in catalogue.variants("matmul")
            if v.name not in ("transposed_b", "corner_turned", "corner_turned_padded")
            and v.name not in {row[0] for row in TENSOR_CORES}
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
    rows = _rows(times, errors, shape)
    fastest = max((r for r in rows if r != "cublas"), key=lambda r: rows[r]["tflops"])
    line = f"{m} x {n} x {k}: {fastest} {rows[fastest]['tflops']} TFLOP/s"
    if "cublas" in rows:
        ratio = rows["cublas"]["ms"] / rows[fastest]["ms"]
        line += f", cuBLAS {rows['cublas']['tflops']}, ratio {ratio:.3f}"
    print(line, after.get("clocks.sm"), after.get("power.draw"), flush=True)
    return {"m": m, "n": n, "k": k, "clocks": [before, after], "rungs": rows}


def _tensor_cores(
    gpu: Gpu, variant: str, dtype: str, kind: str, size: int, rounds: int
) -> dict[str, Any]:
    """Time a variant on tensor cores, and cuBLAS' product of the same precision."""
    shape = (size, size, size)
    result = "bfloat16" if kind == "bfloat16 result" else ""
    name = f"{variant}, {kind}" if result else variant
    product = Product(gpu, *shape, dtype, result)
    works = {name: product.rung(variant)}
    # The operands of bf16 are bfloat16 from the start. Its result may be rounded.
    rounding = ROUNDING.get(variant, 0.0) if variant != "bf16" or result else 0.0
    errors = {name: product.error(works[name], rounding=rounding)}
    if errors[name] > LIMIT:
        raise SystemExit(f"{name} at {shape} is wrong: scaled error {errors[name]}")
    norms = {name: product.norm(works[name])}
    if (cublas := product.cublas(kind)) is not None:
        works[f"cublas {kind}"], errors[f"cublas {kind}"] = cublas, 0.0
        norms[f"cublas {kind}"] = product.norm(cublas)
    before = state()
    times = gpu.interleaved(works, rounds, target_ms=10)
    after = state()
    rows = _rows(times, errors, shape)
    for row, norm in norms.items():
        rows[row]["norm"] = float(f"{norm:.3g}")
    shown = ", ".join(f"{row} {rows[row]['tflops']}" for row in rows)
    print(
        f"{name} {size}: {shown}",
        norms,
        after.get("clocks.sm"),
        after.get("power.draw"),
        flush=True,
    )
    return {"rung": name, "size": size, "clocks": [before, after], "rungs": rows}


def _rows(
    times: dict[str, list[float]], errors: dict[str, float], shape: tuple[int, int, int]
) -> dict[str, dict[str, float]]:
    m, n, k = shape
    rows = {}
    for name, ms in times.items():
        median, spread = median_and_spread(ms)
        rows[name] = {
            "ms": round(median, 5),
            "spread": round(spread, 4),
            "tflops": round(2e-9 * m * n * k / median, 3),
            "error": round(errors[name], 3),
        }
    return rows


if __name__ == "__main__":
    main()
