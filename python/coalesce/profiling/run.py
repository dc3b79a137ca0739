"""Taking a profile: a kernel runs on the simulator, which counts, and on a GPU where asked."""

from __future__ import annotations

import linecache
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.catalogue import table
from coalesce.common import checks, geometry
from coalesce.launch.arguments import HostArray, expanded, names, prepare
from coalesce.launch.record import LaunchRecord
from coalesce.profiling import ArrayInfo, Profile, atomics, exactness, examples, ncu, rows
from coalesce.simulate import counting

if TYPE_CHECKING:
    from coalesce.common.geometry import Extent
    from coalesce.launch.kernel import BaseKernel

# Of each instruction: of nine warps the first four executions, and those at powers of two after.
_EXAMPLES = 9 * 7
_MODELLED = "modelled"
_OF_PTX = "counted on the PTX, before the GPU's assembler merges and drops instructions"


@dataclass(frozen=True)
class Settings:
    """How to count; see `coalesce.profile`."""

    sample: float | None = None
    executor: Executor | None = None
    progress: counting.Progress = None
    caches: bool = True

    def __post_init__(self) -> None:
        checks.flag("caches", self.caches)


def of_operation(
    operation: str,
    arrays: Sequence[Any],
    device: Any,
    options: Mapping[str, Any],
    settings: Settings,
) -> Profile:
    """Call the operation with its launches profiled; see `coalesce.profile`."""
    asked = table.operation(operation)
    if "return_timing" in options:
        raise TypeError("profile takes no return_timing: a profile has the times")
    taken: list[Profile] = []

    def launch(
        kernel: BaseKernel,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Any],
        *,
        shared_bytes: int,
        device: Device,
        operation: str,
        variant: str,
    ) -> LaunchRecord:
        # What comes before is run whole and here: the kernel reads what it made.
        how = settings if operation == asked.name else replace(settings, sample=None, executor=None)
        title = table.title_of(operation, variant)
        found, record = of_kernel(kernel, grid, block, arguments, shared_bytes, device, how, title)
        taken.append(found)
        return record

    asked.run(arrays, options, device=device, launcher=launch)
    if not taken:
        shapes = ", ".join(str(np.shape(array)) for array in arrays)
        raise ValueError(f"{operation} of arrays of shape {shapes} launches no kernel to profile")
    taken[-1].preparation = tuple(taken[:-1])
    return taken[-1]


