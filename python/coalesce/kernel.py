"""Kernels of your own: CUDA C++ or PTX text that runs on NumPy and GPU arrays."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coalesce import _arguments, _compiler, _core, _devices, _geometry, _signature, _simulated
from coalesce._arguments import HostArray
from coalesce._arrays import GpuArray
from coalesce._devices import Device
from coalesce._geometry import Extent
from coalesce._modelled import Modelled
from coalesce._module import Module
from coalesce._signature import Parameter

if TYPE_CHECKING:
    from coalesce._globals import Globals
    from coalesce.check import Findings
    from coalesce.profiling import Profile
    from coalesce.stepping import Stepper
    from coalesce.tracing import Trace


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
    modelled : Modelled or None
        Where the simulator modelled the time, what it is made of.
    """

    kernel_ms: float
    spread: float
    runs: int
    h2d_ms: float
    d2h_ms: float
    source: Literal["measured", "modelled"]
    device: str
    counts: Any = None
    modelled: Modelled | None = None


class Kernel:
    """A kernel from CUDA C++ source or PTX text.

    ``kernel[grid, block](*args)`` launches it, ``kernel[grid, block, shared_bytes](*args)`` with
    dynamic shared memory, ``kernel[grid, block, shared_bytes, stream](*args)`` on a stream. `grid`
    and `block` are ints or tuples (x, y, z).

    Arguments are, for a pointer, a NumPy array of the element type or, on a GPU, an array in its
    memory: `DeviceArray`, CuPy, PyTorch, Numba, anything with `__cuda_array_interface__` or DLPack.
    What the kernel writes is in the array after the call, also in one that is not C-contiguous, of
    which a copy is made; a read-only array is refused unless the parameter is a pointer to const.

    For a scalar, a Python number or a NumPy scalar, converted only where that is safe: an integer
    where the parameter's type holds its value exactly, a NumPy float where the type is at least as
    wide, a bool for a bool or an integer; never a float for an integer. For a structure, a NumPy
    structured scalar or bytes.

    A call with NumPy arrays is over when the kernel is; one with GPU arrays only does not wait. On
    a GPU it goes to `stream`, else to the stream that is current in the library of the arrays, as
    CuPy and PyTorch have it, else to the default stream. The simulator takes a stream and runs
    every launch at once, in the order of the calls.

    Parameters
    ----------
    source : str or path
        CUDA C++, compiled by NVRTC, or PTX text, which is taken as it is; or a file of either, as
        a `pathlib.Path`.
    entry : str, optional
        The kernel's name, mangled or not, or an instantiation of a template, such as
        ``"scale<float, 4>"``. May be left out where the source has one kernel.
    options : sequence of str
        NVRTC's options, such as ``"-DTILE=16"``.
    arch : str or int, optional
        The architecture to compile for: ``"sm_80"`` or 80, or ``"compute_90"``, for which a GPU's
        driver makes machine code. By default that of the device. The simulator runs the PTX of any.
    device : str or Device, optional
        ``"cuda"``, ``"cuda:1"``, ``"sim"``, ``"sim:h200"``; by default the GPU that the arguments
        are on, else the first, else the simulator.
    instruction_limit : int, optional
        Warp instructions after which the simulator stops with a LaunchError; none by default.
    headers : mapping, optional
        Texts that ``#include`` finds by these names.
    filename : str, optional
        What messages call the source.

    Raises
    ------
    CompileError
        The source does not compile; the message is the compiler's log.
    PtxError
        The source is PTX text with a mistake, which the message locates.
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
        if entry is not None and not isinstance(entry, str):
            raise TypeError(f"entry must be a string; got {type(entry).__name__}")
        if instruction_limit is not None and not isinstance(instruction_limit, int):
            raise TypeError(
                f"instruction_limit must be an int; got {type(instruction_limit).__name__}"
            )
        if instruction_limit is not None and instruction_limit < 0:
            raise ValueError(f"instruction_limit must not be negative; got {instruction_limit}")
        self.instruction_limit = instruction_limit
        self._wanted = device
        self._device = _devices.resolve(device)
        self._open(_module_of(source, entry, options, arch, headers, filename), entry)

    def _open(self, module: Module, entry: str | None) -> None:
        """Find the entry in the module."""
        self._module = module
        self._functions: dict[str, Any] = {}  # GPU, by device
        self._bound: dict[Any, Any] = {}  # launchers, by kernel[key]
        if module.is_ptx and self._device.kind == "sim":
            module.program(self._device)  # a syntax error shows here, not at the first launch
        compiled = module.compiled(self._device)
        if module.expression is not None:
            entry = compiled.lowered.get(module.expression, entry)
        found = _signature.ptx_entries(compiled.ptx)
        self.entries = tuple(found)
        self.entry = _signature.find_entry(self.entries, entry, module.source)
        self.signature = _signature.signature_of(
            self.entry, found[self.entry], module.text, module.options, module.expression
        )

    def get_function(self, entry: str) -> Kernel:
        """Return another kernel of the same source, which shares its variables (`globals`).

        Parameters
        ----------
        entry : str
            Its name, one of `entries` or unmangled.

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
        if not isinstance(entry, str):
            raise TypeError(f"entry must be a string; got {type(entry).__name__}")
        if "<" in entry and entry != self._module.expression:
            raise ValueError(
                f"{entry!r} is another instantiation, which is a module of its own: "
                f"coalesce.Kernel(source, {entry!r})"
            )
        other = Kernel.__new__(Kernel)
        other.instruction_limit = self.instruction_limit
        other._wanted, other._device = self._wanted, self._device
        other._open(self._module, entry)
        return other

    @property
    def source(self) -> str:
        """The text it was made from."""
        return self._module.source

    @property
    def options(self) -> tuple[str, ...]:
        """The compiler's options."""
        return self._module.options

    @functools.cached_property
    def globals(self) -> Globals:
        """The source's `__device__` and `__constant__` variables by name, on this device."""
        from coalesce._globals import Globals

        return Globals(self._module, self._device)

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
        return self._module.is_ptx

    @property
    def headers(self) -> Mapping[str, str]:
        """Texts that ``#include`` finds by these names."""
        return self._module.headers

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
        stream: Any = None,
    ) -> LaunchRecord:
        """Launch the kernel and tell what it took; the arrays are as after one launch.

        With `runs` on a GPU the kernel runs that often: variables of the source (`globals`) are as
        after all the runs.

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
        stream : stream or int, optional
            Where to launch on a GPU; by default as for ``kernel[grid, block]``.

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
            *extents,
            _geometry.shared(shared_bytes),
            arguments,
            where,
            runs,
            counts,
            write_only,
            _geometry.stream(stream),
        )

    def profile(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device = "sim",
        sample: float | None = None,
        executor: Executor | None = None,
        progress: bool | Callable[[int, int], object] | None = None,
        caches: bool = True,
    ) -> Profile:
        """Launch the kernel and count what its memory accesses cost.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``; the arrays are as after one launch.
        shared_bytes : int
            Dynamic shared memory, bytes a block.
        device, sample, executor, progress, caches
            As of `coalesce.profile`. With a sample or an executor the arrays stay as they are.

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

        settings = _profiler.Settings(sample, executor, progress, caches)
        return _profiler.of_kernel(self, grid, block, arguments, shared_bytes, device, settings)[0]

    def trace(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        blocks: Any = None,
        warps: int | Sequence[int] | None = None,
        lines: int | Sequence[int] | None = None,
        limit: int | None = 100_000,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> Trace:
        """Launch the kernel on the simulator and record its memory instructions.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``. NumPy arrays are as after one launch, unless
            `blocks` are chosen; GPU arrays are copied to the host and stay as they are.
        shared_bytes : int
            Dynamic shared memory, bytes a block.
        device : str or Device, optional
            The GPU whose code is simulated; by default the kernel's own device, or ``"sim"``.
        blocks : int, tuple or sequence of them, optional
            The blocks to run: linear numbers (x fastest), or tuples, each a blockIdx. Only these
            are simulated, on copies of the arrays, with the indices they have in the whole grid.
            By default all.
        warps : int or sequence of int, optional
            The warps of a block to record, by number.
        lines : int or sequence of int, optional
            The source lines to record.
        limit : int or None
            The most events to keep: the first, in the order of blocks. How many were left out is
            in `Trace.omitted`. None keeps all; an event takes about 300 bytes.
        progress : bool or callable, optional
            Whether to show a progress bar, or a function of the numbers of blocks done and in all.
            By default there is one on terminals and in notebooks, after two seconds.

        Returns
        -------
        Trace

        Raises
        ------
        TypeError, ValueError
            There is no such block or warp, or no memory instruction on the lines.
        LaunchError
            Blocks that are run wait for blocks that are not.

        Examples
        --------
        >>> trace = kernel.trace(1, 32, x, 2.0, 5)
        >>> trace
        <Trace of scale: 2 events of 1 warp in 1 block>
        >>> trace.index[0, :6]
        array([ 0,  1,  2,  3,  4, -1])
        """
        from coalesce import _tracer

        wanted = _tracer.Wanted(blocks, warps, lines, limit, progress)
        return _tracer.of_kernel(self, grid, block, arguments, shared_bytes, device, wanted)

    def check(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device = "sim",
        undefined: str | Sequence[str] = (),
    ) -> Findings:
        """Launch the kernel on the simulator and tell what it does wrong.

        Found are accesses outside arrays and misaligned ones, reads of shared, local and undefined
        global memory before anything was written there, data races within and between blocks in
        shared and global memory, barriers that only some threads reach, and warp operations whose
        mask names lanes that take no part. Races are judged by the memory model, not by the order
        in which the simulator ran: a ``__syncthreads()`` that is missing is found even where the
        result came out right. docs/checks.md says more, and what is not found.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``; the arrays are as after one launch. GPU
            arrays are copied to the host, and stay as they are.
        shared_bytes : int
            Dynamic shared memory, bytes a block.
        device : str or Device
            A simulated device.
        undefined : str or sequence of str
            Parameters whose arrays hold nothing yet, as of ``numpy.empty``: a read of an element
            that the kernel has not written is a finding. `coalesce.empty` says so by itself.

        Returns
        -------
        Findings
            False where nothing was found, so that ``assert not kernel.check(...)`` is a test.

        Examples
        --------
        >>> kernel.check(1, 32, x, 2.0, 5)
        check of scale: nothing found
        """
        from coalesce import _checker

        return _checker.of_kernel(self, grid, block, arguments, shared_bytes, device, undefined)

    def observe(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        callback: Callable[[Trace], object],
        batch: int = 65536,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        blocks: Any = None,
        warps: int | Sequence[int] | None = None,
        lines: int | Sequence[int] | None = None,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> int:
        """Launch the kernel on the simulator and hand its memory instructions to a function.

        Tools are made of this: what a `Trace` would hold in memory goes by in batches.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As of `trace`; the arrays are as after one launch, unless `blocks` are chosen.
        callback : callable
            Called with a `Trace` of at most `batch` events, again and again, on the calling thread.
            Events come in the order of their blocks. An exception that it raises ends the launch
            and reaches the caller.
        batch : int
            The most events at a time; they take about 300 bytes each.
        shared_bytes, device, blocks, warps, lines, progress
            As of `trace`.

        Returns
        -------
        int
            How many events there were.

        Raises
        ------
        TypeError, ValueError
            As `trace`, and for a callback or a batch that is none.

        Notes
        -----
        Where blocks may learn of each other (they use what an atomic operation returned, or load
        volatile or with acquire), all of them run before the first batch, in memory.

        Examples
        --------
        How often each element of an array is read:

        >>> reads = np.zeros(a.size, int)
        >>> def count(trace):
        ...     index = trace.select(array="a", kind="load").index
        ...     np.add.at(reads, index[index >= 0], 1)
        >>> kernel.observe(grid, block, a, out, n, callback=count)
        129024
        """
        from coalesce import _counting, _observing, _tracer

        launch = _counting.prepare(self, grid, block, arguments, shared_bytes, device)
        wanted = _tracer.Wanted(blocks, warps, lines, None, progress)
        return _observing.observe(launch, wanted, callback, batch)

    def step(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        of_block: int | tuple[int, ...] = (0, 0, 0),
        limit: int | None = 100_000,
    ) -> Stepper:
        """Walk through one block on the simulator, instruction by instruction.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``; the arrays stay as they are, the block works
            on copies.
        shared_bytes : int
            Dynamic shared memory, bytes a block.
        device : str or Device, optional
            The GPU whose code is simulated; by default the kernel's own device, or ``"sim"``.
        of_block : tuple of int or int
            blockIdx of the block, or its linear number (x fastest). Only this one runs.
        limit : int or None
            The most memory accesses that `Stepper.events` keeps of one command.

        Returns
        -------
        Stepper
            To be iterated over, or to be told how far to go.

        Raises
        ------
        TypeError, ValueError, LaunchError
            As of a launch; or there is no such block.

        Examples
        --------
        >>> with kernel.step(1, 32, x, 2.0, 5) as stepper:
        ...     for step in stepper:
        ...         print(step.line, step.instruction, step.active.sum())
        """
        from coalesce import stepping

        return stepping.of_kernel(
            self, grid, block, arguments, shared_bytes, device, of_block, limit
        )

    def _bind(self, grid: Extent, block: Extent, shared: int, stream: int | None) -> Any:
        slow = functools.partial(self._call, grid, block, shared, stream)
        if self._device.kind != "cuda":
            return slow
        function = self._function(self._device)
        _core.cuda.admit(function, grid, block, shared)
        parameters = [_for_launcher(p) for p in self.signature.parameters]
        return _core.cuda.launcher(function, grid, block, shared, parameters, slow, stream)

    def _call(
        self, grid: Extent, block: Extent, shared: int, stream: int | None, *arguments: Any
    ) -> None:
        self._run(grid, block, shared, arguments, stream=stream)

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
        stream: int | None = None,
    ) -> LaunchRecord:
        arguments = _arguments.prepare(self.signature, given)
        if device is None:
            device = self._device
            on_gpu = [a for a in arguments if isinstance(a, GpuArray)]
            if self._wanted is None and on_gpu and device.kind == "cuda":
                device = _devices.resolve(f"cuda:{on_gpu[0].ordinal}")
            simulated = _simulated_device(arguments)
            if self._wanted is None and simulated is not None:
                device = _devices.resolve(simulated)
        self._check_places(arguments, device)
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
                stream,
            )
        return self._simulate(device, grid, block, shared, arguments, runs, counts)

    def _check_places(self, arguments: Sequence[_arguments.Argument], device: Device) -> None:
        """Raise ValueError for an array in the memory of another device."""
        for parameter, argument in zip(self.signature.parameters, arguments, strict=True):
            if isinstance(argument, GpuArray) and device.kind == "sim":
                raise ValueError(
                    f"argument {parameter} is a GPU array and {device.name} has no GPU memory; "
                    "copy it to NumPy first"
                )
            place = _simulated_device([argument])
            if place is not None and place != device.name:
                raise ValueError(
                    f"argument {parameter} is an array of {place}, the kernel runs on "
                    f"{device.name}; copy it: coalesce.asarray({parameter.name}, "
                    f'device="{device.name}")'
                )

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
        for argument in arguments:
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
            caches=timed,
            instruction_limit=self.instruction_limit or 0,
            **self._module.modelled(device, self.entry),
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
            modelled=Modelled.of(result.model) if timed else None,
        )

    def _compile(self, device: Device) -> _compiler.Compiled:
        return self._module.compiled(device)

    def _program(self, device: Device) -> Any:
        return self._module.program(device)

    def _function(self, device: Device) -> Any:
        function = self._functions.get(device.name)
        if function is None:
            function = _core.cuda.Function(self._module.loaded(device), self.entry)
            self._functions[device.name] = function
        return function


