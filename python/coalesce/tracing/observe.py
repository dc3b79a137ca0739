"""Passes the memory events of a kernel to the caller's function, while the kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coalesce.common import geometry, progress, require
from coalesce.launch.launch import Launch
from coalesce.launch.simulated import simulate
from coalesce.simulate import dependencies
from coalesce.simulate.events import Trace
from coalesce.simulate.recorded import trace_of
from coalesce.tracing import run as tracing_run


def observe(
    launch: Launch,
    wanted: tracing_run.Selection,
    callback: Callable[[Trace], object],
    batch: int,
) -> int:
    """Run a launch and pass its events to `callback`. See `Kernel.observe`.

    The blocks run in groups. A group has about as many events as one batch. After each group, its
    events are passed to `callback`. If the blocks may communicate, they are all in one group: all
    blocks run before `callback` gets the first events.
    """
    if not callable(callback):
        raise TypeError(
            f"`callback` must be a function that takes a Trace; got {type(callback).__name__}"
        )
    batch = require.whole("batch", batch, 1, 2**31 - 1)
    if wanted.blocks is None:
        blocks = np.arange(launch.blocks, dtype=np.uint64)
    else:
        blocks = geometry.block_numbers(wanted.blocks, launch.grid)
        launch = launch.detached()
    together = launch.cooperative
    recording = tracing_run.recording(launch, wanted, blocks if together else None)
    at_once = len(blocks) if together or dependencies.may_communicate(launch) else 1
    start = passed_on = 0
    with progress.reporter(wanted.progress, launch.kernel.name) as report:
        while start < len(blocks):
            part = blocks[start : start + at_once]
            trace = _events(launch, part, recording)
            for first in range(0, len(trace), batch):
                callback(trace[first : first + batch])
            passed_on += len(trace)
            start += len(part)
            if report is not None:
                report(start, len(blocks))
            fitting = len(part) * batch // len(trace) if len(trace) else 2 * at_once
            at_once = max(1, min(fitting, 4 * at_once))
    launch.finish()
    return passed_on


def _events(launch: Launch, blocks: Any, recording: Any) -> Trace:
    chosen = None if launch.cooperative else blocks
    return trace_of(launch, simulate(launch, blocks=chosen, record=recording))
