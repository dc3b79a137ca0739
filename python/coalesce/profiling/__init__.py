"""Profiles: the cost of a kernel's memory accesses by source line, counted on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from coalesce.arrays.devices import Device
from coalesce.launch.modelled import Modelled
from coalesce.profiling import run
from coalesce.profiling.data import ArrayInfo
from coalesce.profiling.examples import Example
from coalesce.profiling.patterns import Pattern
from coalesce.profiling.result import Profile
from coalesce.profiling.rows import Access, Instruction, Line
from coalesce.profiling.verdict import Total
from coalesce.simulate.sampling import Estimate

__all__ = [
    "Access",
    "ArrayInfo",
    "Estimate",
    "Example",
    "Instruction",
    "Line",
    "Modelled",
    "Pattern",
    "Profile",
    "Total",
    "profile",
]


def profile(
    operation: str,
    *arrays: Any,
    device: str | Device = "sim",
    sample: float | None = None,
    executor: Executor | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    caches: bool = True,
    **options: Any,
) -> Profile:
    """Profile an operation: count the cost of its kernel's memory accesses.

    Parameters
    ----------
    operation : str
        ``"matmul"``, ``"transpose"``, ``"row_sums"``, ``"column_sums"`` or ``"access"``.
    *arrays : array
        The operands of the operation. For ``"matmul"`` two arrays of shapes (M, K) and (K, N); for
        ``"transpose"`` and the sums one array of shape (rows, cols), float32 or float64; for
        ``"access"`` one array of shape (n,).
    device : str or Device
        ``"sim"``, or another simulated GPU. With ``"cuda"`` the counts come from the simulator,
        too, for the code compiled for that GPU; `measured_ms` is the time of the kernel on the GPU.
    sample : float, optional
        Simulate only this share of the blocks, above 0 and below 1, and estimate the counts. Every
        figure is then shown with its standard error. At least a few dozen blocks are simulated; a
        smaller grid is simulated whole. By default all blocks are simulated and counts are exact.
    executor : concurrent.futures.Executor, optional
        Simulates ranges of blocks in other processes or on other machines: a process pool, or
        Dask's ``client.get_executor()``. The counts are the same; the time is not modelled.
    progress : bool or callable, optional
        Whether to show a progress bar; or a function that is called with the number of blocks that
        are done and the number of all blocks. By default terminals and notebooks show a bar after
        two seconds.
    caches : bool
        Whether to model the caches: hit rates, sectors of L2, bytes of DRAM, and their time. This
        takes at most as long as counting. Caches are not modelled with a sample or an executor,
        because they depend on all blocks and on the order in which a GPU runs them.
    **options
        Options of the operation: ``variant="naive"``, ``tile=16``, ``pattern="stride"``, ...

    Returns
    -------
    Profile
        The profile of the operation's own kernel. `Profile.preparation` has the profiles of
        the other kernels of the call: a kernel that transposes a matrix before, or that adds up
        partial sums afterwards.

    Raises
    ------
    ValueError
        There is no such operation, or an array is empty, so that no kernel is launched.
    TypeError, ValueError, DeviceUnavailable
        As for the operation.

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    128
    """
    settings = run.Settings(sample, executor, progress, caches)
    return run.of_operation(operation, arrays, device, options, settings)
