"""Profiles kernels: counts what the memory accesses of each source line cost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from coalesce.arrays.devices import Device
from coalesce.launch.modelled import Modelled
from coalesce.profiling import run
from coalesce.profiling.data import ArrayInfo
from coalesce.profiling.patterns.classification import Pattern
from coalesce.profiling.patterns.examples import Example
from coalesce.profiling.result import Profile
from coalesce.profiling.rows.accesses import Access, Instruction, Line, Padding
from coalesce.profiling.sentences.gains import Gain
from coalesce.profiling.sentences.verdict import Total

__all__ = [
    "Access",
    "ArrayInfo",
    "Example",
    "Gain",
    "Instruction",
    "Line",
    "Modelled",
    "Padding",
    "Pattern",
    "Profile",
    "Total",
    "profile",
]


def profile(
    operation: str,
    *arrays: Any,
    device: str | Device = "sim",
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
        The operands of the operation:

        - ``"matmul"``: two arrays of shapes (M, K) and (K, N), float32 or float64;
        - ``"transpose"``, ``"row_sums"``, ``"column_sums"``: one array of shape (rows, cols),
          float32 or float64;
        - ``"access"``: one array of shape (n,).
    device : str or Device
        ``"sim"``, or another simulated GPU. For a real GPU, such as ``"cuda"``, the simulator
        counts the accesses of the code that was compiled for this GPU. The kernel also runs on the
        GPU: `measured_ms` is its time there.
    executor : concurrent.futures.Executor, optional
        A process pool, or Dask's ``client.get_executor()``. It simulates parts of the grid in other
        processes or on other machines. The counts are the same as without an executor. The time is
        not modelled.
    progress : bool or callable, optional
        True shows a progress bar, and False shows none. If you pass a function, it is called with
        two numbers: how many blocks are finished, and how many there are. By default, terminals and
        notebooks show a bar after two seconds.
    caches : bool
        Whether to model the caches: their hit rates, the sectors of L2, the bytes of DRAM, and the
        time. A profile with the caches takes up to twice as long as a profile without them.
        Caches are not modelled with `executor`, because they depend on all blocks and on the
        order in which a GPU runs the blocks.
    **options
        Options of the operation, such as ``variant="naive"``, ``tile=16`` or ``pattern="stride"``.

    Returns
    -------
    Profile
        The profile of the operation's main kernel. A call may also launch other kernels: to
        transpose a matrix before the main kernel, or to add up partial sums after it.
        `Profile.preparation` has the profiles of these other kernels.

    Raises
    ------
    ValueError
        There is no such operation. Or an array is empty, so no kernel is launched.
    TypeError, ValueError, DeviceUnavailable
        An argument of the operation is wrong. See the function of the operation, such as `matmul`.

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    128
    """
    settings = run.ProfileSettings(executor, progress, caches)
    return run.of_operation(operation, arrays, device, options, settings)
