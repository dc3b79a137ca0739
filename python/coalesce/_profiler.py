"""Taking a profile: a kernel runs on the simulator, which counts, and on a GPU where asked."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce import _arguments, _arrays, _devices, _geometry, _ncu, _rows, catalogue
from coalesce._arguments import HostArray
from coalesce._devices import Device
from coalesce._run import launched_by
from coalesce.profiling import ArrayInfo, Profile

if TYPE_CHECKING:
    from coalesce._geometry import Extent
    from coalesce.kernel import Kernel, LaunchRecord

_MODELLED = "modelled"
_OF_PTX = "counted on the PTX, before the GPU's assembler"


def of_operation(
    operation: str, arrays: Sequence[Any], device: Any, options: Mapping[str, Any]
) -> Profile:
    """Call the operation with its launches profiled; see `coalesce.profile`."""
    import coalesce

    catalogue.check_operation(operation)
    if "return_timing" in options:
        raise TypeError("profile takes no return_timing: a profile has the times")
    taken: list[Profile] = []

    def launch(
        kernel: Kernel,
        grid: Extent,
        block: Extent,
        arguments: Sequence[Any],
        *,
        shared_bytes: int,
        device: Device,
        operation: str,
        variant: str,
    ) -> LaunchRecord:
        title = f"{operation}, {'pattern' if operation == 'access' else 'variant'} {variant}"
        found, record = of_kernel(kernel, grid, block, arguments, shared_bytes, device, title)
        taken.append(found)
        return record

    with launched_by(launch):
        getattr(coalesce, operation)(*arrays, device=device, **options)
    if not taken:
        shapes = ", ".join(str(np.shape(array)) for array in arrays)
        raise ValueError(f"{operation} of arrays of shape {shapes} launches no kernel to profile")
    taken[-1].preparation = tuple(taken[:-1])
    return taken[-1]


def of_kernel(
    kernel: Kernel,
    grid: Any,
    block: Any,
    given: Sequence[Any],
    shared_bytes: Any,
    device: Any,
    title: str = "",
) -> tuple[Profile, LaunchRecord]:
    """Profile one launch; see `Kernel.profile`."""
    extents = _geometry.extent("grid", grid), _geometry.extent("block", block)
    _geometry.check_block(extents[1])
    shared = _geometry.shared(shared_bytes)
    chosen = _devices.resolve(device)
    on_gpu = chosen.kind == "cuda"
    # The simulator runs first, on copies: the GPU's launch is the one that the caller sees.
    simulated = [_on_host(value) for value in given] if on_gpu else given
    arguments = _arguments.prepare(kernel.signature, simulated)
    again = [_kept(*pair) for pair in zip(simulated, arguments, strict=True)]
    counted = kernel._simulate(chosen, *extents, shared, arguments, 1, counts=True)
    record = counted
    if on_gpu:
        record = kernel.launch(*extents, *given, shared_bytes=shared, device=chosen, runs="auto")
    counts = counted.counts
    source, instructions = _listing(kernel, counts)
    metrics = {**counts.metrics(), "gpu__time_duration.sum": 1e6 * counted.kernel_ms}
    inexact = {name: _OF_PTX for name in metrics if "inst_executed.sum" in name}
    inexact["gpu__time_duration.sum"] = _MODELLED
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
            for a in arguments
            if isinstance(a, HostArray)
        ],
        modelled_ms=counted.kernel_ms,
        measured_ms=record.kernel_ms if on_gpu else None,
        launch=_ncu.Launch(
            kernel.source,
            kernel._module.expression or kernel.entry,
            kernel.options,
            kernel._module.arch,
            dict(kernel.headers),
            *extents,
            shared,
            again,
        ),
    )
    return found, record


def _listing(kernel: Kernel, counts: Any) -> tuple[str, Sequence[_rows.Instruction]]:
    """Return the rows of the instructions and the text whose lines they name."""
    table, files, own = counts.table(), counts.files, counts.source_file
    source = kernel.source
    if kernel.is_ptx and table["line"].any():  # what the PTX was compiled from, if it is here
        source = "".join(linecache.getlines(files.get(own, "")))
    elif kernel.is_ptx:  # without line information its own lines are all there is
        table["line"] = table["ptx_line"]
    return source, _rows.instructions(table, files, own)


def _kept(value: Any, argument: _arguments.Argument) -> Any:
    """Return an argument as it is before the kernel runs, for another launch."""
    if isinstance(argument, HostArray):
        return argument.array.copy() if argument.written else argument.array
    return value


def _on_host(value: Any) -> Any:
    """Return a copy of an array in host memory; anything else as it is."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if _arrays.look(value) is not None:
        from coalesce.array import to_device

        return to_device(value).get()
    return value
