"""Simulates a launch, and counts what its memory accesses cost.

It also keeps some of the accesses as examples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce._core import sim
from coalesce.common.progress import reporter
from coalesce.launch.launch import Launch
from coalesce.launch.modelled import Modelled
from coalesce.launch.simulated import simulate
from coalesce.simulate import dependencies, recorded, remote
from coalesce.simulate.events import Trace

Progress = bool | Callable[[int, int], object] | None


@dataclass(frozen=True)
class Counted:
    """The result of `count`.

    Attributes
    ----------
    counts : Counts
        The counts of the whole grid.
    table : callable
        Returns the counts of each instruction: ``counts.table()``. It is computed once, by the
        first call.
    exemplars : Trace or None
        Some executions of each memory instruction, as examples. None if `count` was called with
        ``exemplars=0``.
    modelled : Modelled or None
        The modelled time and caches. None with an executor.
    """

    counts: sim.Counts
    table: Callable[[], dict[str, np.ndarray[Any, Any]]]
    exemplars: Trace | None
    modelled: Modelled | None

    @property
    def has_lines(self) -> bool:
        """Whether lines of CUDA source are known."""
        return bool(self.table()["line"].any())


def count(
    launch: Launch,
    *,
    executor: Executor | None = None,
    progress: Progress = None,
    exemplars: int = 0,
    caches: bool = False,
) -> Counted:
    """Simulate a launch, and count what its memory accesses cost.

    Without an executor, the NumPy arrays of the launch contain its results
    afterwards. GPU arrays do not change, because the simulator uses copies of them.

    Parameters
    ----------
    launch : Launch
        The launch.
    executor : concurrent.futures.Executor, optional
        Simulates the blocks in other processes, on copies of the arrays.
    progress : bool or callable, optional
        True shows a progress bar, and False shows nothing. A function is called with two numbers:
        how many blocks are finished, and how many there are. By default, terminals and notebooks
        show a bar after two seconds.
    exemplars : int
        How many executions of each memory instruction to keep as examples.
    caches : bool
        Whether to model the caches. This is possible only without `executor`.
    """
    if executor is not None:
        dependencies.require_independent_blocks(launch)
    result: Any
    with reporter(progress, launch.kernel.name) as report:
        if executor is not None:
            remote.check_executor(executor)
            result = remote.run(launch, executor, exemplars, report)
        else:
            result = simulate(
                launch, counts=True, exemplars=exemplars, progress=report, caches=caches
            )
            launch.finish()
    assert result.counts is not None
    table = functools.cache(result.counts.table)
    return Counted(
        counts=result.counts,
        table=table,
        exemplars=recorded.trace_of(launch, result, table) if exemplars else None,
        modelled=Modelled.of(result.model) if result.model else None,
    )
