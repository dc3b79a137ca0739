"""Records a trace: the simulator runs a kernel and records its memory accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce._core import ops, sim
from coalesce.catalogue import table
from coalesce.common import geometry, require, words
from coalesce.common.errors import InstructionLimit, LaunchError
from coalesce.common.progress import reporter
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord
from coalesce.launch.run import run
from coalesce.launch.simulated import simulate
from coalesce.simulate import counting, dependencies
from coalesce.simulate.events import Trace
from coalesce.simulate.recorded import trace_of

# The most warp instructions that chosen blocks may execute, if one of them may wait for another
# block. The other block does not run, so the wait would never end.
WAITING_LIMIT = 1_000_000_000


@dataclass(frozen=True)
class Selection:
    """The choice of the events to record: blocks, warps, lines and a limit. See `Kernel.trace`."""

    blocks: Any = None
    warps: Any = None
    lines: Any = None
    limit: int | None = 100_000
    progress: counting.Progress = None


def of_operation(
    operation: str,
    arrays: Sequence[Any],
    device: Any,
    options: Mapping[str, Any],
    wanted: Selection,
) -> Trace:
    """Run an operation and trace its kernel. See `coalesce.trace`."""
    for name in ("out", "return_timing"):
        if name in options:
            raise TypeError(
                f"trace() has no option `{name}`, because it returns the events of the kernel, not "
                "the result"
            )
    taken: list[Trace] = []
    definition = table.operation(operation)

    def launcher(launch: Launch, variant: ops.Variant) -> LaunchRecord:
        if variant.operation != definition.name:  # this kernel prepares operands: it only runs
            return run(launch)
        taken.append(of_launch(launch.on_host(), wanted))
        return LaunchRecord(device=launch.device.name)

    definition.launch_with(launcher, arrays, options, device, "trace")
    return taken[-1]


def of_launch(launch: Launch, wanted: Selection) -> Trace:
    """Trace one launch. See `Kernel.trace`."""
    blocks = None
    if wanted.blocks is not None:
        blocks = geometry.block_numbers(wanted.blocks, launch.grid)
        launch = launch.detached()
    record = recording(launch, wanted)
    if launch.cooperative and blocks is not None:  # run all blocks, record some of them
        record = recording(launch, wanted, blocks)
        blocks = None
    with reporter(wanted.progress, launch.kernel.name) as report:
        execute = simulate if blocks is None else run_chosen
        result = execute(launch, blocks=blocks, record=record, progress=report)
    launch.finish()
    return trace_of(launch, result)


def run_chosen(launch: Launch, **options: Any) -> sim.LaunchResult:
    """Run only some blocks of a launch.

    One of these blocks may wait for a block that does not run. Then LaunchError is raised after
    `WAITING_LIMIT` warp instructions, or after the kernel's own `instruction_limit`.
    """
    if launch.kernel.instruction_limit or not dependencies.may_communicate(launch):
        return simulate(launch, **options)
    try:
        return simulate(launch, instruction_limit=WAITING_LIMIT, **options)
    except InstructionLimit as error:
        raise LaunchError(
            f"{error}. Perhaps a chosen block waits for a block that does not run"
        ) from None


def recording(launch: Launch, wanted: Selection, blocks: Any = None) -> sim.Recording:
    """Check the selection `wanted`, and convert it to an object for the simulator.

    If `blocks` is passed, only the events of these blocks are recorded, although all blocks run.
    """
    limit = require.limit("limit", wanted.limit, "events")
    warps = lines = None
    if wanted.warps is not None:
        warps = _whole("warps", wanted.warps)
        for warp in warps:
            if not 0 <= warp < launch.warps:
                known = words.numbers_of("a block's", "warp", launch.warps)
                raise ValueError(f"`warps`: there is no warp {warp}; {known}")
    if wanted.lines is not None:
        lines = _whole("lines", wanted.lines)
        there = _lines_of_accesses(launch)
        if not set(lines) & set(there):
            known = f"{launch.kernel.name} accesses memory on lines {', '.join(map(str, there))}"
            if not there:
                known = "the PTX does not contain the source lines of its instructions"
            raise ValueError(
                f"`lines`: there is no memory instruction on line{'s' * (len(lines) != 1)} "
                f"{', '.join(map(str, lines))}; {known}"
            )
    return sim.Recording(blocks=blocks, warps=warps, lines=lines, limit=limit)


def _lines_of_accesses(launch: Launch) -> list[int]:
    """Return the lines of the kernel's own file that access memory."""
    listing = launch.ptx
    table = listing.table()
    rows = (table["kind"] != "") & (table["line"] > 0) & (table["file"] == listing.source_file)
    return [int(line) for line in np.unique(table["line"][rows])]


def _whole(name: str, value: Any) -> list[int]:
    """Return an int or a sequence of ints as a list."""
    items = [require.integer(name, item) for item in require.one_or_several(name, value)]
    if not items:
        raise ValueError(
            f"`{name}` is empty; pass at least one number, or leave out `{name}` to record all"
        )
    return items
