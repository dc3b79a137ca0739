"""Chooses a sample of a grid's blocks, and estimates the counts of the whole grid from it.

METHOD
For a sample of n blocks, the grid is divided into n ranges of consecutive blocks. One random block
of each range is simulated. So the sample has blocks from all parts of the grid (it is a stratified
sample). The random numbers are the same in every run.

The blocks of the sample are divided into 16 groups. The counts of each group give an estimate for
the grid. The more these estimates differ, the larger is the standard error of the result. This is
the method of random groups, with the correction for a finite population (K. M. Wolter, Introduction
to Variance Estimation, 2007, chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coalesce.common import require

_GROUPS = 16
_LEAST_BLOCKS = 2 * _GROUPS  # with fewer blocks, the standard errors would not be reliable


@dataclass(frozen=True)
class Estimate:
    """Estimates for the whole grid, from a sample of its blocks.

    Attributes
    ----------
    blocks_run, blocks_total : int
        How many blocks were simulated, and how many blocks the grid has.
    groups : list of Counts
        The counts of each group of blocks.
    sizes : list of int
        The number of blocks in each group.
    """

    blocks_run: int
    blocks_total: int
    groups: Sequence[Any] = field(repr=False)
    sizes: Sequence[int] = field(repr=False)

    @property
    def share(self) -> float:
        """The number of simulated blocks divided by the number of blocks in the grid."""
        return self.blocks_run / self.blocks_total

    @property
    def scale(self) -> float:
        """The number of blocks in the grid, divided by the number of blocks in the sample.

        A count of the sample, multiplied by this factor, is the estimate for the grid.
        """
        return self.blocks_total / self.blocks_run

    def error(self, figure: Callable[[Any], float]) -> float:
        """Return the standard error of an estimated number, such as the sectors of the whole grid.

        `figure` is a function that takes the `Counts` of some blocks, and returns the number for
        these blocks.
        """
        totals = [
            figure(counts) * self.blocks_total / size
            for counts, size in zip(self.groups, self.sizes, strict=True)
        ]
        spread = float(np.std(totals, ddof=1)) / math.sqrt(len(totals))
        return spread * math.sqrt(1 - self.share)

    def metrics(self, of_sample: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """Estimate the metrics of the whole grid from `of_sample`, the metrics of the sample.

        Return two dicts from names of metrics to numbers: the estimates, and their standard errors.
        A sum, such as the number of requests, is multiplied by `scale`. A ratio or a percentage is
        not multiplied.
        """
        of_groups = [counts.metrics() for counts in self.groups]
        metrics, errors = {}, {}
        for name, value in of_sample.items():
            scaled = name.endswith(".sum") or name.startswith("memory_")
            metrics[name] = round(value * self.scale) if scaled else value
            values = [group.get(name, 0.0) for group in of_groups]
            if scaled:
                values = [
                    v * self.blocks_total / size for v, size in zip(values, self.sizes, strict=True)
                ]
            spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
            errors[name] = spread * math.sqrt(1 - self.share)
        return metrics, errors


def choose(total: int, share: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Choose a sample of a grid's blocks.

    `total` is the number of blocks of the grid, and `share` is the fraction to choose, between 0
    and 1. Return two arrays of the same length. The first has the linear index of each chosen
    block. The second has the group of each chosen block, from 0 to 15. (The top of this file
    explains the groups.) If the grid is so small that all blocks must be simulated, return None.
    """
    share = require.number("sample", share)
    if not 0 < share < 1:
        raise ValueError(
            "`sample` is the share of the blocks to simulate. It must be above 0 and below 1; "
            f"got {share}. Without `sample`, all blocks are simulated, and the counts are exact."
        )
    count = max(_LEAST_BLOCKS, round(share * total))
    if count >= total:
        return None
    random = np.random.default_rng(2024)
    edges = np.arange(count + 1, dtype=np.int64) * total // count
    blocks = random.integers(edges[:-1], edges[1:])
    return blocks.astype(np.uint64), (np.arange(count) % _GROUPS).astype(np.uint32)
