"""The candidates of a benchmark (variants and libraries), with their times and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import Peaks
from coalesce.benchmarking.data import BenchmarkRow
from coalesce.benchmarking.gpu import GpuState, state_under_load
from coalesce.benchmarking.rounds import Batch, Runs, Times, interleaved
from coalesce.catalogue.operands import Operand
from coalesce.catalogue.reference import Reference
from coalesce.common.dtypes import code_of, dtype_name
from coalesce.common.timing import Timing
from coalesce.profiling.data import ArrayInfo


@dataclass
class Candidate:
    """A variant or library that ran once, with the data that is needed to time it."""

    name: str
    timing: Timing
    work: tuple[float, float] = (0.0, 0.0)  # operations and bytes
    batch: Batch | None = None  # None if the time is modelled
    repeats: int = 1  # in each run
    parts: tuple[str, ...] = ()  # the names of the kernels
    error: float | None = None
    norm_error: float | None = None
    correct: bool | None = None
    bound: str | None = None


def times_of(
    candidates: Sequence[Candidate], device: Device, runs: Runs, *, shuffled: bool = False
) -> tuple[dict[str, list[Times]], GpuState | None]:
    """Time the candidates. Return the times of their runs, and the state of the GPU.

    The candidates on a GPU take turns (see `interleaved`). NumPy runs alone, after the others.
    """
    taking_turns = {c.name: c.batch for c in candidates if c.batch and c.name != "numpy"}
    times = interleaved(taking_turns, runs, shuffled=shuffled)
    state = None
    if taking_turns:
        state = state_under_load(device, lambda: [run(1) for run in taking_turns.values()])
    for c in candidates:
        if c.name == "numpy" and c.batch:
            times |= interleaved({c.name: c.batch}, runs)
    return times, state


def rows_of(
    candidates: Sequence[Candidate], times: Mapping[str, Sequence[Times]], peaks: Peaks | None
) -> list[BenchmarkRow]:
    """Return a row of the table for each candidate.

    `times` maps the name of a candidate to the times of its runs.
    """
    return _with_speedups([_row(c, times.get(c.name), peaks) for c in candidates])


def info_of(operand: Operand) -> ArrayInfo:
    """Describe an operand, for the title and the JSON text of a benchmark."""
    return ArrayInfo(operand.name, operand.shape, dtype_name(code_of(operand.dtype)))


def compare(
    candidate: Candidate, exact: Reference, result: np.ndarray[Any, Any], tolerance: float
) -> None:
    """Compare `result` with `exact`, the result of NumPy. Store the errors in the candidate."""
    candidate.error = exact.error(result)
    candidate.norm_error = exact.norm_error(result)
    candidate.correct = candidate.error <= tolerance


def _row(candidate: Candidate, times: Sequence[Times] | None, peaks: Peaks | None) -> BenchmarkRow:
    timing = candidate.timing if times is None else _timing(candidate, times)
    if candidate.name == "numpy":
        peaks = None
    shares = (
        timing.gflops / peaks.gflops if peaks and peaks.gflops and timing.gflops else None,
        timing.gbps / peaks.gbps if peaks else None,
    )
    if timing.no_time:
        shares = None, None
    return BenchmarkRow(
        candidate.name,
        timing,
        candidate.error,
        candidate.correct,
        *shares,
        None,
        candidate.bound,
        candidate.norm_error,
        candidate.repeats,
    )


def _timing(candidate: Candidate, times: Sequence[Times]) -> Timing:
    """Return the timing of a candidate, with the times of its runs."""
    totals = [sum(one) for one in times]
    kernel_ms = float(np.median(totals))
    rate = 1e-6 / kernel_ms if kernel_ms > 0 else 0.0
    medians = (float(np.median(part)) for part in zip(*times, strict=True))
    return replace(
        candidate.timing,
        kernel_ms=kernel_ms,
        spread=cuda.spread(totals),
        runs=len(times),
        gflops=candidate.work[0] * rate,
        gbps=candidate.work[1] * rate,
        parts=tuple(zip(candidate.parts, medians, strict=False)),
    )


def _with_speedups(rows: Sequence[BenchmarkRow]) -> list[BenchmarkRow]:
    """Return the rows with their speedups over the first row.

    If the first row is measured and another row is modelled, or the reverse, that row gets no
    speedup.
    """
    first = rows[0].timing
    compared = []
    for row in rows:
        comparable = row.timing.source == first.source and row.timing.kernel_ms > 0
        comparable = comparable and not first.no_time
        compared.append(
            replace(row, speedup=first.kernel_ms / row.timing.kernel_ms) if comparable else row
        )
    return compared
