"""`Kernel`: compiles your CUDA C++ or PTX, runs it on NumPy or GPU arrays, and analyses it.

Each analysis (a profile, a trace, a check, ...) launches the kernel and observes the launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coalesce.arrays.devices import Device
from coalesce.launch.kernel import BaseKernel
from coalesce.launch.launch import Launch
from coalesce.launch.record import LaunchRecord

if TYPE_CHECKING:
    from coalesce.check import Findings
    from coalesce.profiling import Profile
    from coalesce.simulate.events import Trace
    from coalesce.stepping import Stepper

__all__ = ["Kernel", "LaunchRecord"]


class Kernel(BaseKernel):
    """A kernel from CUDA C++ source or PTX text.

    ``kernel[grid, block](*args)`` launches the kernel. `grid` and `block` are ints or tuples
    (x, y, z). To add dynamic shared memory, write ``kernel[grid, block, shared_bytes](*args)``. To
    also choose a stream, write ``kernel[grid, block, shared_bytes, stream](*args)``.

    **Pointers.** Pass a NumPy array. Its dtype must be the element type, and it may have any shape.
    After the call, the array contains what the kernel wrote. If an array is not C-contiguous, the
    kernel gets a copy, and the result is copied back after the launch. A read-only array is
    accepted only for a pointer to const. If the kernel runs on a GPU, you may also pass an array in
    the memory of that GPU. It may be a `DeviceArray`, an array of CuPy, PyTorch or Numba, or any
    other object with `__cuda_array_interface__` or DLPack.

    **Views.** You may pass a C-contiguous view of a larger array, such as ``x[r:]``. The kernel may
    then access all of the larger array, as with ``d_x + r`` in CUDA C++. In reports, element 0 is
    the first element of the larger array. On a GPU, the whole larger array is copied. To limit the
    kernel to the view, pass ``coalesce.pointer(x[r:], 0)``. See `coalesce.pointer`.

    **Scalars.** Pass a Python number or a NumPy scalar. It is converted only if this is safe:

    - An integer is converted if the parameter's type holds its value exactly.
    - A NumPy float is converted if the parameter's type is at least as wide.
    - A bool is converted to a bool or an integer.
    - A float is never converted to an integer.

    **Structures.** Pass a dict with a value for each member, or a tuple of the values in the order
    of the members. The value of a member depends on the type of the member:

    - a pointer: an array, or None for a null pointer;
    - a structure: a dict or a tuple;
    - an array: a list or an array.

    For a union, pass a dict with one of its members.

    Instead of a dict or a tuple, you can also pass a NumPy structured scalar, or bytes. The fields
    of the structured scalar must have the same layout as the members.

    **Waiting.** A call with NumPy arrays returns when the kernel has ended. A call with only GPU
    arrays does not wait.

    **Streams.** On a GPU the kernel runs on `stream`. By default, for arrays of CuPy and PyTorch,
    this is the current stream of the library. For other arrays, it is the default stream. The
    simulator accepts a stream, but runs every launch immediately.

    **Pickling.** A kernel can be pickled, so executors and Dask can send it to other processes. The
    pickle contains the source and the options, but not the values of `globals`. The receiver
    compiles the source again. If the kernel was made with `device`, it is compiled for this device,
    and otherwise for the receiver's default device.

    Parameters
    ----------
    source : str, bytes or path
        CUDA C++ or PTX text, or the path of a file with such text. NVRTC compiles CUDA C++; PTX is
        used without changes. A fat binary that contains PTX is allowed, too. If the source is a
        whole program, its host code is left out. The attribute `left_out` lists the parts that were
        left out.
    entry : str, optional
        The name of the kernel. It is needed if the source has several kernels. The mangled name, as
        in the PTX, is allowed, too. For a template, write its arguments: ``"scale<float, 4>"``. If
        the host code of the source launches a template, the launched instantiations are compiled,
        too. The attribute `entries` lists all compiled kernels.
    options : sequence of str
        Options for NVRTC, such as ``"-DTILE=16"``.
    arch : str or int, optional
        The architecture to compile for: ``"sm_80"`` or 80. With ``"compute_90"``, the source is
        compiled only to PTX, and the driver of the GPU compiles this PTX. The default is the
        architecture of the device. The simulator runs the PTX of any architecture.
    device : str or Device, optional
        Where the kernel runs: ``"cuda"``, ``"cuda:1"``, ``"sim"`` or ``"sim:h200"``. The default is
        the GPU whose memory holds the arguments. For NumPy arrays, the default is the first GPU.
        Without a GPU, it is the simulator.
    instruction_limit : int, optional
        The largest number of instructions that all warps of a launch together may execute on the
        simulator. If a launch needs more, it stops with a LaunchError. By default there is no
        limit.
    headers : mapping, optional
        A dict from the names of headers to their texts. The source can include these headers.
    filename : str, optional
        The name of the source in messages.
    signature : str, optional
        For PTX, which has no names and types of parameters: their declaration in CUDA C++, such as
        ``"const float *x, float *y, int n"``. If a parameter is a structure, pass the declaration
        of the structure and of the kernel: ``"struct V { float *x; int n; }; __global__ void
        fill(V v, float value);"``.

    Raises
    ------
    CompileError
        The source does not compile. The message is the log of the compiler.
    PtxError
        The source is PTX text with a mistake. The message has its line and column.
    ValueError
        The source has no kernel with the name `entry`. The message lists the kernels.

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

    A structure is a dict or a tuple:

    >>> kernel = coalesce.Kernel('''
    ... struct Vector { float *x; int n; };
    ... __global__ void fill(Vector v, float value) {
    ...     if (threadIdx.x < v.n) v.x[threadIdx.x] = value;
    ... }''')
    >>> kernel[1, 32]({"x": x, "n": 2}, 9.0)
    >>> x
    array([9., 9., 4., 6., 8.], dtype=float32)
    """

    def profile(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        executor: Executor | None = None,
        progress: bool | Callable[[int, int], object] | None = None,
        caches: bool = True,
        cooperative: bool = False,
    ) -> Profile:
        """Launch the kernel and count what its memory accesses cost.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            The launch, as in ``kernel[grid, block](*arguments)``. Afterwards the arrays contain the
            result of one launch.
        shared_bytes : int
            The dynamic shared memory, in bytes per block.
        device : str or Device, optional
            The GPU to compile for, and to simulate or to measure. The default is the kernel's own
            device, or ``"sim"`` if the kernel is for a GPU.
        executor, progress, caches
            See `coalesce.profile`. With `executor`, the arrays do not change.
        cooperative : bool
            True for a cooperative launch: all blocks run at the same time and may wait for each
            other with ``grid.sync()``. See `launch`.

        Returns
        -------
        Profile

        Raises
        ------
        TypeError, ValueError
            An argument does not fit its parameter, or an option is out of range.
        LaunchError
            No GPU supports this grid and block. Or you passed `executor`, but the blocks
            communicate with each other, so they must be simulated together.
        MemoryFault
            The kernel accesses memory outside its arrays.
        DeviceUnavailable
            There is no such device.

        Examples
        --------
        >>> p = kernel.profile(1, 32, x, 2.0, 5)
        >>> p.sectors_per_request
        {'load': 1.0, 'store': 1.0}
        """
        from coalesce.profiling import run as profiling_run

        settings = profiling_run.ProfileSettings(executor, progress, caches)
        launch = Launch.of(self, grid, block, shared_bytes, cooperative)
        return profiling_run.of_launch(launch.bind_on_host(arguments, device), settings)[0]

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
        cooperative: bool = False,
    ) -> Trace:
        """Launch the kernel on the simulator and record its memory instructions.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            The launch, as in ``kernel[grid, block](*arguments)``. Afterwards NumPy arrays contain
            the result of one launch. If you choose `blocks`, no array changes. GPU arrays are
            copied to the host and do not change.
        shared_bytes : int
            The dynamic shared memory, in bytes per block.
        device : str or Device, optional
            The GPU to compile for and to simulate. The default is the kernel's own device, or
            ``"sim"`` if it has none.
        blocks : int, tuple or sequence of them, optional
            The blocks to run. Name a block by its blockIdx, a tuple (x, y, z), or by its number in
            the grid, an int. (The numbers run along x first, then along y, then along z.) Only
            these blocks are simulated, on copies of the arrays. Their blockIdx and gridDim are the
            same as in the whole grid. The default is all blocks.
        warps : int or sequence of int, optional
            The numbers of the warps to record, in each block. The default is all warps.
        lines : int or sequence of int, optional
            The source lines to record. The default is all lines.
        limit : int or None
            The largest number of events to keep. The events of the first blocks are kept.
            `Trace.omitted` counts the other events. None keeps all events. An event takes about 300
            bytes.
        progress : bool or callable, optional
            True shows a progress bar, and False shows none. If you pass a function, it is called
            with two numbers: how many blocks are finished, and how many there are. By default,
            terminals and notebooks show a bar after two seconds.
        cooperative : bool
            True for a cooperative launch: all blocks run at the same time and may wait for each
            other with ``grid.sync()``. See `launch`.

        Returns
        -------
        Trace

        Raises
        ------
        TypeError, ValueError
            There is no such block or warp, or the lines have no memory instruction.
        LaunchError
            A chosen block waits for a block that is not chosen.

        Examples
        --------
        >>> trace = kernel.trace(1, 32, x, 2.0, 5)
        >>> trace
        <Trace of scale: 2 events of 1 warp in 1 block>
        >>> trace.index[0, :6]
        array([ 0,  1,  2,  3,  4, -1])
        """
        from coalesce.tracing import run as tracing_run

        wanted = tracing_run.Selection(blocks, warps, lines, limit, progress)
        launch = Launch.of(self, grid, block, shared_bytes, cooperative)
        return tracing_run.of_launch(launch.bind_on_host(arguments, device), wanted)

    def check(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        undefined: str | Sequence[str] = (),
        cooperative: bool = False,
        strict: bool = False,
        instruction_limit: int | None = None,
    ) -> Findings:
        """Launch the kernel on the simulator and report its mistakes.

        The check finds these mistakes:

        - accesses outside arrays, misaligned accesses, and reads of uninitialised memory;
        - data races within and between blocks, in shared and global memory;
        - barriers that only some threads reach;
        - warp operations, such as ``__shfl_sync()``, with a wrong mask: the mask names lanes that
          do not execute the operation.

        Two accesses are a race if no rule of CUDA's memory model orders them. It does not matter in
        which order the simulator executed them. So the check finds a missing ``__syncthreads()``
        even if the result is right. docs/checks.md has the details, and lists the mistakes that the
        check does not find.

        If you pass a view such as ``x[r:]``, the kernel may access all of `x`. Accesses outside the
        view are not mistakes. They are in ``Findings.notes``. To make them errors, pass
        ``coalesce.pointer(x[r:], 0)``.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            The launch, as in ``kernel[grid, block](*arguments)``. Afterwards NumPy arrays contain
            the result of one launch. GPU arrays are copied to the host and do not change.
        shared_bytes : int
            The dynamic shared memory, in bytes per block.
        device : str or Device, optional
            The GPU to compile for and to simulate: ``"sim"``, or another one such as
            ``"sim:h200"``. The default is the kernel's own device, or ``"sim"`` if the kernel is
            for a GPU.
        undefined : str or sequence of str
            The names of parameters whose arrays have no values yet, for example because
            ``numpy.empty`` made them. If the kernel reads an element of such an array before it
            writes the element, this is a finding. You need not name arrays of `coalesce.empty`: the
            check knows that they have no values yet.
        cooperative : bool
            True for a cooperative launch: all blocks run at the same time and may wait for each
            other with ``grid.sync()``. See `launch`.
        strict : bool
            True for stricter rules. Two accesses through a ``volatile`` pointer can then be a race,
            and the warnings about races are errors. docs/checks.md has a table of both settings.
        instruction_limit : int, optional
            The largest number of warp instructions that the check may execute, instead of the
            kernel's own `instruction_limit`. 0 means no limit.

        Returns
        -------
        Findings
            A list of the mistakes. It is empty if the check found nothing. So
            ``assert not kernel.check(...)`` can be used as a test.

        Raises
        ------
        TypeError, ValueError
            An argument does not fit its parameter, `undefined` does not name an array, or the
            device is a GPU.
        LaunchError
            No GPU supports this grid and block.

        Examples
        --------
        >>> kernel.check(1, 32, x, 2.0, 5)
        check of scale: nothing found
        """
        from coalesce.check import run as check_run

        where = None if device is None else check_run.device_of(device)
        launch = Launch.of(self, grid, block, shared_bytes, cooperative)
        bound = launch.bind_on_host(arguments, where)
        return check_run.of_launch(bound, undefined, strict, instruction_limit)

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
        cooperative: bool = False,
    ) -> int:
        """Launch the kernel on the simulator and pass its memory instructions to a function.

        The function gets the events in batches, each as a `Trace`. So the events need not all be in
        memory at the same time.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            See `trace`.
        callback : callable
            A function that is called for each batch, with a `Trace` of at most `batch` events. It
            gets the events in the order of their blocks. It runs in the thread that called
            `observe`. If it raises an exception, the launch ends, and `observe` raises this
            exception.
        batch : int
            The largest number of events in a batch. An event takes about 300 bytes.
        shared_bytes, device, blocks, warps, lines, progress
            See `trace`.
        cooperative : bool
            True for a cooperative launch: all blocks run at the same time and may wait for each
            other with ``grid.sync()``. See `launch`.

        Returns
        -------
        int
            The number of all events.

        Raises
        ------
        TypeError, ValueError
            An argument is wrong (see `trace`), `callback` is not a function, or `batch` is not a
            positive integer.

        Notes
        -----
        If the blocks of a kernel may communicate, all blocks run before `callback` gets the first
        batch. Then all events must fit into memory. Blocks may communicate if the kernel uses the
        result of an atomic operation, or if it loads with ``volatile`` or ``.acquire``.

        Examples
        --------
        How often each element of an array is read:

        >>> reads = np.zeros(5, int)
        >>> def count(trace):
        ...     index = trace.select(array="x", kind="load").index
        ...     np.add.at(reads, index[index >= 0], 1)
        >>> kernel.observe(1, 32, x, 2.0, 5, callback=count)
        2
        >>> reads
        array([1, 1, 1, 1, 1])
        """
        from coalesce.tracing import observe as tracing_observe
        from coalesce.tracing import run as tracing_run

        launch = Launch.of(self, grid, block, shared_bytes, cooperative)
        launch = launch.bind_on_host(arguments, device)
        wanted = tracing_run.Selection(blocks, warps, lines, None, progress)
        return tracing_observe.observe(launch, wanted, callback, batch)

    def write_trace(
        self,
        folder: str | Path,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        cooperative: bool = False,
    ) -> Path:
        """Launch the kernel on the simulator and write a trace for the simulator Accel-Sim.

        Accel-Sim's own tracer needs a GPU of the same kind as the simulated one. Here, no GPU is
        needed. The trace has every machine instruction that a warp executes.

        Parameters
        ----------
        folder : str or Path
            The folder of the trace. It must not have a trace yet.
        grid, block : int or tuple of int
        *arguments
            The launch, as in ``kernel[grid, block](*arguments)``. Afterwards the arrays contain the
            result of one launch.
        shared_bytes : int
            The dynamic shared memory, in bytes per block.
        device : str or Device, optional
            The GPU to compile for and to simulate: one of compute capability 9.0, whose machine
            code the simulator executes.
        cooperative : bool
            True for a cooperative launch. See `launch`.

        Returns
        -------
        Path
            The file ``kernelslist.g``, which Accel-Sim takes as ``-trace``.

        Raises
        ------
        FileExistsError
            The folder has a trace.
        LaunchError
            The kernel copies with the copy engine (TMA), or the simulator cannot execute its
            machine code.

        Examples
        --------
        >>> kernel.write_trace("scale_trace", 1, 32, x, 2.0, 5)  # doctest: +SKIP
        PosixPath('scale_trace/kernelslist.g')
        """
        from coalesce.tracing import accel_sim

        launch = Launch.of(self, grid, block, shared_bytes, cooperative)
        return accel_sim.write(launch.bind_on_host(arguments, device), folder)

    def step(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device | None = None,
        of_block: int | tuple[int, ...] = (0, 0, 0),
        limit: int | None = 100_000,
        cooperative: bool = False,
        optimized: bool = False,
    ) -> Stepper:
        """Execute one block of a launch on the simulator, instruction by instruction.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            The launch, as in ``kernel[grid, block](*arguments)``. The block works on copies of the
            arrays.
        shared_bytes : int
            The dynamic shared memory, in bytes per block.
        device : str or Device, optional
            The GPU to compile for and to simulate. The default is the kernel's own device, or
            ``"sim"`` if it has none.
        of_block : tuple of int or int
            The block to execute: its blockIdx, or its number in the grid. (The numbers run along x
            first, then along y, then along z.) Only this block runs.
        limit : int or None
            The largest number of memory accesses that `Stepper.events` keeps. None keeps all of
            them. `Stepper.events` has the accesses of the last call of `Stepper.step`,
            `Stepper.run_to` or a similar method.
        cooperative : bool
            True for a cooperative launch: all blocks run at the same time and may wait for each
            other with ``grid.sync()``. See `launch`.
        optimized : bool
            By default, the stepper executes a build for debugging (compiled with ``-G``): the
            source lines run one after the other, and `Stepper.variables` shows the variables. With
            True, it executes the optimized instructions of a launch, without variables.

        Returns
        -------
        Stepper
            Iterate over it, or call its methods to run further.

        Raises
        ------
        TypeError, ValueError, LaunchError
            An argument of the launch is wrong, or the grid has no such block.

        Examples
        --------
        >>> with kernel.step(1, 32, x, 2.0, 5) as stepper:
        ...     active = [(step.line, int(step.active.sum())) for step in stepper]
        >>> active[0], active[-2]  # the line of an instruction, and how many lanes execute it
        ((1, 32), (4, 5))
        """
        from coalesce import stepping

        launch = Launch.of(self, grid, block, shared_bytes, cooperative)
        return stepping.of_launch(
            launch.bind_on_host(arguments, device), of_block, limit, optimized
        )


# Python's message about a wrong call shows the qualified name of the function. Users know the class
# `Kernel`, not its base classes.
for _base in Kernel.__mro__[1:-1]:
    for _name, _function in vars(_base).items():
        if inspect.isfunction(_function):
            _function.__qualname__ = f"Kernel.{_name}"
