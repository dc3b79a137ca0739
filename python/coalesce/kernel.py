"""`Kernel`: compiles your CUDA C++ or PTX, runs it on NumPy or GPU arrays, and analyses it.

Each analysis (a profile, a trace, a check, ...) launches the kernel and observes the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from coalesce.arrays.devices import Device
from coalesce.launch.kernel import BaseKernel
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
    choose a stream, too, write ``kernel[grid, block, shared_bytes, stream](*args)``.

    **Pointers.** Pass a NumPy array of the element type, of any shape. After the call, the array
    contains what the kernel wrote. An array that is not C-contiguous is copied, and written back
    after the launch. A read-only array is refused, unless the parameter is a pointer to const. If
    the kernel runs on a GPU, you may also pass an array in the memory of that GPU: `DeviceArray`,
    CuPy, PyTorch, Numba, or anything with `__cuda_array_interface__` or DLPack.

    **Scalars.** Pass a Python number or a NumPy scalar. It is converted only if this is safe:

    - An integer is converted if the parameter's type holds its value exactly.
    - A NumPy float is converted if the parameter's type is at least as wide.
    - A bool is converted to a bool or an integer.
    - A float is never converted to an integer.

    **Structures.** Pass a dict with a value for each member, or a tuple of the values in their
    order. A member that is a pointer gets an array, or None for a null pointer. A member that is a
    structure gets a dict or a tuple again, and a member that is an array gets a list or an array.
    For a union, pass a dict with one of its members. You can also pass a NumPy structured scalar,
    or bytes. The dtype of a structured scalar is compared with the members. If its fields have
    another layout, TypeError is raised.

    **Waiting.** A call with NumPy arrays returns when the kernel has ended. A call with only GPU
    arrays does not wait.

    **Streams.** On a GPU the kernel runs on `stream`. By default, this is the current stream of the
    arrays' library (CuPy and PyTorch have one), or else the default stream. The simulator accepts a
    stream, and runs every launch immediately.

    **Pickling.** A kernel can be pickled, so executors and Dask can send it to other processes. The
    pickle contains the source and the options, but not the values of `globals`. The receiver
    compiles the source for its own device, unless `device` names one.

    Parameters
    ----------
    source : str or path
        CUDA C++ or PTX text, or the path of a file with such text. NVRTC compiles CUDA C++; PTX is
        used without changes. If the source is a whole program, its host code is left out; the
        attribute `left_out` lists the parts.
    entry : str, optional
        The kernel's name, mangled or not, or an instantiation of a template, such as
        ``"scale<float, 4>"``. Not needed if the source has only one kernel. Instantiations that the
        source's host code launches are compiled, and `entries` lists them.
    options : sequence of str
        Options for NVRTC, such as ``"-DTILE=16"``.
    arch : str or int, optional
        The architecture to compile for: ``"sm_80"`` or 80. With ``"compute_90"``, the result is
        only PTX, which the driver of a GPU compiles. By default the architecture of the device. The
        simulator runs the PTX of any architecture.
    device : str or Device, optional
        ``"cuda"``, ``"cuda:1"``, ``"sim"``, ``"sim:h200"``; by default the GPU that the arguments
        are on, else the first GPU, else the simulator.
    instruction_limit : int, optional
        The largest number of warp instructions that a launch may execute on the simulator, all
        warps together. A launch that needs more stops with a LaunchError. By default there is no
        limit.
    headers : mapping, optional
        Headers for ``#include``: the name of each header, and its text.
    filename : str, optional
        The name of the source in messages.

    Raises
    ------
    CompileError
        The source does not compile. The message is the log of the compiler.
    PtxError
        The source is PTX text with a mistake. The message has its line and column.
    ValueError
        There is no such entry. The message lists the entries of the source.

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
        device: str | Device = "sim",
        sample: float | None = None,
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
            As for ``kernel[grid, block](*arguments)``. Afterwards the arrays contain the result of
            one launch.
        shared_bytes : int
            Dynamic shared memory, bytes per block.
        device, sample, executor, progress, caches
            See `coalesce.profile`. With a sample or an executor the arrays do not change.
        cooperative : bool
            Whether all blocks run at once and may wait for each other (``grid.sync()``); see
            `launch`.

        Returns
        -------
        Profile

        Raises
        ------
        TypeError, ValueError
            An argument does not fit its parameter, or an option is out of range.
        LaunchError
            No GPU supports this grid and block. Or blocks of the kernel communicate, so that they
            cannot be simulated separately for a sample or an executor.
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

        settings = profiling_run.Settings(sample, executor, progress, caches)
        return profiling_run.of_kernel(
            self, grid, block, arguments, shared_bytes, device, settings, cooperative
        )[0]

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
            As for ``kernel[grid, block](*arguments)``. Afterwards NumPy arrays contain the result
            of one launch; if you choose `blocks`, they do not change. GPU arrays are copied to the
            host and do not change.
        shared_bytes : int
            Dynamic shared memory, bytes per block.
        device : str or Device, optional
            The GPU for which the simulated code is compiled; by default the kernel's own device, or
            ``"sim"``.
        blocks : int, tuple or sequence of them, optional
            The blocks to run: linear numbers (x fastest), or tuples that are a blockIdx. Only these
            blocks are simulated, on copies of the arrays. Each block has the blockIdx and gridDim
            that it has in the whole grid. By default all blocks.
        warps : int or sequence of int, optional
            The warps of a block to record, by number. By default all.
        lines : int or sequence of int, optional
            The source lines to record. By default all.
        limit : int or None
            The number of events to keep: the first ones, in the order of blocks. `Trace.omitted`
            counts the rest. None keeps all events; an event takes about 300 bytes.
        progress : bool or callable, optional
            Whether to show a progress bar; or a function that is called with the number of blocks
            that are done and the number of all blocks. By default terminals and notebooks show a
            bar after two seconds.
        cooperative : bool
            Whether all blocks run at once and may wait for each other (``grid.sync()``); see
            `launch`.

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
        return tracing_run.of_kernel(
            self, grid, block, arguments, shared_bytes, device, wanted, cooperative
        )

    def check(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared_bytes: int = 0,
        device: str | Device = "sim",
        undefined: str | Sequence[str] = (),
        cooperative: bool = False,
    ) -> Findings:
        """Launch the kernel on the simulator and report its mistakes.

        The check finds these mistakes:

        - accesses outside arrays, misaligned accesses, and reads of uninitialised memory;
        - data races within and between blocks, in shared and global memory;
        - barriers that only some threads reach;
        - warp operations whose mask names lanes that do not execute the operation.

        Races are found by the rules of the memory model. The order in which the simulator executed
        the threads does not matter. So a missing ``__syncthreads()`` is found even if the result is
        right. docs/checks.md has the details, and lists the mistakes that are not found.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``. Afterwards NumPy arrays contain the result
            of one launch. GPU arrays are copied to the host and do not change.
        shared_bytes : int
            Dynamic shared memory, bytes per block.
        device : str or Device
            A simulated device.
        undefined : str or sequence of str
            Names of parameters whose arrays are uninitialised, such as arrays of ``numpy.empty``. A
            read of an element that the kernel has not written is then a finding. Arrays of
            `coalesce.empty` need not be named.
        cooperative : bool
            Whether all blocks run at once and may wait for each other (``grid.sync()``); see
            `launch`.

        Returns
        -------
        Findings
            A list of findings. It is false if nothing was found, so that
            ``assert not kernel.check(...)`` is a test.

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

        return check_run.of_kernel(
            self, grid, block, arguments, shared_bytes, device, undefined, cooperative
        )

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

        The function gets the events of a `Trace` in batches. So memory need not hold all events.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for `trace`.
        callback : callable
            Called repeatedly on the calling thread, each time with a `Trace` of at most `batch`
            events. Events are in the order of their blocks. An exception of the callback ends the
            launch and is raised to the caller.
        batch : int
            The largest number of events in a call; an event takes about 300 bytes.
        shared_bytes, device, blocks, warps, lines, progress
            As for `trace`.
        cooperative : bool
            Whether all blocks run at once and may wait for each other (``grid.sync()``); see
            `launch`.

        Returns
        -------
        int
            The number of events.

        Raises
        ------
        TypeError, ValueError
            As for `trace`; or `callback` is not callable, or `batch` is not a positive integer.

        Notes
        -----
        Blocks may communicate if they use the result of an atomic operation, or if they load with
        ``volatile`` or ``.acquire``. Then all blocks run before the first batch, and memory holds
        all events.

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
        from coalesce.simulate.prepared import prepare
        from coalesce.tracing import observe as tracing_observe
        from coalesce.tracing import run as tracing_run

        launch = prepare(self, grid, block, arguments, shared_bytes, device, cooperative)
        wanted = tracing_run.Selection(blocks, warps, lines, None, progress)
        return tracing_observe.observe(launch, wanted, callback, batch)

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
    ) -> Stepper:
        """Walk through one block on the simulator, instruction by instruction.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``. The block works on copies of the arrays.
        shared_bytes : int
            Dynamic shared memory, bytes per block.
        device : str or Device, optional
            The GPU for which the simulated code is compiled; by default the kernel's own device, or
            ``"sim"``.
        of_block : tuple of int or int
            blockIdx of the block, or its linear number (x fastest). Only this block runs.
        limit : int or None
            The largest number of events that `Stepper.events` keeps for one call of a method.
        cooperative : bool
            Whether all blocks run at once and may wait for each other (``grid.sync()``); see
            `launch`.

        Returns
        -------
        Stepper
            Iterate over it, or call its methods to run further.

        Raises
        ------
        TypeError, ValueError, LaunchError
            As for a launch; or there is no such block.

        Examples
        --------
        >>> with kernel.step(1, 32, x, 2.0, 5) as stepper:
        ...     for step in stepper:
        ...         print(step.line, step.instruction, step.active.sum())
        """
        from coalesce import stepping

        return stepping.of_kernel(
            self, grid, block, arguments, shared_bytes, device, of_block, limit, cooperative
        )
