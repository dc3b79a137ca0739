"""Launches kernels: ``kernel[grid, block](...)`` and ``kernel.launch(grid, block, ...)``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Literal

from coalesce._core import cuda
from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.common import geometry, require
from coalesce.cxx.signature import Parameter, Signature
from coalesce.launch import gpu
from coalesce.launch.launch import Launch
from coalesce.launch.loaded import LoadedKernel
from coalesce.launch.module import CompiledModule, Module
from coalesce.launch.record import LaunchRecord
from coalesce.launch.run import run
from coalesce.launch.scalars import register_scalars


class BaseKernel(LoadedKernel):
    """A kernel that can be launched. The public class `coalesce.Kernel` is based on it."""

    @functools.cached_property
    def _bound(self) -> dict[Any, Any]:
        """The launchers, by the key of ``kernel[key]``."""
        return {}

    def __getitem__(self, key: Any) -> Any:
        return cuda.bound(self._bound, key, self._launcher)

    def __reduce__(self) -> tuple[Any, ...]:
        made_by = self.entry if self._expression is None else self._expression
        return _unpickled, (type(self), self.module, made_by, self.wanted, self.instruction_limit)

    def __call__(self, *_: Any) -> None:
        """Refuse the call: a launch needs a grid and a block."""
        raise TypeError(
            f"{self.name} was called without a grid and a block; write kernel[grid, block](...) "
            "instead of kernel(...)"
        )

    def launch(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        runs: int | Literal["auto"] | None = None,
        counts: bool = False,
        write_only: Sequence[str] = (),
        stream: Any = None,
        cooperative: bool = False,
    ) -> LaunchRecord:
        """Launch the kernel, and return its times and counts.

        With `runs`, a GPU runs the kernel several times. Afterwards, the arrays contain the result
        of one launch. But the variables of the source (`globals`) contain the result of all runs.

        Parameters
        ----------
        grid, block : int or tuple of int
            The number of blocks and of threads per block, as in ``kernel[grid, block]``.
        *arguments
            The arguments of the kernel, as in ``kernel[grid, block](*arguments)``.
        shared_bytes : int
            The size of dynamic shared memory, in bytes per block.
        device : str or Device, optional
            The device. By default, it is the device of the kernel.
        runs : int or "auto", optional
            The number of timed runs, after a warm-up. With ``"auto"``, runs are repeated until
            the median of their times is stable. On the simulator, the time of one run is modelled.
            By default, nothing is timed.
        counts : bool
            Whether the simulator counts requests, sectors and instructions.
        write_only : sequence of str
            The names of parameters whose arrays the kernel writes completely and does not read.
            Such arrays are not copied to the GPU before the launch. A view of a larger array is
            copied anyway.
        stream : stream or int, optional
            The stream of the launch on a GPU. By default, it is chosen as for
            ``kernel[grid, block]``.
        cooperative : bool
            Whether this is a cooperative launch. In such a launch, all blocks are on the GPU at
            once. They can wait for each other with ``cooperative_groups::this_grid().sync()``. If
            the GPU cannot hold all blocks, LaunchError is raised.

        Returns
        -------
        LaunchRecord

        Raises
        ------
        TypeError, ValueError
            An argument does not match its parameter, or an option is out of range.
        LaunchError
            The device does not support this grid and block, or the kernel failed.
        MemoryFault
            The kernel accessed memory outside its arrays.
        DeviceUnavailable
            There is no such device.

        Examples
        --------
        >>> kernel.launch(1, 32, x, 2.0, 5, device="sim", runs="auto").source
        'modelled'
        """
        launch = Launch.of(self, grid, block, shared_bytes, cooperative, stream)
        runs = None if runs is None else require.runs(runs)
        require.flag("counts", counts)
        write_only = require.texts("write_only", write_only)
        where = None if device is None else devices.resolve(device)
        return run(launch.bind(arguments, where), runs, counts, write_only)

    def _launcher(self, key: Any) -> Any:
        """Return the launcher of ``kernel[key]``."""
        extents = geometry.launch_of(key)
        launcher = self._bound.get(extents)
        if launcher is None:
            grid, block, shared_bytes, stream = extents
            launch = Launch(self, self._device, grid, block, shared_bytes, stream=stream)
            launcher = self._launcher_of(launch)
            if len(self._bound) >= 256:
                self._bound.clear()
            self._bound[extents] = launcher
        return launcher

    def _launcher_of(self, launch: Launch) -> Any:
        slow = functools.partial(self._call, launch)
        if self._device.kind != "cuda":
            return slow
        parameters = [_for_launcher(p) for p in self.signature.parameters]
        return cuda.launcher(gpu.admitted(launch), launch, parameters, slow)

    def _call(self, launch: Launch, *arguments: Any, **named: Any) -> None:
        if named:
            raise TypeError(
                f"the arguments of {self.signature} have no names in a launch; pass them in this "
                f"order, without `{next(iter(named))}=`"
            )
        run(launch.bind(arguments))


class CompiledKernel(BaseKernel):
    """A kernel whose module was compiled elsewhere (`CompiledModule`)."""

    def __init__(
        self,
        module: CompiledModule,
        known: Signature,
        device: Device,
        instruction_limit: int | None = None,
    ) -> None:
        self._set(module, device, device, instruction_limit)
        self.signature, self.entry = known, known.entry
        self.entries = (known.entry,)

    def __reduce__(self) -> tuple[Any, ...]:
        # the signature can only be pickled without its functions
        known = dataclasses.replace(self.signature, structures=tuple)
        return type(self), (self.module, known, self._device, self.instruction_limit)


def _unpickled(
    kind: type[BaseKernel],
    module: Module,
    entry: str,
    wanted: str | Device | None,
    instruction_limit: int | None,
) -> BaseKernel:
    """Return the kernel from the parts that `BaseKernel.__reduce__` returned for pickling."""
    kernel = kind.__new__(kind)
    kernel._open(module, entry, wanted, devices.resolve(wanted), instruction_limit)
    return kernel


def _for_launcher(parameter: Parameter) -> tuple[str, Any]:
    """Describe a parameter to the launcher in C++ (csrc/bindings/launcher.hpp)."""
    if parameter.kind == "pointer":
        return "pointer", list(parameter.accepted)
    exact = parameter.kind == "scalar" and len(parameter.accepted) == 1
    return "scalar", parameter.accepted[0] if exact else ""


register_scalars()
