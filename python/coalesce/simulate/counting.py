"""Simulates a launch, counts what its accesses cost, and keeps some events as examples."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce._core import sim
from coalesce.common.progress import reporter
from coalesce.launch import arguments as launch_arguments
from coalesce.launch.modelled import Modelled
from coalesce.simulate import dependencies, remote, sampling
from coalesce.simulate.events import Trace, TraceArray
from coalesce.simulate.prepared import Prepared

Progress = bool | Callable[[int, int], object] | None


@dataclass(frozen=True)
class Counted:
    """The result of `count`.

    Attributes
    ----------
    counts : Counts
        Counts of the whole grid; with a sample, of the simulated blocks.
    arguments : list
        The arguments of the launch: packed scalars and `HostArray`.
    arrays : list of TraceArray
        The named memory.
    blocks_run, blocks_total : int
        The numbers of simulated blocks and of all blocks.
    exemplars : Trace or None
        Events of each memory instruction; None if the argument `exemplars` of `count` was 0.
    modelled : Modelled or None
        The modelled caches and time; None with a sample or an executor.
    estimate : Estimate or None
        With a sample, the estimates for the whole grid.
    """

    counts: sim.Counts
    arguments: list[launch_arguments.Argument]
    arrays: list[TraceArray]
    blocks_run: int
    blocks_total: int
    exemplars: Trace | None
    modelled: Modelled | None
    estimate: sampling.Estimate | None = None


def count(
    launch: Prepared,
    *,
    sample: float | None = None,
    executor: Executor | None = None,
    progress: Progress = None,
    exemplars: int = 0,
    caches: bool = False,
) -> Counted:
    """Simulate a launch and count what its memory accesses cost.

    Parameters
    ----------
    launch : Prepared
        The launch. Afterwards the NumPy arrays contain its results. GPU arrays were copied to the
        host and do not change.
    sample : float, optional
        The share of the blocks to run, above 0 and below 1, on copies of the arrays. The counts are
        then counts of the sample. At least a few dozen blocks are run; a small grid is run whole.
    executor : concurrent.futures.Executor, optional
        Runs ranges of blocks elsewhere, on copies of the arrays.
    progress : bool or callable, optional
        Whether to show a bar; or a function that is called with the numbers of finished and of all
        blocks. By default terminals and notebooks show a bar after two seconds.
    exemplars : int
        The number of events to keep of each memory instruction.
    caches : bool
        Whether to model the caches, if the whole grid is simulated in this process.
    """
    if sample is not None or executor is not None:
        dependencies.refuse(launch, "executor" if sample is None else "sample")
    chosen = None if sample is None else sampling.choose(launch.blocks, sample)
    result: Any
    with reporter(progress, launch.kernel.name) as report:
        if executor is not None:
            remote.check(executor)
            jobs = remote.ranges(launch.blocks, executor)
            if chosen is not None:
                jobs = [chosen[0][chosen[1] == group] for group in np.unique(chosen[1])]
            result = remote.run(launch, executor, jobs, exemplars, report)
        elif chosen is not None:
            launch = launch.detached()
            given: dict[str, Any] = {"blocks": chosen[0], "groups": chosen[1]}
            program = launch.program
            before = [(v[0], program.read_variable(v[0])) for v in program.variables()]
            try:
                result = launch.run(counts=True, exemplars=exemplars, progress=report, **given)
            finally:  # a sample must not change the module's variables
                for name, value in before:
                    program.write_variable(name, value)
        else:
            result = launch.run(counts=True, exemplars=exemplars, progress=report, caches=caches)
            launch.finish()
    assert result.counts is not None
    estimate = None
    if chosen is not None:
        blocks, groups = chosen
        sizes = np.bincount(groups).tolist()
        estimate = sampling.Estimate(len(blocks), launch.blocks, result.groups, sizes)
    return Counted(
        counts=result.counts,
        arguments=launch.arguments,
        arrays=launch.arrays(result.memory),
        blocks_run=launch.blocks if estimate is None else estimate.blocks_run,
        blocks_total=launch.blocks,
        exemplars=launch.trace(result) if exemplars else None,
        modelled=Modelled.of(result.model) if result.model and estimate is None else None,
        estimate=estimate,
    )
