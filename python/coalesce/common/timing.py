"""The times of a call, measured or modelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Timing:
    """The times of one call.

    Attributes
    ----------
    kernel_ms : float
        Milliseconds of the kernel, the median over `runs`. If an operation launches several
        kernels, such as a transposition before a product, this is the sum of their times. NaN if
        there is no time (`no_time`).
    spread : float
        (80th - 20th percentile) / median of the runs, as a fraction. 0 for a modelled time.
    runs : int
        The number of timed runs, after a warm-up.
    h2d_ms, d2h_ms : float
        Milliseconds for copying NumPy arrays to the device and back. 0 for arrays on the device,
        and on the simulator.
    gflops : float
        1e9 floating-point operations per second. A product counts as 2 M N K operations, a sum as
        one operation per element. The rate is 0 if the operation only moves data.
    gbps : float
        1e9 bytes per second. The bytes are those of a perfect cache: each operand is read once and
        each result is written once. A kernel may really read an operand several times.
    device : str
        The device of the call: ``"cuda:0"``.
    source : {"measured", "modelled"}
        Measured on a GPU by CUDA events, or modelled by the simulator from its counts. A modelled
        time is an estimate of a GPU's time, not the time that the simulation took.
    parts : tuple of (str, float)
        The name of each kernel that ran, and its milliseconds.
    no_time : str
        Why the simulator cannot model the time: the kernel has copies or products that the model
        does not know. Then the time and the rates are NaN. Empty if there is a time.

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
    """Return milliseconds as text, with four significant digits and no exponent."""
    if value == 0:
        return "0 ms"
    decimals = max(0, 3 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 4
    return f"{value:.{decimals}f} ms" if abs(value) >= 1e-3 else f"{value * 1e3:.3g} us"
