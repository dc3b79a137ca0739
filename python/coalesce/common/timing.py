"""The times of a call, either measured on a GPU or modelled by the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Timing:
    """The times of one call of an operation or a kernel.

    Attributes
    ----------
    kernel_ms : float
        The time of the kernel in milliseconds: the median of the timed runs. An operation may
        launch several kernels, such as a transposition before a product. Then `kernel_ms` is the
        sum of their times. In a benchmark of whole calls, it is the time of the call. NaN if there
        is no time (see `no_time`).
    spread : float
        How much the times of the runs differ: (80th percentile - 20th percentile) / median. 0 for a
        modelled time.
    runs : int
        The number of timed runs. A warm-up before them is not counted.
    h2d_ms, d2h_ms : float
        The times in milliseconds for copying NumPy arrays to the device and back. 0 on the
        simulator, and 0 if the arrays are already on the device.
    gflops : float
        The rate in 1e9 floating-point operations per second. The product of an M x K and a K x N
        matrix counts as 2 M N K operations. A sum counts as one operation per element. 0 if the
        operation only moves data.
    gbps : float
        The rate in 1e9 bytes per second. Each operand counts as read once, and each result as
        written once, as with a perfect cache. The kernel may read an operand several times.
    device : str
        The device of the call, such as ``"cuda:0"``.
    source : {"measured", "modelled"}
        "measured": the time was measured. CUDA events measure kernels on a GPU, and the host's
        clock measures everything else.
        "modelled": the simulator estimated from its counts how long a GPU would take. This is not
        the time that the simulation took.
    parts : tuple of (str, float)
        For each kernel that ran, its name and its time in milliseconds.
    no_time : str
        Empty if there is a time. If the simulator cannot model the time, this is the reason: for
        example, the kernel has copies or matrix products that the model does not know. The time and
        the rates are then NaN.

    Examples
    --------
    >>> c, timing = coalesce.matmul(a, b, return_timing=True)
    >>> timing.source
    'modelled'
    """

    kernel_ms: float
    spread: float
    runs: int
    h2d_ms: float
    d2h_ms: float
    gflops: float
    gbps: float
    device: str
    source: Literal["measured", "modelled"]
    parts: tuple[tuple[str, float], ...] = ()
    no_time: str = ""

    def __repr__(self) -> str:
        if self.no_time:
            return f"Timing(no time {self.source} on {self.device}: {self.no_time})"
        pieces = [f"{milliseconds(self.kernel_ms)} {self.source} on {self.device}"]
        if self.source == "measured":
            pieces.append(f"spread {self.spread:.1%} over {self.runs} runs")
        if self.gflops:
            pieces.append(f"{self.gflops:.4g} GFLOP/s")
        pieces.append(f"{self.gbps:.4g} GB/s")
        if self.h2d_ms or self.d2h_ms:
            copies = f"{milliseconds(self.h2d_ms)} to the device, {milliseconds(self.d2h_ms)} back"
            pieces.append(copies)
        if len(self.parts) > 1:
            kernels = " + ".join(f"{name} {milliseconds(ms)}" for name, ms in self.parts)
            pieces.append(f"kernels {kernels}")
        return f"Timing({'; '.join(pieces)})"


def milliseconds(value: float) -> str:
    """Return a time as text, such as "12.34 ms". `value` is in milliseconds.

    A time below 0.001 ms is shown in microseconds, such as "0.5 us".
    """
    if value == 0:
        return "0 ms"
    decimals = max(0, 3 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 4
    return f"{value:.{decimals}f} ms" if abs(value) >= 1e-3 else f"{value * 1e3:.3g} us"
