"""Sentences: how an access lies in words and, where that costs too much, what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from coalesce._examples import Example
from coalesce._rows import Access, number

# How much more than its ideal an access may cost before it is called wasteful.
TOLERANCE = 1.05

Kind = Literal[
    "contiguous",
    "misaligned",
    "stride",
    "field",
    "broadcast",
    "permuted",
    "partial",
    "gather",
    "conflict",
    "free",
]


@dataclass(frozen=True)
class Shape:
    """How the lanes of an access lie; a stand-in for coalesce._pattern."""

    kind: Kind
    text: str
    axis: int | None = None


def wasteful(access: Access) -> bool:
    """Whether the access takes more sectors or wavefronts than its elements packed would."""
    return access.cost > TOLERANCE * access.ideal


def sentence(access: Access) -> str:
    """Return how an access lies and, where that costs, the fix."""
    example = access.example
    if example is None:
        if not wasteful(access):
            return ""
        return f"{access.takes} a request where {number(access.needed_per_request)} would do."
    if access.space == "local":
        return "An array of each thread that is indexed at run time, or registers that did not fit."
    shape = _shared(access, example) if access.space == "shared" else _global(example)
    if access.kind in ("atomic", "reduction") and shape.kind == "broadcast":
        return (
            f"{len(example.active)} lanes update one address, one after the other; "
            "adding up in the warp first leaves one update."
        )
    if not wasteful(access):
        return shape.text
    fix = _FIXES.get(shape.kind, "")
    if shape.kind == "stride" and shape.axis is not None:
        fix = _FIX_OF_AXIS
    return f"{shape.text} {fix}".rstrip()


_FIXES = {
    "misaligned": "Start rows at multiples of 32 bytes, or shift the lanes so that they do.",
    "stride": "Let neighbouring lanes take neighbouring elements.",
    "field": "A structure of arrays, one array a field, would be contiguous.",
    "gather": "Sort what is gathered, or load it contiguously into shared memory first.",
    "partial": "",
    "conflict": "Pad the rows by an element ([32][33]), or swizzle the columns.",
}
_FIX_OF_AXIS = (
    "Let threadIdx.x count along the last axis of the array, or load a tile through shared memory."
)


def _global(example: Example) -> Shape:
    active = example.active
    width, array = example.width, example.array
    steps = {b - a for a, b in pairwise(active)}
    item = np.dtype(array.dtype).itemsize if array is not None else width
    lanes = "its one active lane" if len(active) == 1 else f"{len(active)} lanes"
    if len(active) == 1:
        return Shape("partial", "Only one lane of the warp is active.")
    if steps == {0}:
        return Shape("broadcast", "All lanes read one address, a broadcast: a single sector.")
    if steps == {width}:
        few = f" Only {lanes} are active." if len(active) < 32 else ""
        if active[0] % 32:
            away = active[0] % 32
            return Shape(
                "misaligned",
                f"Contiguous, but from {away} bytes past a sector's start: one sector more.{few}",
            )
        return Shape("contiguous", f"Contiguous.{few}")
    if sorted(active) == list(range(min(active), min(active) + width * len(active), width)):
        return Shape("permuted", "Contiguous in another order, which costs nothing.")
    if len(steps) == 1:
        return _strided(steps.pop(), item, array)
    return Shape("gather", f"The lanes gather from {example.sectors} sectors.")


def _strided(step: int, item: int, array: object) -> Shape:
    shape: Sequence[int] = getattr(array, "shape", ())
    name = getattr(array, "name", "")
    far = f"{abs(step):,} bytes"
    if step % item == 0:
        far = f"{abs(step) // item:,} elements ({far})"
    stride, axis, along = item, None, ""
    for d in reversed(range(len(shape))):
        if abs(step) == stride and d < len(shape) - 1:
            axis, along = (
                d,
                f", one row of {name}," if len(shape) == 2 else f", axis {d} of {name},",
            )
        stride *= shape[d]
    alone = "each in a sector of its own" if abs(step) >= 32 else f"{32 / abs(step):.3g} a sector"
    return Shape("stride", f"Neighbouring lanes are {far} apart{along or ','} {alone}.", axis)


def _shared(access: Access, example: Example) -> Shape:
    active = example.active
    if not wasteful(access):
        if len(set(active)) == 1 and len(active) > 1:
            return Shape("broadcast", "All lanes read one word, a broadcast.")
        return Shape("free", "No bank conflict.")
    steps = {b - a for a, b in pairwise(active)}
    ways = f"{number(access.conflict)}-way bank conflict"
    if len(steps) == 1:
        words = abs(steps.pop()) / 4
        return Shape("conflict", f"{ways}: neighbouring lanes are {words:,.3g} words apart.")
    return Shape("conflict", f"{ways}: a bank is asked for several words at once.")
