"""Reads the recordings of the ladder, which `benchmarks/ladder.py` writes, and knows the goals.

Each measurement in a recording is a benchmark, as `coalesce.Benchmark.to_dict` returns it.
"""

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
    **{("tf32", n): 1.0 for n in (4096, 8192)},
    **{("bf16", n): goal for n, goal in ((1024, 1.10), (4096, 1.05), (8192, 1.05))},
    **{("dmma", n): 0.9 for n in (2048, 4096, 8192)},
}


@dataclass(frozen=True)
class Row:
    """The times of a rung or of cuBLAS."""

    ms: float
    tflops: float
    spread: float
    norm_error: float | None


@dataclass(frozen=True)
class Shape:
    """The times of the rungs and of cuBLAS for one shape, M x N x K."""

    extents: tuple[int, int, int]
    rungs: dict[str, Row]
    library: Row  # cuBLAS
    state: str  # the clock and the power of the GPU

    @property
    def name(self) -> str:
        """The extents as text."""
        return "{} x {} x {}".format(*self.extents)

    @property
    def fastest(self) -> str:
        """The name of the fastest rung."""
        return min(self.rungs, key=lambda name: self.rungs[name].ms)

    @property
    def ratio(self) -> float:
        """How many times as fast as cuBLAS the fastest rung is."""
        return self.library.ms / self.rungs[self.fastest].ms

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
    own: Row
    precision: str  # the precision of cuBLAS
    library: Row
    state: str

    @property
    def ratio(self) -> float:
        """How many times as fast as cuBLAS the variant is."""
        return self.library.ms / self.own.ms

    @property
    def goal(self) -> float | None:
        """The goal for `ratio`, if there is one."""
        return TENSOR_CORE_GOALS.get((self.variant, self.size))


def read(name: str) -> dict[str, Any]:
    """Return a recording of docs/measured."""
    recording: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))
    return recording


def extents(benchmark: dict[str, Any]) -> tuple[int, int, int]:
    """Return M, N and K of a product."""
    a, b = (array["shape"] for array in benchmark["arrays"])
    return a[0], b[1], a[1]


def rows(benchmark: dict[str, Any]) -> dict[str, Row]:
    """Return the rows of a benchmark by name."""
    return {
        row["variant"]: Row(
            row["timing"]["kernel_ms"],
            row["timing"]["gflops"] / 1000,
            row["timing"]["spread"],
            row.get("norm_error"),
        )
        for row in benchmark["rows"]
    }


def shapes(recording: dict[str, Any]) -> list[Shape]:
    """Return the shapes of a recording."""
    listed = []
    for benchmark in recording["shapes"]:
        rungs = rows(benchmark)
        library = rungs.pop("cublas")
        listed.append(Shape(extents(benchmark), rungs, library, _state(benchmark)))
    return listed


def at_ladder(recording: dict[str, Any]) -> Shape:
    """Return the shape at which every rung was timed."""
    (shape,) = (shape for shape in shapes(recording) if shape.extents == LADDER)
    return shape


def on_tensor_cores(recording: dict[str, Any]) -> list[OnTensorCores]:
    """Return the measurements on tensor cores."""
    listed = []
    for benchmark in recording["tensor_cores"]:
        (variant, own), (library, peer) = rows(benchmark).items()
        out = benchmark["options"].get("out")
        result = f", {out} result" if out else ""
        precision = (
            "tf32"
            if library == "cublas_tf32"
            else benchmark["arrays"][0]["dtype"] + (" result" if out else "")
        )
        size = extents(benchmark)[0]
        listed.append(OnTensorCores(variant, result, size, own, precision, peer, _state(benchmark)))
    return listed


def _state(benchmark: dict[str, Any]) -> str:
    state = benchmark["gpu_state"]
    if state is None:
        return ""
    return f"{state['sm_mhz']:.0f} MHz, {state['power_watts']:.0f} W"
