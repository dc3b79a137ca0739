"""Samples of a grid's blocks, and estimates of the whole grid's counts with their errors.

METHOD
For a sample of n blocks, the grid is divided into n ranges of consecutive blocks, and one random
block of each range is run. So the sample has blocks from all parts of the grid (a stratified
sample). The blocks of the sample are divided into a few groups, and each group gives an estimate of
its own. The standard error of the result is computed from the differences between these estimates.
This is the method of random groups, with the correction for a finite population (K. M. Wolter,
Introduction to Variance Estimation, 2007, chapter 2). Every run chooses the same blocks.
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
        The numbers of simulated blocks and of all blocks.
    groups : list of Counts
        Counts of each group of blocks.
    sizes : list of int
        The number of blocks of each group.
    """

    blocks_run: int
    blocks_total: int
    groups: Sequence[Any] = field(repr=False)
    sizes: Sequence[int] = field(repr=False)

    @property
    def share(self) -> float:
        """Blocks run / blocks of the grid."""
        return self.blocks_run / self.blocks_total

    @property
    def scale(self) -> float:
        """The factor from counts of the sample to counts of the grid."""
        return self.blocks_total / self.blocks_run

    def error(self, figure: Callable[[Any], float]) -> float:
        """Return the standard error of an estimate. `figure` computes the estimate from Counts."""
        totals = [
            figure(counts) * self.blocks_total / size
            for counts, size in zip(self.groups, self.sizes, strict=True)
        ]
        spread = float(np.std(totals, ddof=1)) / math.sqrt(len(totals))
        return spread * math.sqrt(1 - self.share)

    def metrics(self, of_sample: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
        """Return the metrics of the whole grid and their errors, from the metrics of the sample.

        Sums are scaled up; ratios and percentages are not.
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
    """Choose which of the `total` blocks of a grid to run, and divide them into groups.

    Returns the blocks' indices and the group of each; see the top of this file. Returns None if the
    grid is so small that all of its blocks are run.
    """
    share = require.number("sample", share)
    if not 0 < share < 1:
        raise ValueError(
            f"sample must be a share of the blocks, above 0 and below 1; got {share}. "
            "Without a sample all blocks are run and the counts are exact."
        )
    count = max(_LEAST_BLOCKS, round(share * total))
    if count >= total:
        return None
    random = np.random.default_rng(2024)
    edges = np.arange(count + 1, dtype=np.int64) * total // count
    blocks = random.integers(edges[:-1], edges[1:])
    return blocks.astype(np.uint64), (np.arange(count) % _GROUPS).astype(np.uint32)
