"""Launches a kernel on the simulator, which writes the results into the arrays that were passed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coalesce._core import sim
from coalesce.arrays import simulated_memory
from coalesce.arrays.devices import Device
from coalesce.arrays.gpu_array import GpuArray
from coalesce.common.geometry import Extent
from coalesce.common.progress import reporter
from coalesce.cxx.signature import Parameter
from coalesce.launch.arguments import Argument, HostArray
from coalesce.launch.modelled import Modelled
from coalesce.launch.record import LaunchRecord
from coalesce.launch.structures import PackedStructure
from coalesce.launch.tensor_map import TensorMap

if TYPE_CHECKING:
    from coalesce.launch.module import Module

# An argument that is not an array, in the form that the simulator needs (see `scalar`).
Packed = bytes | tuple[int, bytes] | tuple[bytes, list[tuple[int, int]]]


def run(
    module: Module,
    entry: str,
    name: str,
    device: Device,
    grid: Extent,
    block: Extent,
    shared: int,
    arguments: Sequence[Argument],
    runs: int | Literal["auto"] | None,
    counts: bool,
    instruction_limit: int | None,
    cooperative: bool = False,
) -> LaunchRecord:
    """Run a kernel on the simulator, and return its counts and its modelled time.

    `entry` is the kernel's name in the PTX, and `name` is its name in the progress bar. With
    `counts`, the simulator counts the memory accesses. If `runs` is not None, the simulator also
    models the time. `arguments` is the result of `prepare` in arguments.py. For the other
    parameters, see `coalesce.Kernel.launch`.
    """
    timed = runs is not None
    program = module.program(device)
    with reporter(None, name) as report:
        result = program.launch(
            entry,
            grid,
            block,
            shared,
            packed(arguments),
            counts=counts or timed,
            caches=timed,
            instruction_limit=instruction_limit or 0,
            progress=report,
            cooperative=cooperative,
            **module.model_options(device, entry),
        )
    for argument in arguments:
        if isinstance(argument, HostArray):
            argument.finish()
    no_time = result.counts.not_modelled if timed and result.counts is not None else ""
    return LaunchRecord(
        kernel_ms=0.0 if not timed else math.nan if no_time else result.modelled_ms or 0.0,
        spread=0.0,
        runs=1 if timed else 0,
        h2d_ms=0.0,
        d2h_ms=0.0,
        source="modelled",
        device=device.name,
        counts=result.counts if counts or timed else None,
        modelled=Modelled.of(result.model) if timed and result.model else None,
        no_time=no_time,
    )


def packed(
    arguments: Sequence[Argument],
    undefined: Mapping[int, np.ndarray[Any, np.dtype[np.bool_]]] | None = None,
) -> list[sim.Buffer | Packed]:
    """Return the arguments in the form that the simulator in C++ needs.

    `undefined` is a dict from the position of an argument (0 for the first) to a mask. The mask has
    a bool for each byte of this argument's array: True if the byte was never written.
    """
    masks = undefined or {}
    return [
        argument.packed(masks.get(number))
        if isinstance(argument, HostArray)
        else scalar(argument, arguments)
        for number, argument in enumerate(arguments)
    ]


def scalar(argument: Argument, arguments: Sequence[Argument]) -> Packed:
    """Return an argument that is not an array, in the form that the simulator in C++ needs.

    In this form, an array is named by its position in `arguments` (0 for the first).

    - A scalar becomes bytes.
    - A tensor map becomes a pair: the position of the array that it describes, and the map as
      bytes.
    - A structure with pointers becomes a pair: the bytes of the structure, and a list with an
      (offset, array) pair for each pointer. `offset` is the pointer's offset in the structure, and
      `array` is the position of the array to which it points.
    """
    if isinstance(argument, PackedStructure):
        return argument.packed, list(argument.pointers)
    if isinstance(argument, TensorMap):
        names = [a.name if isinstance(a, HostArray) else None for a in arguments]
        return names.index(argument.of), argument.simulated()
    assert isinstance(argument, bytes)
    return argument


def check_places(
    parameters: Sequence[Parameter], arguments: Sequence[Argument], device: Device
) -> None:
    """Raise ValueError if an argument is an array in the memory of a device other than `device`.

    `parameters` and `arguments` have the same order. The message names the parameter.
    """
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(argument, GpuArray) and device.kind == "sim":
            raise ValueError(
                f"argument {parameter} is a GPU array, but the kernel runs on {device.name}, which "
                "cannot use GPU memory; copy it to a NumPy array first"
            )
        place = device_of([argument])
        if place is not None and place != device.name:
            raise ValueError(
                f"argument {parameter} is an array in the memory of {place}, but the kernel runs "
                f"on {device.name}; copy it: coalesce.asarray({parameter.name}, "
                f'device="{device.name}")'
            )


def device_of(arguments: Sequence[Argument]) -> str | None:
    """Return the name of the simulated GPU whose memory holds an argument, such as "sim:h200".

    If several arguments are in the memory of simulated GPUs, return the GPU of the first of these
    arguments. If there are none, return None.
    """
    for argument in arguments:
        if isinstance(argument, HostArray) and (
            place := simulated_memory.memory_of(argument.original)
        ):
            return place[0].device
    return None
