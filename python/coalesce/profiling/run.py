"""Makes a profile: the simulator counts a kernel's accesses.

If the device is a GPU, this GPU also runs and times the kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import ops, printable
from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.arrays.pointer import Pointer, whole_of
from coalesce.arrays.texture import Texture
from coalesce.catalogue import table
from coalesce.common import require
from coalesce.common.dtypes import text_of
from coalesce.launch.arguments import HostArray, expanded
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord
from coalesce.launch.run import run as run_launch
from coalesce.launch.structures import PackedStructure, map_values
from coalesce.profiling.data import ArrayInfo, Results
from coalesce.profiling.hardware import exactness
from coalesce.profiling.result import Profile
from coalesce.profiling.rows import grouping
from coalesce.profiling.rows.machine_instructions import MachineInstruction, read
from coalesce.simulate import counting

if TYPE_CHECKING:
    from coalesce.launch.loaded import LoadedKernel

# The number of example events for each instruction. The examples come from nine warps. From each
# warp, seven executions of the instruction are taken: the first four (0 to 3), and then those with
# the numbers 4, 8 and 16.
_EXAMPLES = 9 * 7
_MODELLED = "modelled"
_OF_PTX = "counted on the PTX, before the GPU's assembler merges and drops instructions"


@dataclass(frozen=True)
class ProfileSettings:
    """The settings of a profile. See `coalesce.profile`."""

    executor: Executor | None = None
    progress: counting.Progress = None
    caches: bool = True

    def __post_init__(self) -> None:
        require.flag("caches", self.caches)


def of_operation(
    operation: str,
    arrays: Sequence[Any],
    device: Any,
    options: Mapping[str, Any],
    settings: ProfileSettings,
) -> Profile:
    """Run an operation and profile its launches. See `coalesce.profile`."""
    definition = table.operation(operation)
    if "return_timing" in options:
        raise TypeError(
            "profile() has no option `return_timing`; the times are attributes of the profile: "
            "`measured_ms` and `modelled_ms`"
        )
    taken: list[Profile] = []
    own: list[Profile] = []

    def launcher(launch: Launch, variant: ops.Variant) -> LaunchRecord:
        is_own = variant.operation == definition.name
        # An operation may launch other kernels before its own kernel, to prepare the operands that
        # its kernel reads. These operands must be complete. So the other kernels are simulated in
        # this process.
        how = settings if is_own else replace(settings, executor=None)
        title = table.title_of(variant.operation, variant.name)
        profile, record = of_launch(launch.on_host(), how, title)
        taken.append(profile)
        if is_own:
            own.append(profile)
        return record

    definition.launch_with(launcher, arrays, options, device, "profile")
    own[-1].preparation = tuple(profile for profile in taken if profile is not own[-1])
    return own[-1]


def of_launch(
    launch: Launch, settings: ProfileSettings, title: str = ""
) -> tuple[Profile, LaunchRecord]:
    """Profile a launch whose arrays are on the host.

    Return the profile, and the times of the launch. If the device is a GPU, the kernel is simulated
    and then launched on the GPU, with the arguments that the user passed. `settings` are those of
    `coalesce.profile`, and `title` is the title of the report.
    """
    kernel = launch.kernel
    on_gpu = launch.device.kind == "cuda" and launch.passed is not None
    again = None
    if launch.passed is not None and devices.gpu_status():
        again = _repeated_launch(launch, launch.passed)
    counted = counting.count(
        # If the kernel also runs on a GPU, the caller's arrays must get the GPU's results. So the
        # simulator uses copies of the arrays for counting.
        launch.detached() if on_gpu else launch,
        executor=settings.executor,
        progress=settings.progress,
        exemplars=_EXAMPLES,
        caches=settings.caches,
    )
    record = _record(counted, launch.device)
    if on_gpu and launch.passed is not None:
        record = run_launch(launch.bind(launch.passed, launch.device), "auto")
    # The results are computed when they are first used. Until then, the profile must not keep the
    # caller's arrays in memory.
    results = functools.partial(_results, replace(launch, passed=None, arguments=()), counted)
    profile = Profile(
        kernel=kernel.name,
        title=title,
        source=_source(kernel, counted),
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        registers=kernel.module.model_options(launch.device, kernel.entry)["registers"],
        device=launch.device,
        results=results,
        arrays=[
            ArrayInfo(a.name, a.original.shape, text_of(a.original.dtype))
            for a in launch.arguments
            if isinstance(a, HostArray)
        ],
        modelled=counted.modelled,
        not_modelled=counted.counts.not_modelled,
        measured_ms=record.kernel_ms if on_gpu else None,
        launch=again,
    )
    return profile, record


def _results(launch: Launch, counted: counting.Counted) -> Results:
    """Return the metrics and the instructions of a profile."""
    metrics, inexact = _metrics(launch, counted)
    return Results(
        metrics={name: _whole(value) for name, value in metrics.items()},
        inexact={name: why for name, why in inexact.items() if name in metrics},
        instructions=_instructions(launch, counted),
        code=_code(launch, counted),
        flops={dtype: int(number) for dtype, number in counted.counts.flops().items()},
    )


def _code(launch: Launch, counted: counting.Counted) -> tuple[MachineInstruction, ...]:
    listing = launch.kernel.module.disassembly(launch.device)
    if not counted.counts.machine_code or listing is None:
        return ()
    return read(listing(), launch.kernel.entry)


def _metrics(launch: Launch, counted: counting.Counted) -> tuple[dict[str, float], dict[str, str]]:
    """Return the metrics, and why some of them are not exact."""
    counts = counted.counts
    metrics: dict[str, float] = counts.metrics()
    if counts.machine_code:
        inexact = exactness.inexact(counted.table(), metrics)
    else:
        why = launch.program.why_ptx(launch.kernel.entry)
        # The counts of the PTX differ from those of a GPU for two reasons. The assembler merges and
        # drops accesses, also to global memory. And a GPU also counts the accesses of code that is
        # not in the PTX, such as the code of printf.
        inexact = dict.fromkeys(metrics, f"{_OF_PTX}: {why}" if why else _OF_PTX)
    if math.prod(launch.grid) * math.prod(launch.block) > 32:  # there are several warps
        for space in launch.program.spaces_ordered_by_atomics(launch.kernel.entry):
            inexact = exactness.order_dependent(metrics, space) | inexact
    if missing := counts.not_counted:
        inexact = dict.fromkeys(metrics, missing)
    if counted.modelled is not None:
        of_caches = counted.modelled.metrics()
        metrics = {**metrics, **of_caches}
        inexact |= dict.fromkeys(of_caches, _MODELLED)
    return metrics, inexact


def _whole(value: float) -> float:
    """Return a float that is a whole number as an int, which is printed without decimals."""
    return int(value) if float(value).is_integer() else value


def _source(kernel: LoadedKernel, counted: counting.Counted) -> str:
    """Return the source text. If a PTX kernel names its CUDA C++ file, it is the text of this file.

    Line numbers of the profile refer to this text.
    """
    if kernel.is_ptx and counted.has_lines:
        file = counted.counts.files.get(counted.counts.source_file, "")
        return "\n".join(kernel.module.lines_of(file))
    return printable(kernel.source)


def _instructions(launch: Launch, counted: counting.Counted) -> grouping.Instructions:
    kernel, counts, table = launch.kernel, counted.counts, counted.table()
    if kernel.is_ptx and not counted.has_lines:  # show the lines of the PTX
        table = {**table, "line": table["ptx_line"]}
    widths: dict[int, int] = {}
    if counts.machine_code:  # take the widths of accesses from the PTX
        ptx = launch.ptx.table()
        widths = dict(zip(ptx["ptx_line"].tolist(), ptx["width"].tolist(), strict=True))
    return grouping.Instructions(
        table,
        counts.files,
        counts.source_file,
        [parameter.name for parameter in kernel.signature.parameters],
        counted.exemplars,
        widths,
        {file for file in counts.files.values() if kernel.module.may_show(file)},
    )


def _record(counted: counting.Counted, device: Device) -> LaunchRecord:
    no_time = counted.counts.not_modelled
    modelled_ms = 0.0 if counted.modelled is None else counted.modelled.ms
    if no_time:
        modelled_ms = math.nan
    return LaunchRecord(modelled_ms, runs=1, device=device.name, no_time=no_time)


def _repeated_launch(launch: Launch, passed: Sequence[Any]) -> Launch:
    """Return the same launch for Nsight Compute, which runs it after this launch.

    If the kernel reads and writes an array, this launch changes what the next one reads. So such an
    array is copied. The other arrays need no copy.
    """
    kernel, ptx = launch.kernel, launch.ptx.table()
    reads = ~np.isin(ptx["kind"], ("", "store", "tma_store"))
    read = set(ptx["parameter"][reads & np.isin(ptx["space"], ("global", "generic"))].tolist())
    values = expanded(kernel.signature, passed)
    arguments = launch.arguments[: len(values)]  # the arrays behind pointers in structures follow
    repeated = [
        map_values(value, _copied)
        if isinstance(argument, PackedStructure)
        else value
        if not isinstance(argument, HostArray)
        else _repeated(value, argument, copied=argument.written and bool(read & {number, -1}))
        for number, (value, argument) in enumerate(zip(values, arguments, strict=True))
    ]
    return replace(launch, passed=repeated, arguments=())


def _copied(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    found = whole_of(value) if value.flags.c_contiguous else None
    if found is None:
        return value.copy()
    whole, offset = found
    return Pointer(whole.copy(), offset // whole.itemsize)


def _repeated(value: Any, argument: HostArray, copied: bool) -> Any:
    """Return the argument that passes the same array, pointer or texture to a later launch."""
    array = argument.array.copy() if copied else argument.array
    if isinstance(value, Texture):
        return replace(value, array=array)
    if not argument.offset and whole_of(array) is None:
        return array
    return Pointer(array, argument.offset // array.itemsize)  # not the base of `array`