def _simulated_device(arguments: Sequence[_arguments.Argument]) -> str | None:
    """Return the simulated device whose memory the first array in such memory is in."""
    for argument in arguments:
        if isinstance(argument, HostArray) and (found := _simulated.memory_of(argument.given)):
            return found[0].device
    return None


MOST_SOURCE_BYTES = 32 << 20  # CUDA's largest headers together have a fifth of it


_FILE_NAME = re.compile(r"[^\n;{}()]+\.(cu|cuh|ptx|txt|cubin|fatbin)\s*")


def _check_source(source: Any) -> None:
    if not isinstance(source, str):
        raise TypeError(f"source must be a string or a path; got {type(source).__name__}")
    if len(source) > MOST_SOURCE_BYTES:
        raise ValueError(
            f"source has {len(source):,} characters; at most {MOST_SOURCE_BYTES:,} are taken"
        )
    if len(source) < 4096 and re.fullmatch(
        r"[^\n;{}()]+\.(cu|cuh|ptx|txt|cubin|fatbin)\s*", source
    ):
        raise ValueError(
            f"source is a file's name; pass pathlib.Path({source.strip()!r}) for its contents"
        )
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise ValueError(f"source has a NUL character in line {line}")


def _read(path: Path) -> tuple[str, list[str]]:
    """Return a file's text and the options that let it include its neighbours."""
    if path.stat().st_size > 4 * MOST_SOURCE_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, too many for a source")
    content = path.read_bytes()
    if content[:4] in (b"\x7fELF", b"\x50\xed\x55\xba"):
        raise ValueError(f"{path} is machine code; the source must be CUDA C++ or PTX")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path} is not UTF-8 text (line {line})") from None
    own = re.search(r'^[ \t]*#[ \t]*include[ \t]*"', text, re.MULTILINE)
    return text, [f"-I{path.resolve().parent}"] if own else []


