"""The record of a launch: its times and counts, on any device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coalesce.launch.modelled import Modelled


@dataclass(frozen=True)
class LaunchRecord:
    """The times and counts of one launch, as `Kernel.launch` returns them.

    Attributes
    ----------
    kernel_ms : float
        Milliseconds of the kernel, the median over `runs`; 0 if nothing was timed, NaN if there is
        no time (`no_time`).
    spread : float
        (80th - 20th percentile) / median of the runs, as a fraction; 0 for a single run.
    runs : int
        Number of timed runs; 0 if nothing was timed.
    h2d_ms, d2h_ms : float
        Milliseconds for copying NumPy arrays to the GPU and back, by the host's clock; 0 if nothing
        was timed or copied.
    source : {"measured", "modelled"}
        Whether `kernel_ms` was measured by CUDA events or modelled by the simulator.
    device : str
        The device of the launch: ``"cuda:0"``.
    counts : object or None
        The simulator's counts, with ``counts=True``. ``counts.metrics()`` returns them by Nsight
        Compute's names.
    modelled : Modelled or None
        How the modelled time is composed; None if the time was measured or not modelled.
    no_time : str
        Why the simulator cannot model the time of this kernel; empty if it can.

    Examples
    --------
    >>> kernel = coalesce.Kernel('extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1; }')
    >>> record = kernel.launch(1, 32, np.zeros(32, np.float32), device="sim", counts=True)
    >>> record.counts.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
    4.0
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
    no_time: str = ""
