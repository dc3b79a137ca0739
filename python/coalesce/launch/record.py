"""What a launch took, on whichever device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coalesce.launch.modelled import Modelled


@dataclass(frozen=True)
class LaunchRecord:
    """What one launch took.

    Attributes
    ----------
    kernel_ms : float
        Milliseconds of the kernel, the median over `runs`; 0 where nothing was timed.
    spread : float
        (80th - 20th percentile) / median of the runs, a fraction; 0 for a single one.
    runs : int
        How many timed runs; 0 where nothing was timed.
    h2d_ms, d2h_ms : float
        Milliseconds for copying NumPy arrays to the GPU and back, on the host's clock; 0 where
        nothing was timed or copied.
    source : {"measured", "modelled"}
        By CUDA events on a GPU, or by the simulator's model.
    device : str
        Where it ran: ``"cuda:0"``.
    counts : object or None
        The simulator's counts, where they were asked for.
    modelled : Modelled or None
        Where the simulator modelled the time, what it is made of.
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
