"""Prepares launches on the simulator: checks the arguments, and runs a launch in different ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import sim
from coalesce.arrays import devices, foreign
from coalesce.arrays.creation import to_device
from coalesce.common import geometry, require
from coalesce.common.dtypes import text_of
from coalesce.common.errors import DeviceUnavailable
from coalesce.common.memory import ArrayCopies
from coalesce.cxx import element_types, variables
from coalesce.launch import arguments as launch_arguments
from coalesce.launch.arguments import HostArray
from coalesce.launch.simulated import packed
from coalesce.launch.structures import is_members, map_values
from coalesce.simulate.events import BYTES, Table, Trace, TraceArray

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device
    from coalesce.common.geometry import Extent
    from coalesce.launch.kernel import BaseKernel


@dataclass(frozen=True)
class Prepared:
    """A launch on the simulator, with checked arguments."""

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
    def program(self) -> sim.SimulatedModule:
        """The object with which the simulator runs the kernels of the source."""
        program: sim.SimulatedModule = self.kernel._program(self.device)
        return program

    @property
    def ptx(self) -> sim.Counts:
        """The instructions of the kernel's PTX. All counts are 0."""
        return self.program.no_counts(self.kernel.entry, of_ptx=True)

    def run(
        self,
        undefined: Mapping[int, np.ndarray[Any, np.dtype[np.bool_]]] | None = None,
        program: sim.SimulatedModule | None = None,
        entry: str = "",
        **options: Any,
    ) -> sim.LaunchResult:
        """Simulate the launch. The kernel writes its results into the arrays of the arguments.

        `undefined` is a dict from the position of an argument (0 for the first) to a mask. The mask
        has an element for each byte of the argument's array: True if this byte was never written.
        `program` is the program to run, if it is not the kernel's own, and `entry` is the name of
        the kernel in it. `options` are passed to ``Program.launch``.
        """
        return (program or self.program).launch(
            entry or self.kernel.entry,
            self.grid,
            self.block,
            self.shared_bytes,
            packed(self.arguments, undefined),
            **{
                "instruction_limit": self.kernel.instruction_limit or 0,
                "cooperative": self.cooperative,
                **self.kernel._module.model_options(self.device, self.kernel.entry),
                **options,
            },
        )

    def step(self, number: int, **options: Any) -> sim.Stepping:
        """Start to simulate one block, instruction by instruction.

        `number` is the linear index of the block in the grid. `options` are passed to
        ``Program.step``. The methods of the result execute the instructions.
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
                **self.kernel._module.model_options(self.device, self.kernel.entry),
                **options,
            },
        )

    def detached(self) -> Prepared:
        """Return the same launch, but with copies of all arrays that the kernel may write to."""
        host_arrays = [a for a in self.arguments if isinstance(a, HostArray)]
        arrays, writable = [a.array for a in host_arrays], [a.writable for a in host_arrays]
        copies = iter(ArrayCopies.of(arrays, writable).arrays())
        return replace(
            self,
            arguments=[
                replace(a, array=array, original=array)
                if isinstance(a, HostArray) and (array := next(copies)) is not None
                else a
                for a in self.arguments
            ],
        )

    def finish(self, watched: bool = False) -> None:
        """After the launch, copy the results to the caller's arrays.

        This is only necessary for arrays that are not C-contiguous, because the kernel worked on
        copies of these arrays. `HostArray.finish` explains `watched`.
        """
        for argument in self.arguments:
            if isinstance(argument, HostArray):
                argument.finish(watched)

    def arrays(self, memory: Sequence[tuple[str, str, int, int, int]]) -> list[TraceArray]:
        """Return descriptions of the arrays and variables that the kernel may access.

        `memory` is `sim.LaunchResult.memory`, which has a tuple for each array and each variable.
        The items of a tuple are the space, the name, the address, the size in bytes, and the
        position of the argument: ``("global", "x", 4096, 400, 0)``. A variable is not an argument;
        its tuple has -1 in place of the position.

        The dtype of a variable is `BYTES` if its element type is not known.
        """
        arrays = []
        declared = declared_shared(self.kernel)
        for space, name, address, size, argument in sorted(
            memory, key=lambda m: (m[4] < 0, m[4], m[0], m[2])
        ):
            shape: tuple[int, ...] = (size,)
            dtype = BYTES
            if argument >= 0:
                array = self.arguments[argument]
                assert isinstance(array, HostArray)
                shape, dtype = array.original.shape, text_of(array.array.dtype)
                if array.array.dtype.names is not None:  # show a structure as bytes
                    dtype = f"V{array.array.dtype.itemsize}"
            elif space == "shared" and name in declared:
                extents = variables.extents_in_memory(declared[name], size)
                if extents is not None:
                    shape, dtype = extents, _element_type(declared[name])
            arrays.append(TraceArray(name, shape, dtype, space, address, argument))
        return arrays

    def trace(
        self,
        result: sim.LaunchResult,
        table: Table | None = None,
    ) -> Trace:
        """Return the events in the result of `run` as a `Trace`.

        `table` returns ``result.counts.table()``. If it is None, the trace calls
        ``result.counts.table`` itself.
        """
        assert result.counts is not None
        assert result.events is not None
        return self.events(
            result.events, table or result.counts.table, result.memory, result.omitted
        )

    def events(
        self,
        columns: dict[str, Any],
        table: Table,
        memory: Sequence[tuple[str, str, int, int, int]],
        omitted: int,
    ) -> Trace:
        """Return recorded events as a `Trace`.

        `columns` is a dict with an array for each attribute of the events, such as "mask". `table`
        returns the instructions of the kernel, as `Counts.table()` does. The method `arrays`
        explains `memory`. `omitted` is the number of events that were not recorded.
        """
        return Trace(
            columns,
            table,
            kernel=self.kernel.name,
            grid=self.grid,
            block_shape=self.block,
            arrays=self.arrays(memory),
            omitted=omitted,
        )


def declared_shared(kernel: BaseKernel) -> dict[str, variables.Shape]:
    """Return the declarations of ``__shared__`` variables in a kernel's source, by name.

    See `variables.shared_arrays`. A kernel that was made from PTX has no such declarations.
    """
    if kernel.is_ptx:
        return {}
    return variables.shared_arrays(kernel.source, kernel.options, kernel.signature.name)


def _element_type(declared: variables.Shape) -> str:
    """Return NumPy's name of the element type. A vector such as float4 is shown as bytes."""
    _, item_bytes, spelled = declared
    dtype = np.dtype(element_types.element_types(spelled)[0][0])
    if dtype.itemsize != item_bytes or dtype.kind == "V":
        return f"V{item_bytes}"
    return str(dtype)