def of_kernel(
    kernel: BaseKernel,
    grid: Any,
    block: Any,
    given: Sequence[Any],
    shared_bytes: Any,
    device: Any,
    settings: Settings,
    title: str = "",
) -> tuple[Profile, LaunchRecord]:
    """Profile one launch; see `Kernel.profile`."""
    extents = geometry.extent("grid", grid), geometry.extent("block", block)
    geometry.check_block(extents[1])
    shared = geometry.shared(shared_bytes)
    chosen = devices.resolve(device)
    on_gpu = chosen.kind == "cuda"
    # The simulator runs first, on copies: the GPU's launch is the one that the caller sees.
    given = expanded(kernel.signature, given)
    simulated = _copies(given) if on_gpu else given
    again = _kept(kernel, simulated)
    counted = counting.count(
        kernel,
        *extents,
        simulated,
        shared_bytes=shared,
        device=chosen,
        sample=settings.sample,
        executor=settings.executor,
        progress=settings.progress,
        exemplars=_EXAMPLES,
        caches=settings.caches,
    )
    record = _record(counted, chosen)
    if on_gpu:
        record = kernel.launch(*extents, *given, shared_bytes=shared, device=chosen, runs="auto")
    counts = counted.counts
    source, instructions = _listing(kernel, counted, chosen)
    metrics: Mapping[str, float] = counts.metrics()
    errors: Mapping[str, float] = {}
    of_instructions = ("smsp__inst_executed", "smsp__thread_inst_executed")
    if exactness.is_machine_code(counts):
        inexact = exactness.inexact(counts)
    else:
        why = kernel._program(chosen).why_ptx(kernel.entry)
        why = f"{_OF_PTX}: {why}" if why else _OF_PTX
        inexact = {
            name: why for name in metrics if name.startswith(of_instructions) or "shared" in name
        }
    if math.prod(extents[0]) * math.prod(extents[1]) > 32:  # several warps
        ptx = kernel._program(chosen).no_counts(kernel.entry, of_ptx=True).table()
        text = kernel._module.compiled(chosen).ptx
        for space in atomics.spaces(ptx, text):
            inexact = exactness.ordered(metrics, space) | inexact
    if counted.estimate is not None:
        metrics, errors = counted.estimate.metrics(metrics)
        why = f"estimated from {counted.estimate.share:.1%} of the blocks"
        inexact = dict.fromkeys(metrics, why)
    if counted.modelled is not None:
        modelled = counted.modelled.metrics()
        metrics = {**metrics, **modelled}
        inexact |= dict.fromkeys(modelled, _MODELLED)
    found = Profile(
        kernel=kernel.name,
        title=title,
        source=source,
        grid=extents[0],
        block=extents[1],
        shared_bytes=shared,
        device=chosen,
        metrics=metrics,
        inexact=inexact,
        instructions=instructions,
        arrays=[
            ArrayInfo(a.name, a.given.shape, str(a.given.dtype))
            for a in counted.arguments
            if isinstance(a, HostArray)
        ],
        modelled=counted.modelled,
        measured_ms=record.kernel_ms if on_gpu else None,
        estimate=counted.estimate,
        errors=errors,
        launch=ncu.Launch(
            kernel.source,
            kernel._expression or kernel.entry,
            kernel.options,
            kernel._module.arch,
            dict(kernel.headers),
            *extents,
            shared,
            again,
        ),
    )
    return found, record


def _listing(
    kernel: BaseKernel, counted: counting.Counted, device: Device
) -> tuple[str, Sequence[rows.Instruction]]:
    """Return the rows of the instructions and the text whose lines they name."""
    counts = counted.counts
    table, files, own = counts.table(), counts.files, counts.source_file
    source = kernel.source
    if kernel.is_ptx and table["line"].any():  # what the PTX was compiled from, if it is here
        source = "".join(linecache.getlines(files.get(own, "")))
    elif kernel.is_ptx:  # without line information its own lines are all there is
        table["line"] = table["ptx_line"]
    found = {} if counted.exemplars is None else examples.examples(counted.exemplars)
    parameters = [parameter.name for parameter in kernel.signature.parameters]
    scale = 1.0 if counted.estimate is None else counted.estimate.scale
    widths: dict[int, int] = {}
    if exactness.is_machine_code(counts):  # set it beside the PTX
        ptx = kernel._program(device).no_counts(kernel.entry, of_ptx=True).table()
        widths = dict(zip(ptx["ptx_line"].tolist(), ptx["width"].tolist(), strict=True))
    return source, rows.instructions(table, files, own, parameters, found, scale, widths)


def _record(counted: counting.Counted, device: Device) -> LaunchRecord:
    modelled_ms = 0.0 if counted.modelled is None else counted.modelled.ms
    return LaunchRecord(modelled_ms, 0.0, 1, 0.0, 0.0, "modelled", device.name)


def _kept(kernel: BaseKernel, given: Sequence[Any]) -> list[Any]:
    """Return the arguments as they are before the kernel runs, for another launch."""
    called = names(kernel.signature, given)
    on_host = [counting.on_host(v, name) for v, name in zip(given, called, strict=True)]
    arguments = prepare(kernel.signature, on_host)
    return [
        (a.array.copy() if a.written else a.array) if isinstance(a, HostArray) else value
        for value, a in zip(on_host, arguments, strict=True)
    ]


def _copies(given: Sequence[Any]) -> list[Any]:
    """Return the arguments with copies of the arrays, in host memory; of one array one copy."""
    made: dict[int, Any] = {}
    for value in given:
        if id(value) not in made:
            is_host = isinstance(value, np.ndarray)
            made[id(value)] = value.copy() if is_host else counting.on_host(value)
    return [made[id(value)] for value in given]
