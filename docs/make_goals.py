"""Write docs/goals.md: each goal for the speed on a GPU, what was measured, and what limits it.

The figures come from files that scripts in benchmarks wrote: docs/measured/ladder.json (ladder.py)
and h200.json (record_gpu.py).

python docs/make_goals.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recorded_ladder
from pages import write

TARGET = Path(__file__).parent / "goals.md"
LARGE = (16384, 16384)
OTHER = ((1000000, 1000), (1000, 1000000), (16383, 16385), (8192, 32768))  # for transposes
LONG = OTHER[:2]  # for sums

BFLOAT16 = ", bfloat16 result"

# What limits a speed, if its goal is not reached. The key is the name of the goal.
LIMITS = {
    "4096 x 4096 x 4096": "[The main loop of `tensor_map`](ladder.md#tensor_map): register-bank "
    "conflicts and loads of shared memory.",
    "8192 x 8192 x 8192": "As for 4096 x 4096 x 4096.",
    **dict.fromkeys(
        (f"`bf16` at {n}{result}" for n in (1024, 4096, 8192) for result in ("", BFLOAT16)),
        "[Power, and at 1024 the copies from L2](ladder.md#bf16-and-tf32).",
    ),
    "product of 8192": "The product alone takes about as long as the goal. See "
    "[Speed on a GPU](gpu_speed.md#goals-that-are-not-reached).",
    "launch": "The driver's own function takes longer than the goal. See "
    "[Speed on a GPU](gpu_speed.md#goals-that-are-not-reached).",
}


@dataclass
class Goal:
    """A goal. `name` is also the key in LIMITS."""

    name: str
    goal: str
    measured: str
    reached: bool


def at_least(name: str, value: float, goal: float, unit: str = "", digits: int = 2) -> Goal:
    """Return a goal that a value should reach or exceed."""
    shown = f"at least {goal:.{digits}f}{unit}"
    return Goal(name, shown, f"{value:.{digits + (not unit)}f}{unit}", value >= goal)


def below(name: str, value: float, goal: float, unit: str, digits: int = 2) -> Goal:
    """Return a goal below which a value should stay."""
    shown = f"below {goal:.{digits}f}{unit}"
    return Goal(name, shown, f"{value:.{digits + 1}f}{unit}", value < goal)


def of_float32(ladder: dict[str, Any]) -> Iterator[Goal]:
    """Yield the goals for float32: the fastest variant's speed relative to cuBLAS."""
    for shape in recorded_ladder.shapes(ladder):
        yield at_least(shape.name, shape.ratio, shape.goal)


def of_tensor_cores(ladder: dict[str, Any]) -> Iterator[Goal]:
    """Yield the goals for the variants on tensor cores, relative to cuBLAS."""
    for row in recorded_ladder.on_tensor_cores(ladder):
        if row.goal is not None:
            yield at_least(f"`{row.variant}` at {row.size}{row.result}", row.ratio, row.goal)


def of_calls(figures: dict[str, Any], operation: str) -> dict[tuple[int, str], float]:
    """Return the milliseconds of whole calls, by the rows of the first array and the table's row.

    The number of rows is 0 if there is no array.
    """
    return {
        (benchmark["arrays"][0]["shape"][0] if benchmark["arrays"] else 0, row["variant"]): row[
            "timing"
        ]["kernel_ms"]
        for benchmark in figures.values()
        if benchmark["operation"] == operation and benchmark.get("whole_calls")
        for row in benchmark["rows"]
    }


def of_numpy(figures: dict[str, Any]) -> Iterator[Goal]:
    """Yield the goals for products of NumPy arrays with a new result."""
    ms = of_calls(figures, "matmul")
    for size, goal in ((64, 0.06), (1024, 1.2), (4096, 7.4)):
        yield below(f"product of {size}", ms[size, "new"], goal, " ms")
    faster = ms[4096, "cupy"] / ms[4096, "new"]
    yield at_least("product of 4096, compared with CuPy", faster, 5, " times", digits=1)
    ratio = ms[8192, "new"] / ms[8192, "copies"]
    yield Goal(
        "product of 8192", "at most 1.3 times the copies", f"{ratio:.2f} times", ratio <= 1.3
    )