def prepare(
    kernel: BaseKernel,
    grid: Any,
    block: Any,
    arguments: Sequence[Any],
    shared_bytes: Any = 0,
    device: str | Device | None = None,
    cooperative: bool = False,
) -> Prepared:
    """Check the grid, the block and the arguments of a launch, and prepare it for the simulator.

    The parameters are the same as for `coalesce.Kernel.launch`. If `device` is None and the kernel
    is for a GPU, the device is the default simulated GPU.
    """
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
    """Check the arguments of a launch, and prepare it for the simulator.

    The caller has checked the grid, the block and the device already.
    """
    names = launch_arguments.names(kernel.signature, arguments)
    here = [on_host(value, name) for value, name in zip(arguments, names, strict=True)]
    prepared = launch_arguments.prepare(kernel.signature, here)
    return Prepared(kernel, device, grid, block, shared_bytes, prepared, cooperative)


def on_host(value: Any, name: str = "the array") -> Any:
    """Return a NumPy copy of an argument that is a GPU array. Return any other argument unchanged.

    Members of a structure are treated in the same way. `name` is the name of the argument in error
    messages.
    """
    if is_members(value):
        return map_values(value, lambda item: on_host(item, name))
    if isinstance(value, np.ndarray) or (on_gpu := foreign.find_gpu_array(value, name)) is None:
        return value
    try:
        return to_device(value).get()
    except DeviceUnavailable as error:
        raise DeviceUnavailable(
            f"{require.quoted(name)} is an array in the memory of cuda:{on_gpu.ordinal}, which is "
            f"not usable here\n  {error}"
        ) from None