def kernels_of(
    source: str,
    entry: str | None,
    options: Sequence[str] = (),
    arch: str | int | None = None,
    *,
    device: str | Device | None = None,
    filename: str | None = None,
) -> list[Kernel]:
    """Return every kernel of a source, the one that `entry` names first; they share a module."""
    chosen = _devices.resolve(device)
    module = _module_of(source, entry, options, arch, None, filename)
    first = Kernel.__new__(Kernel)
    first.instruction_limit, first._wanted, first._device = None, device, chosen
    entries = _signature.ptx_entries(module.compiled(chosen).ptx)
    first._open(module, entry if entry is not None else next(iter(entries), None))
    return [first, *(first.get_function(other) for other in entries if other != first.entry)]


def _module_of(
    source: Any,
    entry: str | None,
    options: Sequence[str],
    arch: str | int | None,
    headers: Mapping[str, str] | None,
    filename: str | None,
) -> Module:
    chosen = _compiler.checked_options(options)
    if isinstance(source, os.PathLike):
        path = Path(source)
        source, found = _read(path)
        filename = filename or path.name
        chosen += found
    _check_source(source)
    is_ptx = _signature.is_ptx(source)
    architecture = _compiler.architecture_name(arch)
    if architecture is not None and is_ptx:
        raise ValueError(
            f"arch={arch!r}: the source is PTX, whose .target line says the architecture"
        )
    name = filename or ("kernel.ptx" if is_ptx else "kernel.cu")
    expression = entry if entry is not None and "<" in entry else None
    return Module(source, tuple(chosen), architecture, headers or {}, name, expression)


def _for_launcher(parameter: Parameter) -> tuple[str, Any]:
    """Return a parameter as the fast launcher takes it."""
    if parameter.kind == "pointer":
        return "pointer", list(parameter.accepted)
    exact = parameter.kind == "scalar" and len(parameter.accepted) == 1
    return "scalar", parameter.accepted[0] if exact else ""


_arguments.register_scalars()
