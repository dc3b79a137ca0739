"""`Launch`: one launch of a kernel, and all that belongs to it.

A launch is made in two steps. `Launch.of` checks the grid, the block and so on. `bind` checks the
arguments and adds them; `bind_on_host` does the same for a launch that is only simulated. To run,
time, count, profile, check, trace or step a kernel, a function takes the Launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import sim
from coalesce.arrays import devices, foreign, simulated_memory
from coalesce.arrays.creation import to_device
from coalesce.arrays.gpu_array import GpuArray
from coalesce.common import geometry, require
from coalesce.common.errors import DeviceUnavailable
from coalesce.common.geometry import Extent
from coalesce.common.memory import ArrayCopies
from coalesce.launch.arguments import Argument, HostArray, names, parameters_for, prepare
from coalesce.launch.structures import is_members, map_values

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device
    from coalesce.cxx.signature import Parameter
    from coalesce.launch.loaded import LoadedKernel


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes
    ----------
    kernel : LoadedKernel
        The kernel.
    device : Device
        The device of the launch. The simulator can execute a launch for a GPU, too.
    grid, block : tuple of int
        The extents of the grid and of a block, as (x, y, z).
    shared_bytes : int
        The dynamic shared memory, in bytes per block.
    cooperative : bool
        Whether all blocks are on the device at the same time and may wait for each other.
    stream : int or None
        The handle of the stream. With None, the arrays decide (gpu.py).
    passed : sequence or None
        The arguments as the caller passed them. None if the arguments do not come from a call.
    arguments : sequence of Argument
        The same arguments, checked and converted (arguments.py). Empty before `bind`.
    """

    kernel: LoadedKernel
    device: Device
    grid: Extent
    block: Extent
    shared_bytes: int = 0
    cooperative: bool = False
    stream: int | None = None
    passed: Sequence[Any] | None = None
    arguments: Sequence[Argument] = ()

    @classmethod
    def of(
        cls,
        kernel: LoadedKernel,
        grid: Any,
        block: Any,
        shared_bytes: Any = 0,
        cooperative: bool = False,
        stream: Any = None,
    ) -> Launch:
        """Check what the caller passed, and return a launch without arguments."""
        extents = geometry.extent("grid", grid), geometry.extent("block", block)
        geometry.check_block(extents[1])
        require.flag("cooperative", cooperative)
        shared_bytes, stream = geometry.shared(shared_bytes), geometry.stream(stream)
        return cls(kernel, kernel.device, *extents, shared_bytes, cooperative, stream)

    def bind(self, passed: Sequence[Any], device: Device | None = None) -> Launch:
        """Check the arguments, and return the launch with them.

        If `device` is None, and the kernel was made without a device, the arrays choose it.
        """
        arguments = prepare(self.kernel.signature, passed)
        if device is None:
            device = self.kernel.device
            if self.kernel.wanted is None:
                device = _device_of(arguments, device)
        bound = self._with(device, passed, arguments)
        _check_places(bound)
        return bound

    def bind_on_host(self, passed: Sequence[Any], device: str | Device | None = None) -> Launch:
        """Check the arguments, and return the launch with them, for the simulator.

        GPU arrays are copied to the host. If `device` is None, the device is that of the kernel, or
        ``"sim"`` if the kernel is for a GPU.
        """
        if device is None:
            device = self.kernel.device if self.kernel.device.kind == "sim" else "sim"
        signature = self.kernel.signature
        here = [
            on_host(value, name)
            for value, name in zip(passed, names(signature, passed), strict=True)
        ]
        arguments = prepare(signature, here)
        return self._with(devices.resolve(device), passed, arguments)

    def _with(
        self, device: Device, passed: Sequence[Any] | None, arguments: Sequence[Argument]
    ) -> Launch:
        """Return the launch with these arguments. (`dataclasses.replace` takes 3 us longer.)"""
        extents = self.grid, self.block, self.shared_bytes
        how = self.cooperative, self.stream
        return Launch(self.kernel, device, *extents, *how, passed, arguments)

    def on_host(self) -> Launch:
        """Return the same launch for the simulator: GPU arrays are replaced by copies."""
        if self.passed is None or not any(isinstance(a, GpuArray) for a in self.arguments):
            return self
        return self.bind_on_host(self.passed, self.device)

    def with_arrays(self, copies: ArrayCopies) -> Launch:
        """Return the same launch with other arrays: `copies` has one for each `HostArray`."""
        arrays = iter(copies.arrays())
        arguments = [
            replace(a, array=array, original=array)
            if isinstance(a, HostArray) and (array := next(arrays)) is not None
            else a
            for a in self.arguments
        ]
        return replace(self, arguments=arguments)

    def copies(self) -> ArrayCopies:
        """Return copies of the NumPy arrays that the kernel may write to."""
        hosts = self.host_arrays
        return ArrayCopies.of([a.array for a in hosts], [a.writable for a in hosts])

    def detached(self) -> Launch:
        """Return the same launch, but with copies of all arrays that the kernel may write to."""
        return self.with_arrays(self.copies())

    def finish(self, watched: bool = False) -> None:
        """After the launch, copy the results to the caller's arrays.

        This is only necessary for arrays that are not C-contiguous, because the kernel worked on
        copies of these arrays. `HostArray.finish` explains `watched`.
        """
        for argument in self.arguments:
            if isinstance(argument, HostArray):
                argument.finish(watched)

    @property
    def blocks(self) -> int:
        """The number of blocks of the grid."""
        return int(np.prod(self.grid, dtype=np.int64))

    @property
    def warps(self) -> int:
        """The number of warps of a block."""
        return -(-int(np.prod(self.block)) // 32)

    @property
    def parameters(self) -> list[Parameter]:
        """The parameter of each item of `arguments`, in the same order."""
        return parameters_for(self.kernel.signature, self.arguments)

    @property
    def host_arrays(self) -> list[HostArray]:
        """The arguments that are NumPy arrays."""
        return [a for a in self.arguments if isinstance(a, HostArray)]

    @property
    def function(self) -> Any:
        """The kernel, loaded on the GPU of the launch."""
        return self.kernel.module.function(self.device, self.kernel.entry)

    @property
    def program(self) -> sim.SimulatedModule:
        """The object with which the simulator runs the kernels of the source."""
        program: sim.SimulatedModule = self.kernel.module.program(self.device)
        return program

    @property
    def ptx(self) -> sim.Counts:
        """The instructions of the kernel's PTX. All counts are 0."""
        return self.program.no_counts(self.kernel.entry, of_ptx=True)


def _device_of(arguments: Sequence[Argument], default: Device) -> Device:
    """Return the device whose memory holds the arrays, or `default` if there is none."""
    for argument in arguments:
        if (place := _place_of(argument)) is not None:
            return devices.resolve(place)
    for argument in arguments:
        if isinstance(argument, GpuArray) and default.kind == "cuda":
            return devices.resolve(f"cuda:{argument.ordinal}")
    return default


def _check_places(launch: Launch) -> None:
    """Raise ValueError if an argument is an array in the memory of another device."""
    device = launch.device
    for number, argument in enumerate(launch.arguments):
        if isinstance(argument, GpuArray) and device.kind == "sim":
            raise ValueError(
                f"argument {launch.parameters[number]} is a GPU array, but the kernel runs on "
                f"{device.name}, which cannot use GPU memory; copy it to a NumPy array first"
            )
        place = _place_of(argument)
        if place is not None and place != device.name:
            parameter = launch.parameters[number]
            raise ValueError(
                f"argument {parameter} is an array in the memory of {place}, but the kernel runs "
                f"on {device.name}; copy it: coalesce.asarray({parameter.name}, "
                f'device="{device.name}")'
            )


def _place_of(argument: Argument) -> str | None:
    """Return the name of the simulated GPU whose memory holds an argument, such as "sim:h200".

    For other arguments, return None.
    """
    if isinstance(argument, HostArray):
        found = simulated_memory.memory_of(argument.original)
        return None if found is None else found[0].device
    return None


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
