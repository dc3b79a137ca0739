"""What a kernel can be asked beside running: what it costs, records, does wrong, and step by step.

Each launches the kernel on the simulator with another observer; the modules that do so are imported
when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from coalesce._devices import Device

if TYPE_CHECKING:
    from coalesce.check import Findings
    from coalesce.kernel import Kernel
    from coalesce.profiling import Profile
    from coalesce.stepping import Stepper
    from coalesce.tracing import Trace


class Analyses:
    """The methods of `Kernel` that observe a launch."""

    @property
    def _kernel(self) -> Kernel:
        from coalesce.kernel import Kernel

        assert isinstance(self, Kernel)
        return self

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
        return _profiler.of_kernel(
            self._kernel, grid, block, arguments, shared_bytes, device, settings
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
        return _tracer.of_kernel(self._kernel, grid, block, arguments, shared_bytes, device, wanted)

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

        return _checker.of_kernel(
            self._kernel, grid, block, arguments, shared_bytes, device, undefined
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

        launch = _counting.prepare(self._kernel, grid, block, arguments, shared_bytes, device)
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
            self._kernel, grid, block, arguments, shared_bytes, device, of_block, limit
        )