def of_launches(figures: dict[str, Any]) -> Iterator[Goal]:
    """Yield the goals for launches with arrays on the GPU."""
    us = {row: 1000 * ms for (_, row), ms in of_calls(figures, "launch").items()}
    own = us["device_array"]
    yield below("launch, compared with CuPy", own, us["cupy"], " us")
    alone = us["from_cpp"]
    measured = f"{own:.2f} us; the driver alone {alone:.2f} us"
    yield Goal("launch", "at most 2.5 us", measured, own <= 2.5)


def of_one_matrix(figures: dict[str, Any]) -> Iterator[Goal]:
    """Yield the goals for transposes and sums."""
    gbps = {
        (tuple(benchmark["arrays"][0]["shape"]), benchmark["operation"], row["variant"]): row[
            "timing"
        ]["gbps"]
        for benchmark in figures.values()
        if benchmark.get("arrays") and not benchmark.get("whole_calls")
        for row in benchmark["rows"]
    }
    for shape in (LARGE, *OTHER):
        copies = [gbps[shape, "transpose", copy] for copy in ("memcpy", "cupy_copy")]
        ratio = gbps[shape, "transpose", "vectorized"] / max(copies)
        name = "`transpose`, {} x {}, relative to a copy".format(*shape)
        yield at_least(name, ratio, 0.97 if shape == LARGE else 0.9)
    for operation in ("row_sums", "column_sums"):
        for shape in (LARGE, *LONG):
            speed = gbps[shape, operation, "vectorized"] / 1000
            name = "`{}`, {} x {}".format(operation, *shape)
            yield at_least(name, speed, 4.5 if shape == LARGE else 4.2, " TB/s")


def table(goals: Iterator[Goal]) -> list[str]:
    """Return the table of some goals."""
    lines = [
        "| what | goal | measured | reached | what limits it |",
        "|---|---|---|---|---|",
    ]
    for goal in goals:
        limit = "" if goal.reached else LIMITS[goal.name]  # a KeyError: say what limits the speed
        reached = "yes" if goal.reached else "**no**"
        lines.append(f"| {goal.name} | {goal.goal} | {goal.measured} | {reached} | {limit} |")
    return lines


def text(ladder: dict[str, Any], speeds: dict[str, Any]) -> str:
    """Return the page."""
    figures = speeds["figures"]
    where = "Measured on an {} with commit {}, on {}, by `{}`."
    of_ladder, of_speeds = (
        where.format(record["gpu"]["name"], record["commit"], record["date"], record["command"])
        for record in (ladder, speeds)
    )
    lines = [
        _INTRODUCTION,
        "",
        "## Products, compared with cuBLAS",
        "",
        of_ladder,
        "",
        _PRODUCTS,
        "",
        *table(of_float32(ladder)),
        "",
        _TENSOR_CORES,
        "",
        *table(of_tensor_cores(ladder)),
        "",
        "## NumPy arrays, launches, transposes and sums",
        "",
        of_speeds,
        "",
        _SPEEDS,
        "",
        *table(of_numpy(figures)),
        *table(of_launches(figures))[2:],
        *table(of_one_matrix(figures))[2:],
    ]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """\
# Goals for the speed, and what was measured

*Written by `docs/make_goals.py` from the recordings in `docs/measured`; do not edit.*

This page lists each goal for the speed on an NVIDIA H200. If a goal is not reached, the last column
says what limits the speed. [The ladder, measured](ladder.md) and [Speed on a GPU](gpu_speed.md) say
how the figures were measured, what was tried, and what to try next."""

_PRODUCTS = """\
The first table is for float32. A figure is the time of cuBLAS divided by the time of the fastest
variant: above 1, the variant is faster. A product of up to 1024 x 1024 x 1024 was repeated up to
100 times in a row, in a CUDA graph. At these sizes, the figure is for products
that follow each other, not for a single product."""

_TENSOR_CORES = """\
The next table is for the variants on tensor cores. Here, too, a figure is the time of cuBLAS
divided by the time of the variant. Each variant is compared with cuBLAS in the same precision,
except `tf32x3`, which is compared with cuBLAS in float32."""

_SPEEDS = """\
The time of a product of NumPy arrays includes all copies. The result is a new array."""


def main() -> None:
    write(text(*map(recorded_ladder.read, ("ladder", "h200"))), TARGET)


if __name__ == "__main__":
    main()
