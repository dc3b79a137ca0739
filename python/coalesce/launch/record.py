"""The result of a launch: its times and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coalesce.launch.modelled import Modelled


@dataclass(frozen=True)
class LaunchRecord:
    """The times and counts of one launch. `Kernel.launch` returns such an object.

    Attributes
    ----------
    kernel_ms : float
        The time of the kernel in milliseconds: the median over `runs`. 0 if nothing was timed. NaN
        if the simulator cannot model the time (see `no_time`).
    spread : float
        How much the times of the runs differ: (80th percentile - 20th percentile) / median. 0 for a
        single run.
    runs : int
        The number of timed runs. 0 if nothing was timed.
    h2d_ms, d2h_ms : float
        The times in milliseconds for copying NumPy arrays to the GPU and back, measured on the
        host. 0 if nothing was timed or copied.
    source : {"measured", "modelled"}
        "measured" if CUDA events measured `kernel_ms` on a GPU, "modelled" if the simulator
        estimated it.
    device : str
        The device of the launch, such as ``"cuda:0"``.
    counts : object or None
        The simulator's counts, if the launch had ``counts=True``. ``counts.metrics()`` returns a
        dict of them, with Nsight Compute's names.
    modelled : Modelled or None
        The details of a modelled time. None if no time was modelled.
    no_time : str
        Why the simulator cannot model the time of this kernel. Empty if it can.

    Examples
    --------
    >>> kernel = coalesce.Kernel('extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1; }')
    >>> record = kernel.launch(1, 32, np.zeros(32, np.float32), device="sim", counts=True)
    >>> record.counts.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
    4.0
    """

    kernel_ms: float = 0.0
    spread: float = 0.0
    runs: int = 0
    h2d_ms: float = 0.0
    d2h_ms: float = 0.0
    source: Literal["measured", "modelled"] = "modelled"
    device: str = ""
    counts: Any = None
    modelled: Modelled | None = None
    no_time: str = ""
