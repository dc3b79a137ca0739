"""Kernels of your own: CUDA C++ or PTX text that runs on NumPy and GPU arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from coalesce import _arguments, _compiler, _core, _devices, _geometry, _signature
from coalesce._arguments import HostArray
from coalesce._arrays import GpuArray
from coalesce._devices import Device
from coalesce._geometry import Extent
from coalesce._signature import Parameter
from coalesce.errors import LaunchError

if TYPE_CHECKING:
    from coalesce.profiling import Profile


@dataclass(frozen=True)
class LaunchRecord:
    """What one launch took.

    Attributes
    ----------
    kernel_ms : float
        Milliseconds of the kernel, the median over `runs`; 0 where nothing was timed.
    spread : float
        (80th - 20th percentile) / median of the runs, a fraction; 0 for a single one.
    runs : int
        How many timed runs; 0 where nothing was timed.
    h2d_ms, d2h_ms : float
        Milliseconds for copying NumPy arrays to the GPU and back, on the host's clock; 0 where
        nothing was timed or copied.
    source : {"measured", "modelled"}
        By CUDA events on a GPU, or by the simulator's model.
    device : str
        Where it ran: ``"cuda:0"``.
    counts : object or None
        The simulator's counts, where they were asked for.
    """

    kernel_ms: float
    spread: float
    runs: int
    h2d_ms: float
    d2h_ms: float
    source: Literal["measured", "modelled"]
    device: str
    counts: Any = None


class Kernel:
    """A kernel from CUDA C++ source or PTX text.

    ``kernel[grid, block](*args)`` launches it, ``kernel[grid, block, shared_bytes](*args)`` with
    dynamic shared memory. `grid` and `block` are ints or tuples (x, y, z).

    Arguments are, for a pointer, a NumPy array of the element type (what the kernel writes is in it
    after the call; a copy is made only of arrays that are not C-contiguous) or, on a GPU, an array
    in its memory: `DeviceArray`, CuPy, PyTorch, anything with `__cuda_array_interface__` or DLPack.
    For a scalar, a Python number or a NumPy scalar of exactly the type. For a structure, a NumPy
    structured scalar or bytes. A call with GPU arrays only does not wait for the kernel.

    Parameters
    ----------
    source : str
        CUDA C++, compiled by NVRTC, or PTX text, which is taken as it is.
    entry : str, optional
        The kernel's name, mangled or not, or an instantiation of a template, such as
        ``"scale<float, 4>"``. May be left out where the source has one kernel.
    options : sequence of str
        NVRTC's options, such as ``"-DTILE=16"``.
    device : str or Device, optional
        ``"cuda"``, ``"cuda:1"``, ``"sim"``, ``"sim:h200"``; by default the GPU that the arguments
        are on, else the first, else the simulator.
    instruction_limit : int, optional
        Warp instructions after which the simulator stops with a LaunchError; none by default.
    headers : mapping, optional
        Texts that ``#include`` finds by these names.

    Raises
    ------
    CompileError
        The source does not compile; the message is the compiler's log.
    ValueError
        There is no such entry; the message lists those there are.

    Examples
    --------
    >>> kernel = coalesce.Kernel('''
    ... extern "C" __global__ void scale(float *x, float factor, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) x[i] *= factor;
    ... }''')
    >>> x = np.arange(5, dtype=np.float32)
    >>> kernel[1, 32](x, 2.0, 5)
    >>> x
    array([0., 2., 4., 6., 8.], dtype=float32)
    """

    def __init__(
        self,
        source: str,
        entry: str | None = None,
        *,
        options: Sequence[str] = (),
        device: str | Device | None = None,
        instruction_limit: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(source, str):
            raise TypeError(f"source must be a string; got {type(source).__name__}")
        if entry is not None and not isinstance(entry, str):
            raise TypeError(f"entry must be a string; got {type(entry).__name__}")
        if instruction_limit is not None and not isinstance(instruction_limit, int):
            raise TypeError(
                f"instruction_limit must be an int; got {type(instruction_limit).__name__}"
            )
        if instruction_limit is not None and instruction_limit < 0:
            raise ValueError(f"instruction_limit must not be negative; got {instruction_limit}")
        self.source = source
        self.options = tuple(options) if not isinstance(options, str) else options
        self.headers = dict(headers or {})
        self.instruction_limit = instruction_limit
        self._wanted = device
        self._device = _devices.resolve(device)
        self._expression = entry if entry is not None and "<" in entry else None
        self._is_ptx = _signature.is_ptx(source)
        self._compiled: dict[str, _compiler.Compiled] = {}
        self._programs: dict[str, Any] = {}  # simulator, by architecture
        self._functions: dict[str, Any] = {}  # GPU, by device
        self._bound: dict[Any, Any] = {}  # launchers, by kernel[key]

        compiled = self._compile(self._device)
        if self._is_ptx and self._device.kind == "sim":
            self._program(self._device)  # a syntax error shows here, not at the first launch
        if self._expression is not None:
            entry = compiled.lowered.get(self._expression, entry)
        found = _signature.ptx_entries(compiled.ptx)
        self.entries = tuple(found)
        self.entry = _signature.find_entry(self.entries, entry, source)
        text = "" if self._is_ptx else source
        self.signature = _signature.signature_of(
            self.entry, found[self.entry], text, self.options, self._expression
        )

    @property
    def name(self) -> str:
        """The kernel's name, unmangled."""
        return self.signature.name

    @property
    def device(self) -> Device:
        """Where it runs unless a call says otherwise."""
        return self._device

    @property
    def is_ptx(self) -> bool:
        """Whether the source is PTX text."""
        return self._is_ptx

    @property
    def ptx(self) -> str:
        """The PTX text that the simulator runs."""
        return self._compile(self._device).ptx

    @property
    def log(self) -> str:
        """The compiler's warnings."""
        return self._compile(self._device).log

    def __repr__(self) -> str:
        return f"<Kernel {self.signature} on {self._device.name}>"

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._bound[key]
        except KeyError:
            bound = self._bind(*_geometry.launch_of(key))
            if len(self._bound) >= 256:
                self._bound.clear()
            self._bound[key] = bound
            return bound
        except TypeError:  # a list or an array in the key
            return self._bind(*_geometry.launch_of(key))

    def __call__(self, *_: Any) -> None:
        """Refuse: a launch needs its geometry."""
        raise TypeError(
            f"{self.name} needs a launch geometry: kernel[grid, block](...) instead of kernel(...)"
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
    ) -> LaunchRecord:
        """Launch the kernel and tell what it took; the arrays are as after one launch.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``.
        shared_bytes : int
            Dynamic shared memory, bytes a block.
        device : str or Device, optional
            Where to run, if not on the kernel's device.
        runs : int or "auto", optional
            How many timed runs, after a warm-up; ``"auto"`` is as many as a stable median needs.
            The simulator models one run. By default nothing is timed.
        counts : bool
            Whether the simulator counts requests, sectors and instructions.
        write_only : sequence of str
            Parameters whose arrays need not be copied to the GPU, as the kernel writes every
            element.

        Returns
        -------
        LaunchRecord

        Examples
        --------
        >>> kernel.launch(1, 32, x, 2.0, 5, device="sim", runs="auto").source
        'modelled'
        """
        extents = _geometry.extent("grid", grid), _geometry.extent("block", block)
        _geometry.check_block(extents[1])
        if runs is not None and runs != "auto" and (not isinstance(runs, int) or runs < 1):
            raise ValueError(f'runs must be a positive int, "auto" or None; got {runs!r}')
        where = None if device is None else _devices.resolve(device)
        return self._run(
            *extents, _geometry.shared(shared_bytes), arguments, where, runs, counts, write_only
        )

    def profile(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device = "sim",
    ) -> Profile:
        """Launch the kernel and count what its memory accesses cost.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``; the arrays are as after one launch.
        shared_bytes : int
            Dynamic shared memory, bytes a block.
        device : str or Device
            As of `coalesce.profile`.

        Returns
        -------
        Profile

        Examples
        --------
        >>> p = kernel.profile(1, 32, x, 2.0, 5)
        >>> p.sectors_per_request
        {'load': 1.0, 'store': 1.0}
        """
        from coalesce import _profiler

        return _profiler.of_kernel(self, grid, block, arguments, shared_bytes, device)[0]

    def _bind(self, grid: Extent, block: Extent, shared: int) -> Any:
        slow = functools.partial(self._call, grid, block, shared)
        if self._device.kind != "cuda":
            return slow
        function = self._function(self._device)
        _core.cuda.admit(function, grid, block, shared)
        parameters = [_for_launcher(p) for p in self.signature.parameters]
        return _core.cuda.launcher(function, grid, block, shared, parameters, slow)

    def _call(self, grid: Extent, block: Extent, shared: int, *arguments: Any) -> None:
        self._run(grid, block, shared, arguments)

    def _run(
        self,
        grid: Extent,
        block: Extent,
        shared: int,
        given: Sequence[Any],
        device: Device | None = None,
        runs: int | Literal["auto"] | None = None,
        counts: bool = False,
        write_only: Sequence[str] = (),
    ) -> LaunchRecord:
        arguments = _arguments.prepare(self.signature, given)
        if device is None:
            device = self._device
            on_gpu = [a for a in arguments if isinstance(a, GpuArray)]
            if self._wanted is None and on_gpu and device.kind == "cuda":
                device = _devices.resolve(f"cuda:{on_gpu[0].ordinal}")
        unknown = set(write_only) - {p.name for p in self.signature.parameters}
        if unknown:
            raise ValueError(f"write_only names no parameter of {self.signature}: {unknown}")
        if device.kind == "cuda":
            from coalesce import _gpu_launch

            return _gpu_launch.run(
                self._function(device),
                device,
                grid,
                block,
                shared,
                self.signature,
                arguments,
                runs,
                write_only,
            )
        return self._simulate(device, grid, block, shared, arguments, runs, counts)

    def _simulate(
        self,
        device: Device,
        grid: Extent,
        block: Extent,
        shared: int,
        arguments: Sequence[_arguments.Argument],
        runs: int | Literal["auto"] | None,
        counts: bool,
    ) -> LaunchRecord:
        packed: list[Any] = []
        for parameter, argument in zip(self.signature.parameters, arguments, strict=True):
            if isinstance(argument, GpuArray):
                raise ValueError(
                    f"argument {parameter} is a GPU array and {device.name} has no GPU memory; "
                    "copy it to NumPy first"
                )
            if isinstance(argument, HostArray):
                writable = argument.array.flags.writeable and argument.given.flags.writeable
                packed.append(_core.sim.Buffer(argument.array, argument.name, writable))
            else:
                packed.append(argument)
        timed = runs is not None
        result = self._program(device).launch(
            self.entry,
            grid,
            block,
            shared,
            packed,
            counts=counts or timed,
            instruction_limit=self.instruction_limit or 0,
        )
        for argument in arguments:
            if isinstance(argument, HostArray):
                argument.finish()
        return LaunchRecord(
            kernel_ms=result.modelled_ms if timed else 0.0,
            spread=0.0,
            runs=1 if timed else 0,
            h2d_ms=0.0,
            d2h_ms=0.0,
            source="modelled",
            device=device.name,
            counts=result.counts if counts or timed else None,
        )

    def _compile(self, device: Device) -> _compiler.Compiled:
        if self._is_ptx:
            return self._compiled.setdefault("", _compiler.Compiled(self.source, None, "", {}, ""))
        arch = _compiler.architecture(device.compute_capability)
        if arch not in self._compiled:
            self._compiled[arch] = _compiler.compile_cuda(
                self.source,
                arch=arch,
                options=self.options,
                headers=self.headers,
                expressions=() if self._expression is None else (self._expression,),
            )
        return self._compiled[arch]

    def _program(self, device: Device) -> Any:
        if not hasattr(_core, "sim"):
            raise LaunchError("this build of coalesce has no simulator")
        program = self._programs.get(device.name)
        if program is None:
            text = "" if self._is_ptx else self.source  # for messages that quote a line
            program = _core.sim.Program(self._compile(device).ptx, text)
            self._programs[device.name] = program
        return program

    def _function(self, device: Device) -> Any:
        function = self._functions.get(device.name)
        if function is None:
            compiled = self._compile(device)
            image = compiled.cubin or compiled.ptx.encode()
            function = _core.cuda.Function(device.ordinal, image, self.entry)
            self._functions[device.name] = function
        return function


def _for_launcher(parameter: Parameter) -> tuple[str, Any]:
    """Return a parameter as the fast launcher takes it."""
    if parameter.kind == "pointer":
        return "pointer", list(parameter.accepted)
    exact = parameter.kind == "scalar" and len(parameter.accepted) == 1
    return "scalar", parameter.accepted[0] if exact else ""


_arguments.register_scalars()
