"""Launches a kernel on the simulator, which writes the results into the arrays that were passed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coalesce._core import sim
from coalesce.common.progress import reporter
from coalesce.launch.arguments import Argument, HostArray
from coalesce.launch.modelled import Modelled
from coalesce.launch.record import LaunchRecord
from coalesce.launch.structures import PackedStructure
from coalesce.launch.tensor_map import TensorMap

if TYPE_CHECKING:
    from coalesce.launch.launch import Launch

Mask = np.ndarray[Any, np.dtype[np.bool_]]
# An argument that is not an array, in the form that the simulator needs (see `_scalar`).
Packed = bytes | tuple[int, bytes] | tuple[bytes, list[tuple[int, int]]]


def run(launch: Launch, runs: int | Literal["auto"] | None, counts: bool) -> LaunchRecord:
    """Run a kernel on the simulator, and return its counts and its modelled time.

    With `counts`, the simulator counts the memory accesses. If `runs` is not None, the simulator
    also models the time.
    """
    timed = runs is not None
    with reporter(None, launch.kernel.name) as report:
        result = simulate(launch, counts=counts or timed, caches=timed, progress=report)
    launch.finish()
    no_time = result.counts.not_modelled if timed and result.counts is not None else ""
    return LaunchRecord(
        kernel_ms=0.0 if not timed else math.nan if no_time else result.modelled_ms or 0.0,
        runs=1 if timed else 0,
        device=launch.device.name,
        counts=result.counts if counts or timed else None,
        modelled=Modelled.of(result.model) if timed and result.model else None,
        no_time=no_time,
    )


def simulate(
    launch: Launch,
    undefined: Mapping[int, Mask] | None = None,
    program: sim.SimulatedModule | None = None,
    entry: str = "",
    **options: Any,
) -> sim.LaunchResult:
    """Simulate a launch. The kernel writes its results into the arrays of the arguments.

    `undefined` is a dict from the position of an argument (0 for the first) to a mask. The mask has
    an element for each byte of the argument's array: True if this byte was never written.
    `program` is the program to run, if it is not the kernel's own, and `entry` is the name of the
    kernel in it. `options` are passed to ``SimulatedModule.launch``.
    """
    return (program or launch.program).launch(
        entry or launch.kernel.entry,
        launch,
        _packed(launch.arguments, undefined),
        **_options(launch, options),
    )


def step(
    launch: Launch,
    number: int,
    program: sim.SimulatedModule | None = None,
    entry: str = "",
    **options: Any,
) -> sim.Stepping:
    """Start to simulate one block, instruction by instruction.

    `number` is the linear index of the block in the grid. `program` and `entry` are the same as for
    `run`, and `options` are passed to ``SimulatedModule.step``. The methods of the result execute
    the instructions.
    """
    return (program or launch.program).step(
        entry or launch.kernel.entry,
        launch,
        _packed(launch.arguments),
        number,
        **_options(launch, options),
    )


def _options(launch: Launch, options: Mapping[str, Any]) -> dict[str, Any]:
    kernel = launch.kernel
    return {
        "instruction_limit": kernel.instruction_limit or 0,
        **kernel.module.model_options(launch.device, kernel.entry),
        **options,
    }


def _packed(
    arguments: Sequence[Argument], undefined: Mapping[int, Mask] | None = None
) -> list[sim.Buffer | Packed]:
    """Return the arguments in the form that the simulator in C++ needs."""
    masks = undefined or {}
    return [
        argument.packed(masks.get(number))
        if isinstance(argument, HostArray)
        else _scalar(argument, arguments)
        for number, argument in enumerate(arguments)
    ]


def _scalar(argument: Argument, arguments: Sequence[Argument]) -> Packed:
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
