"""Chooses the variant for ``variant="best"``: the fastest variant for a shape and a GPU.

For products, there are three cases:

- float32 on GPUs of compute capability 9.0 or newer: benchmarks/best.py timed the variants for many
  shapes on an H200. `best.json` has the fastest variant for each of these shapes. A call uses the
  variant of the nearest shape. The distance between the shapes (M, N, K) and (M', N', K') is the
  sum of log2(M/M')², log2(N/N')² and log2(K/K')². The variant "tensor_map" runs only on compute
  capability 9.0. On newer GPUs, a call uses "tma" instead of "tensor_map".
- float64 on GPUs of compute capability 9.0, if M, N and K are at least 128: the variant is "dmma",
  which uses tensor cores.
- All other cases, and all products on the simulator: the variant is "tiled" if M or N is below 64,
  and "pipelined" otherwise.

"best" never chooses a variant that rounds its operands.
"""

from __future__ import annotations

import json
import math
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.arrays.devices import Device


def of_matmul(m: int, n: int, k: int, dtype: np.dtype[Any], device: Device) -> tuple[str, int]:
    """Return the best variant, and its tile, for the product of an M x K and a K x N matrix.

    For example, the result is ``("tiled", 32)``. If the variant has no tile, the tile is 0.
    """
    hopper = device.kind == "cuda" and device.compute_capability >= (9, 0)
    tensor_maps = device.kind == "cuda" and device.compute_capability == (9, 0)
    if dtype == np.float32 and hopper:
        variant, tile = _nearest(m, n, k)
        return ("tma" if variant == "tensor_map" and not tensor_maps else variant), tile
    if dtype == np.float64 and tensor_maps and min(m, n, k) >= 128:
        return "dmma", 0
    return ("pipelined", 0) if min(m, n) >= 64 else ("tiled", 32)


def of_one_matrix(variant: str) -> str:
    """Replace "best" by "vectorized". Return any other name unchanged.

    For transposes and sums, "vectorized" is the fastest variant for every shape.
    """
    return "vectorized" if catalogue.is_best(variant) else variant


@lru_cache(256)
def _nearest(m: int, n: int, k: int) -> tuple[str, int]:
    wanted = [math.log2(max(extent, 1)) for extent in (m, n, k)]

    def distance(row: list[Any]) -> float:
        return sum((math.log2(have) - want) ** 2 for have, want in zip(row, wanted, strict=False))

    *_, variant, tile = min(_table(), key=distance)
    return variant, tile


@cache
def _table() -> list[list[Any]]:
    """Return the rows of `best.json`: M, N, K, the fastest variant, and its tile."""
    path = Path(__file__).with_name("best.json")
    rows: list[list[Any]] = json.loads(path.read_text(encoding="utf-8"))["float32"]
    return rows
