"""Kernels of your own: CUDA C++ or PTX text that runs on NumPy and GPU arrays, and its analyses.

Each analysis launches the kernel on the simulator with another observer.
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

    A kernel can be pickled, so executors and Dask can send it to other processes. The pickle holds
    the source and the options, but not the values of `globals`. The receiver compiles the source
    for its own device, unless `device` names one.

    Parameters
    ----------
    source : str or path
        CUDA C++, compiled by NVRTC, or PTX text, which is taken as it is; or the path of a file of
        either. A program for the host around the kernels is left out (`left_out` says what).
    entry : str, optional
        The kernel's name, mangled or not, or an instantiation of a template, such as
        ``"scale<float, 4>"``. May be left out where the source has one kernel. Instantiations
        that the source's host code launches are compiled, and listed by `entries`.
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
            Dynamic shared memory, bytes per block.
        device, sample, executor, progress, caches
            See `coalesce.profile`. With a sample or an executor the arrays stay as they are.

        Returns
        -------
        Profile

        Raises
        ------
        TypeError, ValueError
            An argument does not fit its parameter, or an option is out of range.
        LaunchError
            No GPU takes this grid and block, or the kernel cannot be run in parts, as a sample or
            an executor needs.
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
            self, grid, block, arguments, shared_bytes, device, settings
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
    ) -> Trace:
        """Launch the kernel on the simulator and record its memory instructions.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``. NumPy arrays are as after one launch, unless
            `blocks` are chosen; GPU arrays are copied to the host and stay as they are.
        shared_bytes : int
            Dynamic shared memory, bytes per block.
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
        from coalesce.tracing import run as tracing_run

        wanted = tracing_run.Wanted(blocks, warps, lines, limit, progress)
        return tracing_run.of_kernel(self, grid, block, arguments, shared_bytes, device, wanted)

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
            Dynamic shared memory, bytes per block.
        device : str or Device
            A simulated device.
        undefined : str or sequence of str
            Parameters whose arrays hold nothing yet, as of ``numpy.empty``: a read of an element
            that the kernel has not written is a finding. `coalesce.empty` says so by itself.

        Returns
        -------
        Findings
            False where nothing was found, so that ``assert not kernel.check(...)`` is a test.

        Raises
        ------
        TypeError, ValueError
            An argument does not fit its parameter, `undefined` does not name an array, or the
            device is a GPU.
        LaunchError
            No GPU takes this grid and block.

        Examples
        --------
        >>> kernel.check(1, 32, x, 2.0, 5)
        check of scale: nothing found
        """
        from coalesce.check import run as check_run

        return check_run.of_kernel(self, grid, block, arguments, shared_bytes, device, undefined)

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
        from coalesce.simulate import counting
        from coalesce.tracing import observe as tracing_observe
        from coalesce.tracing import run as tracing_run

        launch = counting.prepare(self, grid, block, arguments, shared_bytes, device)
        wanted = tracing_run.Wanted(blocks, warps, lines, None, progress)
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
    ) -> Stepper:
        """Walk through one block on the simulator, instruction by instruction.

        Parameters
        ----------
        grid, block : int or tuple of int
        *arguments
            As for ``kernel[grid, block](*arguments)``; the arrays stay as they are, the block works
            on copies.
        shared_bytes : int
            Dynamic shared memory, bytes per block.
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
