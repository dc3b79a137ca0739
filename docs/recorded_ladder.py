"""Reads the recordings of the ladder, which `benchmarks/ladder.py` writes, and knows the goals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parent / "measured"
LADDER = (4096, 4096, 4096)  # the shape at which every rung was timed
LARGE_GOAL = 1.10
# The goals: how many times as fast as cuBLAS a rung should be on an H200. Shapes and sizes that are
# not listed have the goal None.
SHAPE_GOALS: dict[int | None, float] = {
    **dict.fromkeys((256, 512, 1024, 4096, 8192), LARGE_GOAL),
    2048: 1.05,
    None: 1.0,
}
TENSOR_CORE_GOALS: dict[tuple[str, int], float] = {
    **{("tf32x3", n): 2.0 for n in (2048, 4096, 8192)},
    **{(name, n): 1.0 for name in ("tf32", "bf16") for n in (4096, 8192)},
    **{("dmma", n): 0.9 for n in (2048, 4096, 8192)},
}


@dataclass(frozen=True)
class Shape:
    """The times of the rungs and of cuBLAS for one shape, M x N x K."""

    extents: tuple[int, int, int]
    rungs: dict[str, dict[str, float]]  # the times of cuBLAS are in `library`
    library: dict[str, float]
    after: dict[str, str]  # clock and power after the measurement

    @property
    def name(self) -> str:
        """The extents as text."""
        return "{} x {} x {}".format(*self.extents)

    @property
    def fastest(self) -> str:
        """The name of the fastest rung."""
        return min(self.rungs, key=lambda name: self.rungs[name]["ms"])

    @property
    def ratio(self) -> float:
        """How many times as fast as cuBLAS the fastest rung is."""
        return self.library["ms"] / self.rungs[self.fastest]["ms"]

    @property
    def goal(self) -> float:
        """The goal for `ratio`."""
        m, n, k = self.extents
        return SHAPE_GOALS.get(m if m == n == k else None, SHAPE_GOALS[None])


@dataclass(frozen=True)
class OnTensorCores:
    """The times of a variant on tensor cores and of cuBLAS for square matrices."""

    variant: str
    result: str  # ", bfloat16 result", or empty
    size: int
    own: dict[str, float]
    precision: str  # the precision of cuBLAS
    library: dict[str, float]
    after: dict[str, str]

    @property
    def ratio(self) -> float:
        """How many times as fast as cuBLAS the variant is."""
        return self.library["ms"] / self.own["ms"]

    @property
    def goal(self) -> float | None:
        """The goal for `ratio`, if there is one."""
        return TENSOR_CORE_GOALS.get((self.variant, self.size))


def read(name: str) -> dict[str, Any]:
    """Return a recording of docs/measured."""
    found: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def shapes(found: dict[str, Any]) -> list[Shape]:
    """Return the shapes of a recording."""
    listed = []
    for shape in found["shapes"]:
        rungs = {name: row for name, row in shape["rungs"].items() if name != "cublas"}
        extents = (shape["m"], shape["n"], shape["k"])
        listed.append(Shape(extents, rungs, shape["rungs"]["cublas"], shape["clocks"][1]))
    return listed


def at_ladder(found: dict[str, Any]) -> Shape:
    """Return the shape at which every rung was timed."""
    (shape,) = (shape for shape in shapes(found) if shape.extents == LADDER)
    return shape


def on_tensor_cores(found: dict[str, Any]) -> list[OnTensorCores]:
    """Return the measurements on tensor cores."""
    listed = []
    for entry in found["tensor_cores"]:
        variant, comma, result = entry["rung"].partition(",")
        rungs = dict(entry["rungs"])
        own = rungs.pop(entry["rung"])
        ((library, row),) = rungs.items()
        precision = library.removeprefix("cublas ")
        after = entry["clocks"][1]
        listed.append(
            OnTensorCores(variant, comma + result, entry["size"], own, precision, row, after)
        )
    return listed
