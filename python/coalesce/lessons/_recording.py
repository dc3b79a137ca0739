"""The times that the lessons show. ``benchmarks/lessons.py`` measured them on a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from coalesce.common.timing import Timing
from coalesce.plots import Sweep

# The file is beside the code, so that it is installed with the package.
FILE = Path(__file__).with_name("h200.json")


def label(variant: str, options: Mapping[str, Any]) -> str:
    """Return the label of a variant with options, such as "tiled, tile=16"."""
    return ", ".join([variant, *(f"{name}={value}" for name, value in options.items())])


@dataclass(frozen=True)
class Recording:
    """The times that one run of ``benchmarks/lessons.py`` measured.

    Attributes
    ----------
    gpu : str
        The name of the GPU, such as ``"NVIDIA H200"``.
    driver, nvrtc, coalesce : str
        The versions of the driver, the compiler and this package.
    date : str
        The date as ``"year-month-day"``.
    command : str
        The command that measured the times.
    ladder : mapping
        What lesson 10 shows of another recording: products of many shapes, beside cuBLAS.

    Examples
    --------
    >>> recorded = coalesce.lessons.recording()
    >>> recorded is None or recorded.gpu.startswith("NVIDIA")
    True
    """

    gpu: str
    driver: str
    nvrtc: str
    coalesce: str
    date: str
    command: str
    ladder: Mapping[str, Any] = field(default_factory=dict)
    _times: tuple[Mapping[str, Any], ...] = ()
    _sweeps: tuple[Mapping[str, Any], ...] = ()
    _counters: tuple[Mapping[str, Any], ...] = ()

    @property
    def where(self) -> str:
        """The GPU and the date in words: "NVIDIA H200, recorded 2026-11-22"."""
        return f"{self.gpu}, recorded {self.date}"

    def times(self, operation: str, n: int) -> dict[str, Timing]:
        """Return the recorded times of the variants of an operation.

        Parameters
        ----------
        operation : str
            The name of the operation, such as ``"matmul"``. ``"lesson"`` is the name for the
            kernels that belong to a lesson.
        n : int
            The size: the matrices have n rows and n columns, and vectors have n elements.

        Returns
        -------
        dict of str to Timing
            The keys are the labels of the variants, such as ``"tiled, tile=16"``. The values are
            the times. The dict is empty if nothing was recorded for this operation and size.
        """
        return {
            label(row["variant"], row["options"]): _timing(row)
            for row in self._times
            if row["operation"] == operation and row["n"] == n
        }

    def sizes(self, operation: str) -> list[int]:
        """Return a list of the sizes `n` for which an operation was timed."""
        return sorted({row["n"] for row in self._times if row["operation"] == operation})

    def counters(self, operation: str, n: int) -> dict[str, dict[str, float]]:
        """Return recorded counters of Nsight Compute, for problems of n x n float32.

        Parameters
        ----------
        operation : str
            The name of the operation, such as ``"matmul"``.
        n : int
            The size: 512 or 4096.

        Returns
        -------
        dict of str to dict
            For each recorded variant, the names of metrics with their values. The dict is empty if
            nothing was recorded for this operation and size.
        """
        return {
            row["variant"]: dict(row["counters"])
            for row in self._counters
            if row["operation"] == operation and row["n"] == n
        }

    def gbps(self, pattern: str, itemsize: int = 4) -> dict[int, float]:
        """Return the recorded bandwidth of a pattern of `coalesce.access`.

        Parameters
        ----------
        pattern : {"stride", "offset", "vector"}
            The name of the pattern.
        itemsize : int
            The size of an element in bytes.

        Returns
        -------
        dict of int to float
            The keys are the recorded strides, offsets or widths. The values are the bandwidths in
            1e9 bytes per second. The dict is empty if nothing was recorded for this pattern.
        """
        for row in self._sweeps:
            if row["pattern"] == pattern and row["itemsize"] == itemsize:
                return dict(zip(row["values"], row["gbps"], strict=True))
        return {}


def _timing(row: Mapping[str, Any]) -> Timing:
    return Timing(
        kernel_ms=row["kernel_ms"],
        spread=row["spread"],
        runs=row["runs"],
        h2d_ms=0.0,
        d2h_ms=0.0,
        gflops=row["gflops"],
        gbps=row["gbps"],
        device=row["device"],
        source="measured",
        parts=tuple((name, ms) for name, ms in row["parts"]),
    )


def row_of(operation: str, variant: str, options: Mapping[str, Any], n: int, t: Timing) -> Any:
    """Return the time `t` of a variant as a dict for the file of recorded times.

    `options` are the variant's options, and `n` is the size of the matrices. If `t` was not
    measured, ValueError is raised.
    """
    if t.source != "measured":
        raise ValueError(
            f"only measured times can be recorded; the time of {operation} {variant} is {t.source}"
        )
    return {
        "operation": operation,
        "variant": variant,
        "options": dict(options),
        "n": n,
        "kernel_ms": t.kernel_ms,
        "spread": t.spread,
        "runs": t.runs,
        "gflops": t.gflops,
        "gbps": t.gbps,
        "device": t.device,
        "parts": [list(part) for part in t.parts],
    }


def sweep_row(sweep: Sweep) -> Any:
    """Return a sweep as a dict for the file of recorded times: the pattern and its bandwidths.

    ValueError is raised if the bandwidths were not measured.
    """
    if sweep.gbps is None or sweep.source != "measured":
        raise ValueError(
            f"only measured sweeps can be recorded; the sweep of {sweep.pattern} was not measured"
        )
    return {
        "pattern": sweep.pattern,
        "itemsize": sweep.itemsize,
        "values": sweep.values.tolist(),
        "gbps": sweep.gbps.tolist(),
    }


def read(file: Path) -> Recording:
    """Return the recording in a file that ``benchmarks/lessons.py`` wrote."""
    data = json.loads(file.read_text(encoding="utf-8"))
    times, sweeps, counters = (tuple(data.pop(k, ())) for k in ("times", "sweeps", "counters"))
    return Recording(**data, _times=times, _sweeps=sweeps, _counters=counters)


@cache
def recording() -> Recording | None:
    """Return the recorded times, or None if the package has no recorded times.

    Examples
    --------
    >>> recorded = coalesce.lessons.recording()
    >>> recorded is None or recorded.times("matmul", 4096)["naive"].kernel_ms > 0
    True
    """
    return read(FILE) if FILE.exists() else None
