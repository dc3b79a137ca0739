"""A launch on the simulator with its arguments checked, ready to be run and observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import sim
from coalesce.arrays import devices, foreign
from coalesce.arrays.creation import to_device
from coalesce.common import geometry, require
from coalesce.common.errors import DeviceUnavailable
from coalesce.common.memory import ArrayCopies
from coalesce.launch import arguments as launch_arguments
from coalesce.launch.arguments import HostArray
from coalesce.launch.simulated import packed
from coalesce.launch.structures import is_members, mapped
from coalesce.simulate.events import Trace, TraceArray

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device
    from coalesce.common.geometry import Extent
    from coalesce.launch.kernel import BaseKernel


@dataclass(frozen=True)
class Prepared:
    """A launch on the simulator with its arguments checked."""

    kernel: BaseKernel
    device: Device
    grid: Extent
    block: Extent
    shared_bytes: int
    arguments: list[launch_arguments.Argument]
    cooperative: bool = False

    @property
    def blocks(self) -> int:
        """The number of blocks of the grid."""
        return int(np.prod(self.grid, dtype=np.int64))

    @property
    def warps(self) -> int:
        """The number of warps of a block."""
        return -(-int(np.prod(self.block)) // 32)

    @property
    def program(self) -> sim.Program:
        """The kernel's module, decoded."""
        program: sim.Program = self.kernel._program(self.device)
        return program

    def run(
        self,
        undefined: Mapping[int, np.ndarray[Any, np.dtype[np.bool_]]] | None = None,
        **options: Any,
    ) -> sim.LaunchResult:
        """Simulate the launch on the arrays. `options` are the options of ``Program.launch``.

        `undefined` maps the number of an argument to the mask of its undefined bytes.
        """
        return self.program.launch(
            self.kernel.entry,
            self.grid,
            self.block,
            self.shared_bytes,
            packed(self.arguments, undefined),
            **{
                "instruction_limit": self.kernel.instruction_limit or 0,
                "cooperative": self.cooperative,
                **self.kernel._module.modelled(self.device, self.kernel.entry),
                **options,
            },
        )

    def step(self, number: int, **options: Any) -> sim.Stepping:
        """Start one block, so that it can be executed step by step.

        `number` is the linear number of the block. `options` are passed to ``Program.step``.
        """
        return self.program.step(
            self.kernel.entry,
            self.grid,
            self.block,
            self.shared_bytes,
            packed(self.arguments),
            number,
            **{
                "cooperative": self.cooperative,
                **self.kernel._module.modelled(self.device, self.kernel.entry),
                **options,
            },
        )

    def detached(self) -> Prepared:
        """Return the same launch with copies of the arrays that the kernel may write."""
        given = [a for a in self.arguments if isinstance(a, HostArray)]
        arrays, writable = [a.array for a in given], [a.writable for a in given]
        copies = iter(ArrayCopies.of(arrays, writable).arrays())
        return replace(
            self,
            arguments=[
                HostArray(a.name, array, array, a.written, a.offset, a.texture)
                if isinstance(a, HostArray) and (array := next(copies)) is not None
                else a
                for a in self.arguments
            ],
        )

    def finish(self, watched: bool = False) -> None:
        """Write copies back to the caller's arrays. `HostArray.finish` explains `watched`."""
        for argument in self.arguments:
            if isinstance(argument, HostArray):
                argument.finish(watched)

    def arrays(self, memory: Sequence[tuple[str, str, int, int, int]]) -> list[TraceArray]:
        """Return a `TraceArray` for each entry of `memory`, which is part of a result."""
        arrays = []
        for space, name, address, size, argument in sorted(
            memory, key=lambda m: (m[4] < 0, m[4], m[0], m[2])
        ):
            shape, dtype = (size,), "uint8"
            if argument >= 0:
                array = self.arguments[argument]
                assert isinstance(array, HostArray)
                shape, dtype = array.given.shape, str(array.array.dtype)
                if array.array.dtype.names is not None:  # show a structure as bytes
                    dtype = f"V{array.array.dtype.itemsize}"
            arrays.append(TraceArray(name, shape, dtype, space, address, argument))
        return arrays

    def trace(self, result: sim.LaunchResult) -> Trace:
        """Return the events that a result recorded."""
        assert result.counts is not None
        assert result.events is not None
        return self.events(result.events, result.counts.table(), result.memory, result.omitted)

    def events(
        self,
        columns: dict[str, Any],
        table: Mapping[str, np.ndarray[Any, Any]],
        memory: Sequence[tuple[str, str, int, int, int]],
        omitted: int,
    ) -> Trace:
        """Return recorded events as a trace. `table` has the instructions to which they belong."""
        trace = Trace(
            columns,
            dict(table),
            kernel=self.kernel.name,
            grid=self.grid,
            block_shape=self.block,
            arrays=self.arrays(memory),
            omitted=omitted,
        )
        return _with_elements(trace, sum(isinstance(a, HostArray) for a in self.arguments))


def prepare(
    kernel: BaseKernel,
    grid: Any,
    block: Any,
    arguments: Sequence[Any],
    shared_bytes: Any = 0,
    device: str | Device | None = None,
    cooperative: bool = False,
) -> Prepared:
    """Check a launch that is to be simulated."""
    extents = geometry.extent("grid", grid), geometry.extent("block", block)
    geometry.check_block(extents[1])
    require.flag("cooperative", cooperative)
    shared = geometry.shared(shared_bytes)
    if device is None:
        device = kernel.device if kernel.device.kind == "sim" else "sim"
    chosen = devices.resolve(device)
    return with_arguments(kernel, *extents, arguments, shared, chosen, cooperative)


def with_arguments(
    kernel: BaseKernel,
    grid: Extent,
    block: Extent,
    arguments: Sequence[Any],
    shared_bytes: int,
    device: Device,
    cooperative: bool = False,
) -> Prepared:
    """Check the arguments of a launch. The grid, the block and the device were checked before."""
    names = launch_arguments.names(kernel.signature, arguments)
    here = [on_host(value, name) for value, name in zip(arguments, names, strict=True)]
    prepared = launch_arguments.prepare(kernel.signature, here)
    return Prepared(kernel, device, grid, block, shared_bytes, prepared, cooperative)


def _with_elements(trace: Trace, arguments: int) -> Trace:
    """Choose an element type for each variable: unsigned integers as wide as the accesses to it."""
    arrays = list(trace.arrays)
    for number in range(arguments, len(arrays)):
        (bytes_,) = arrays[number].shape
        widths = trace.width[trace.array == number]
        size = min(int(widths.min()), 8) if widths.size else 1
        while bytes_ % size:
            size //= 2
        arrays[number] = arrays[number]._replace(dtype=f"uint{8 * size}", shape=(bytes_ // size,))
    return trace._with_arrays(arrays)


def on_host(value: Any, name: str = "the array") -> Any:
    """Return an argument, or a copy of it on the host if it is a GPU array.

    `name` is the name of the argument in error messages.
    """
    if is_members(value):
        return mapped(value, lambda item: on_host(item, name))
    if isinstance(value, np.ndarray) or (on_gpu := foreign.find_gpu_array(value, name)) is None:
        return value
    try:
        return to_device(value).get()
    except DeviceUnavailable as error:
        raise DeviceUnavailable(
            f"{name} is an array in the memory of cuda:{on_gpu.ordinal}, which is not usable "
            f"here\n  {error}"
        ) from None
