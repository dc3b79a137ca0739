"""Traces a launch: records the memory instructions that its warps execute, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coalesce.simulate.events import WARP_SIZE, Trace, TraceArray, TraceEvent, lanes_of
from coalesce.tracing import run

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device

__all__ = ["WARP_SIZE", "Trace", "TraceArray", "TraceEvent", "lanes_of", "trace"]


def trace(
    operation: str,
    *arrays: Any,
    device: str | Device = "sim",
    blocks: Any = None,
    warps: int | Sequence[int] | None = None,
    lines: int | Sequence[int] | None = None,
    limit: int | None = 100_000,
    progress: bool | Callable[[int, int], object] | None = None,
    **options: Any,
) -> Trace:
    """Run an operation on the simulator and record its kernel's memory instructions.

    Parameters
    ----------
    operation : str
        ``"matmul"``, ``"transpose"``, ``"row_sums"``, ``"column_sums"`` or ``"access"``.
    *arrays : array
        The operands of the operation. See `profile`.
    device : str or Device
        ``"sim"``, or another simulated GPU.
    blocks, warps, lines, limit, progress
        Which events to record, and whether to show a progress bar. See `Kernel.trace`.
    **options
        Options of the operation, such as ``variant="naive"``, ``tile=16`` or ``pattern="stride"``.

    Returns
    -------
    Trace
        The events of the operation's main kernel. Kernels that prepare operands are not recorded.

    Raises
    ------
    TypeError, ValueError
        An argument of the operation is wrong, or there is no such block, warp or line. Or an array
        is empty, so no kernel is launched.

    Examples
    --------
    >>> a = np.ones((64, 64), np.float32)
    >>> t = coalesce.trace("matmul", a, a, variant="naive", blocks=0, warps=0)
    >>> t.select(array="a").index[0, :4]  # the lanes read down a column of a
    array([  0,  64, 128, 192])
    """
    wanted = run.Selection(blocks, warps, lines, limit, progress)
    return run.of_operation(operation, arrays, device, options, wanted)
