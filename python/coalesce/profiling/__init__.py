"""Profiles: what a kernel's memory accesses cost, by source line, counted on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from coalesce.arrays.devices import Device
from coalesce.launch.modelled import Modelled
from coalesce.profiling import run
from coalesce.profiling.examples import Example
from coalesce.profiling.patterns import Pattern
from coalesce.profiling.result import ArrayInfo, Profile
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
    """Profile an operation: count what the memory accesses of its kernel cost.

    Parameters
    ----------
    operation : str
        ``"matmul"``, ``"transpose"``, ``"row_sums"``, ``"column_sums"`` or ``"access"``.
    *arrays : array
        Its operands, as for the function of that name.
    device : str or Device
        ``"sim"``, or another simulated GPU. On ``"cuda"`` the counts come from the simulator too,
        of the code compiled for that GPU, and `measured_ms` is the kernel's time there.
    sample : float, optional
        Simulate this share of the blocks, above 0 and below 1, and estimate the counts; every
        figure is then shown with its standard error. At least a few dozen blocks are simulated, and
        all of a smaller grid. By default all are, and the counts are exact.
    executor : concurrent.futures.Executor, optional
        Simulates ranges of blocks in other processes or on other machines: a process pool, Dask's
        ``client.get_executor()``. The counts are exactly the same; the time is not modelled.
    progress : bool or callable, optional
        Whether to show a progress bar, or a function of the numbers of blocks done and in all. By
        default there is a bar on terminals and in notebooks, after two seconds.
    caches : bool
        Whether to model the caches: hit rates, sectors of the second level, bytes of DRAM, and the
        time they cost. That takes as long again as counting, or less. With a sample or an executor
        they are not modelled, as they depend on all blocks in the order a GPU runs them.
    **options
        Of the operation: ``variant="naive"``, ``tile=16``, ``pattern="stride"``, ...

    Returns
    -------
    Profile
        Of the operation's own kernel; `Profile.preparation` has those that ran before it, such as
        the transposition of a matrix.

    Raises
    ------
    ValueError
        There is no such operation, or nothing to launch, as an array is empty.
    TypeError, ValueError, DeviceUnavailable
        As the operation.

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    128
    """
    settings = run.Settings(sample, executor, progress, caches)
    return run.of_operation(operation, arrays, device, options, settings)
