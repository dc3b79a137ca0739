"""Finds regular steps in the addresses of a warp that contains several rows of its block.

A run is a sequence of neighbouring lanes. The distance from the address of each lane to the address
of the next lane is constant, such as 4 bytes. For example, a warp of a 4 x 4 x 4 block contains
eight rows of four lanes. The addresses of this warp often form eight runs of four lanes.

In a 5 x 3 x 7 block, a row has 5 lanes, and 32 is not a multiple of 5. So the first or the last row
of a warp is incomplete, and the runs have different lengths. In this case, the addresses are called
regular if they are a linear function of threadIdx.x, threadIdx.y and threadIdx.z.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

Thread = tuple[int, int, int]


class Runs(NamedTuple):
    """The runs of a warp: sequences of neighbouring lanes.

    `length` is the number of lanes of the longest run. `step` is the distance from the address of a
    lane to the address of the next lane in the same run, in bytes. All runs have the same step.
    `number` is the number of runs.
    """

    length: int
    step: int
    number: int


def runs_of(active: Sequence[int], threads: Sequence[Thread] | None = None) -> Runs | None:
    """Return the runs of the active lanes, or None if their addresses are not regular.

    A run is a sequence of neighbouring lanes. The distance from the address of each lane to the
    address of the next lane is constant.

    Parameters
    ----------
    active : sequence of int
        The address of each active lane.
    threads : sequence of (x, y, z), optional
        The threadIdx of each active lane.
    """
    return _even(active) or (_of_threads(active, threads) if threads else None)


def _even(active: Sequence[int]) -> Runs | None:
    """Return the runs if all have the same length and the same step, else None."""
    steps = [b - a for a, b in pairwise(active)]
    for length in range(len(active) // 2, 1, -1):
        if len(active) % length == 0:
            inside = {step for i, step in enumerate(steps) if (i + 1) % length}
            if len(inside) == 1 and _nested(active[::length]):
                return Runs(length, inside.pop(), len(active) // length)
    return None


def _nested(starts: Sequence[int]) -> bool:
    """Whether the start addresses of the runs have one common step, or form runs themselves."""
    return len({b - a for a, b in pairwise(starts)}) <= 1 or _even(starts) is not None


def _of_threads(active: Sequence[int], threads: Sequence[Thread]) -> Runs | None:
    """Return the rows of the block as runs if the addresses are regular, else None.

    They are regular if address = start + a * x + b * y + c * z in all lanes, with fixed a, b and c.
    """
    offsets = np.array(active, np.float64) - active[0]
    index = np.array(threads, np.float64)
    rows = Counter((y, z) for _, y, z in threads)
    if len(rows) <= 2:  # the two rows differ in y, in z, or in both: use one index for them
        index[:, 1] = np.any(index[:, 1:] != index[0, 1:], axis=1)
        index[:, 2] = 0
    varies = [axis for axis in range(3) if np.ptp(index[:, axis])]
    terms = np.column_stack([np.ones(len(active)), index[:, varies]])
    if 0 not in varies or len(active) <= terms.shape[1]:
        return None
    strides, _, rank, _ = np.linalg.lstsq(terms, offsets, rcond=None)
    strides = np.rint(strides)
    if rank < terms.shape[1] or np.any(terms @ strides != offsets):
        return None
    return Runs(max(rows.values()), int(strides[1]), len(rows))
