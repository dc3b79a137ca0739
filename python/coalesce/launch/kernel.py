"""Makes kernels from CUDA C++ or PTX, checks their arguments, and launches them."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from coalesce._core import cuda
from coalesce.arrays import devices
from coalesce.arrays.devices import Device
from coalesce.arrays.gpu_array import GpuArray
from coalesce.common import geometry, require
from coalesce.common.errors import LaunchError
from coalesce.common.geometry import Extent
from coalesce.compile.device_headers import headers
from coalesce.cxx import signature
from coalesce.cxx.signature import Parameter
from coalesce.launch import gpu
from coalesce.launch.arguments import parameters_for, prepare
from coalesce.launch.globals import Globals
from coalesce.launch.module import Module
from coalesce.launch.record import LaunchRecord
from coalesce.launch.scalars import register_scalars
from coalesce.launch.simulated import check_places, device_of, run
from coalesce.launch.source import module_of

if TYPE_CHECKING:
    from typing_extensions import Self


class BaseKernel:
    """A kernel that can be launched. The public class `coalesce.Kernel` is based on it."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        entry: str | None = None,
        options: Sequence[str] = (),
        arch: str | int | None = None,
        *,
        device: str | Device | None = None,
        instruction_limit: int | None = None,
        headers: Mapping[str, str] | None = None,
        filename: str | None = None,
    ) -> None:
        if entry is not None:
            require.text("entry", entry)
        if instruction_limit is not None:
            instruction_limit = require.whole("instruction_limit", instruction_limit, 0, 2**63 - 1)
        self.instruction_limit = instruction_limit
        self._wanted = device
        self._device = devices.resolve(device)
        self._open(module_of(source, entry, options, arch, headers, filename), entry)

    @classmethod
    def all_of(
        cls,
        source: str,
        entry: str | None,
        options: Sequence[str] = (),
        arch: str | int | None = None,
        *,
        device: str | Device | None = None,
        filename: str | None = None,
    ) -> list[Self]:
        """Return a list of all kernels in a source. The kernel `entry` comes first.

        If a kernel changes a `__device__` variable of the source (see `globals`), the other kernels
        see the new value.

        Parameters
        ----------
        source, entry, options, arch, device, filename
            The same as for `Kernel`.

        Returns
        -------
        list of Kernel
        """
        chosen = devices.resolve(device)
        module = module_of(source, entry, options, arch, None, filename)
        first = cls.__new__(cls)
        first.instruction_limit, first._wanted, first._device = None, device, chosen
        entries = signature.ptx_entries(module.compiled(chosen).ptx)
        first._open(module, entry if entry is not None else next(iter(entries), None))
        return [first, *(first.get_function(other) for other in entries if other != first.entry)]

    def _open(self, module: Module, entry: str | None) -> None:
        """Find the entry in the module."""
        self._module = module
        self._functions: dict[str, Any] = {}  # the functions on GPUs, by device
        self._bound: dict[Any, Any] = {}  # the launchers, by the key of kernel[key]
        if module.is_ptx and self._device.kind == "sim":
            module.program(self._device)  # raises a syntax error now, not at the first launch
        compiled = module.compiled(self._device)
        entries = signature.ptx_entries(compiled.ptx)
        self.entries = tuple(entries)
        code = module.device_code
        templates = [] if code is None else [n[:-2] for n in code.kernels if n.endswith("<>")]
        self.entry = signature.find_entry(
            self.entries, entry, module.text, compiled.lowered, templates
        )
        instances = {mangled: name for name, mangled in compiled.lowered.items()}
        self._expression = instances.get(self.entry)
        known = signature.signature_of(
            self.entry,
            entries[self.entry],
            module.text,
            module.options,
            self._expression,
            functools.partial(module.types, self._device),
        )
        ask = functools.partial(module.structures, self._device, self.entry, self._expression)
        self.signature = dataclasses.replace(known, structures=ask)

    def get_function(self, entry: str) -> Self:
        """Return another kernel of the same source.

        Both kernels use the same `__device__` and `__constant__` variables (see `globals`). For
        another instantiation of a template, make another `Kernel` instead.

        Parameters
        ----------
        entry : str
            The name of the other kernel, as in the source or as in the PTX (mangled).

        Returns
        -------
        Kernel
            The other kernel, on the same device.

        Raises
        ------
        TypeError, ValueError
            `entry` is not a string, or the source has no such kernel.

        Examples
        --------
        >>> kernel = coalesce.Kernel('''
        ... __device__ int total;
        ... extern "C" __global__ void add(int n) { atomicAdd(&total, n); }
        ... extern "C" __global__ void tell(int *out) { *out = total; }''', "add")
        >>> kernel[2, 16](3)
        >>> out = np.zeros(1, np.int32)
        >>> kernel.get_function("tell")[1, 1](out)
        >>> out
        array([96], dtype=int32)
        """
        require.text("entry", entry)
        entry = signature.as_compiled(entry, self._module.compiled(self._device).lowered)
        if "<" in entry and entry not in self._module.compiled(self._device).lowered:
            raise ValueError(
                f"{entry!r} was not compiled with this kernel. To compile {entry!r}, call "
                f"coalesce.Kernel(source, {entry!r})"
            )
        other = type(self).__new__(type(self))
        other.instruction_limit = self.instruction_limit
        other._wanted, other._device = self._wanted, self._device
        other._open(self._module, entry)
        return other

    @property
    def source(self) -> str:
        """The source text of the kernel."""
        return self._module.source

    @property
    def options(self) -> tuple[str, ...]:
        """The options for the compiler, such as ``("-DTILE=16",)``."""
        return self._module.options

    @functools.cached_property
    def globals(self) -> Globals:
        """The `__device__` and `__constant__` variables of the source, by name. See `Globals`."""
        return Globals(self._module, self._device)

    @property
    def name(self) -> str:
        """The name of the kernel in the source, such as "scale". Its name in PTX may be mangled."""
        return self.signature.name

    @property
    def device(self) -> Device:
        """The device on which the kernel runs by default."""
        return self._device

    @property
    def is_ptx(self) -> bool:
        """Whether the source is PTX text."""
        return self._module.is_ptx

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the user passed: a dict from the name of each header to its text."""
        return self._module.headers

    @property
    def ptx(self) -> str:
        """The PTX text that the simulator runs."""
        return self._module.compiled(self._device).ptx

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts of the source that were removed or replaced, such as "main() (lines 30-52)"."""
        module, code = self._module, self._module.device_code
        if module.is_ptx:
            return ()
        source = module.source if code is None else code.text
        user_headers = module.headers if code is None else {**module.headers, **code.headers}
        options = module.options if code is None else ()
        replaced = tuple(
            f"#include {name} ({what})"
            for name, (what, _) in headers.replaced(source, user_headers, options).items()
        )
        return replaced + (() if code is None else code.left_out)

    @property
    def log(self) -> str:
        """The compiler's warnings."""
        return self._module.compiled(self._device).log

    def __repr__(self) -> str:
        return f"<Kernel {self.signature} on {self._device.name}>"

    def __getitem__(self, key: Any) -> Any:
        return cuda.bound(self._bound, key, self._launcher)

    def __reduce__(self) -> tuple[Any, ...]:
        made_by = self.entry if self._expression is None else self._expression
        return _unpickled, (type(self), self._module, made_by, self._wanted, self.instruction_limit)

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
        extents = geometry.extent("grid", grid), geometry.extent("block", block)
        geometry.check_block(extents[1])
        runs = None if runs is None else require.runs(runs)
        require.flag("counts", counts)
        require.flag("cooperative", cooperative)
        where = None if device is None else devices.resolve(device)
        return self._run(
            *extents,
            geometry.shared(shared_bytes),
            arguments,
            where,
            runs,
            counts,
            require.texts("write_only", write_only),
            geometry.stream(stream),
            cooperative,
        )

    def _launcher(self, key: Any) -> Any:
        """Return the launcher of ``kernel[key]``."""
        launch = geometry.launch_of(key)
        launcher = self._bound.get(launch)
        if launcher is None:
            launcher = self._bind(*launch)
            if len(self._bound) >= 256:
                self._bound.clear()
            self._bound[launch] = launcher
        return launcher

    def _bind(self, grid: Extent, block: Extent, shared: int, stream: int | None) -> Any:
        slow = functools.partial(self._call, grid, block, shared, stream)
        if self._device.kind != "cuda":
            return slow
        function = self._function(self._device)
        self._check_alone()
        cuda.admit(function, grid, block, shared)
        parameters = [_for_launcher(p) for p in self.signature.parameters]
        return cuda.launcher(function, grid, block, shared, parameters, slow, stream)

    def _call(
        self,
        grid: Extent,
        block: Extent,
        shared: int,
        stream: int | None,
        *arguments: Any,
        **named: Any,
    ) -> None:
        if named:
            raise TypeError(
                f"the arguments of {self.signature} have no names in a launch; pass them in this "
                f"order, without `{next(iter(named))}=`"
            )
        self._run(grid, block, shared, arguments, stream=stream)

    def _run(
        self,
        grid: Extent,
        block: Extent,
        shared: int,
        passed: Sequence[Any],
        device: Device | None = None,
        runs: int | Literal["auto"] | None = None,
        counts: bool = False,
        write_only: Sequence[str] = (),
        stream: int | None = None,
        cooperative: bool = False,
    ) -> LaunchRecord:
        arguments = prepare(self.signature, passed)
        if device is None:
            device = self._device
            on_gpu = [a for a in arguments if isinstance(a, GpuArray)]
            if self._wanted is None and on_gpu and device.kind == "cuda":
                device = devices.resolve(f"cuda:{on_gpu[0].ordinal}")
            simulated = device_of(arguments)
            if self._wanted is None and simulated is not None:
                device = devices.resolve(simulated)
        parameters = parameters_for(self.signature, arguments)
        check_places(parameters, arguments, device)
        unknown = sorted(set(write_only) - {p.name for p in parameters})
        if unknown:
            raise ValueError(
                f"`write_only` contains the name {unknown[0]!r}, but {self.signature} has no such "
                "parameter"
            )
        if device.kind == "cuda":
            if not cooperative:
                self._check_alone()
            return gpu.run(
                self._function(device),
                device,
                grid,
                block,
                shared,
                self.signature,
                arguments,
                runs,
                write_only,
                stream,
                cooperative,
            )
        return run(
            self._module,
            self.entry,
            self.name,
            device,
            grid,
            block,
            shared,
            arguments,
            runs,
            counts,
            self.instruction_limit,
            cooperative,
        )

    @functools.cached_property
    def _waits_for_the_grid(self) -> bool:
        """Whether the kernel contains grid.sync(), which fails in an ordinary launch.

        The result is stored, because every launch on a GPU needs it, and searching long PTX takes
        time.
        """
        after = self.ptx.partition(f".entry {self.entry}")[2].partition(".entry ")[0]
        return "%envreg2" in after and re.search(r"\btrap;", after) is not None

    def _check_alone(self) -> None:
        """Raise LaunchError if the kernel can only be launched cooperatively.

        On a GPU, grid.sync() in an ordinary launch stops the kernel with an error (a trap). After a
        trap, all arrays on this GPU are lost.
        """
        if self._waits_for_the_grid:
            raise LaunchError(
                f"{self.name}: grid.sync() needs a cooperative launch: "
                "kernel.launch(grid, block, ..., cooperative=True)"
            )

    def _program(self, device: Device) -> Any:
        return self._module.program(device)

    def _function(self, device: Device) -> Any:
        function = self._functions.get(device.name)
        if function is None:
            function = cuda.Function(self._module.loaded(device), self.entry)
            self._functions[device.name] = function
        return function


def _unpickled(
    kind: type[BaseKernel],
    module: Module,
    entry: str,
    wanted: str | Device | None,
    instruction_limit: int | None,
) -> BaseKernel:
    """Return the kernel from the parts that `BaseKernel.__reduce__` returned for pickling."""
    kernel = kind.__new__(kind)
    kernel.instruction_limit = instruction_limit
    kernel._wanted, kernel._device = wanted, devices.resolve(wanted)
    kernel._open(module, entry)
    return kernel


def _for_launcher(parameter: Parameter) -> tuple[str, Any]:
    """Describe a parameter to the launcher in C++ (csrc/bindings/launcher.hpp)."""
    if parameter.kind == "pointer":
        return "pointer", list(parameter.accepted)
    exact = parameter.kind == "scalar" and len(parameter.accepted) == 1
    return "scalar", parameter.accepted[0] if exact else ""


register_scalars()
