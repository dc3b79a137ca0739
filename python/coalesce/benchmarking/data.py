"""The data of a benchmark: one row for each variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import Peaks
from coalesce.benchmarking.calls import WHOLE_CALLS
from coalesce.benchmarking.clock import L2
from coalesce.benchmarking.gpu import GpuState
from coalesce.common.timing import Timing
from coalesce.profiling.data import ArrayInfo


@dataclass(frozen=True)
class BenchmarkRow:
    """The times of one variant, and whether its result was right.

    Attributes
    ----------
    variant : str
        Name of the variant, with its own options if there are any: ``"split_k tile=32"``.
    timing : Timing
        The times. `Timing.source` says whether they were measured or modelled.
    error : float or None
        The largest relative error of an element: ``abs(element - exact) / scale``. ``exact`` is
        NumPy's result in float64. For row and column sums, ``scale`` is the sum of the absolute
        values of the added elements. For matmul, it is an upper bound of the sum of ``abs(a[i, k] *
        b[k, j])``. For operations that only move elements, `error` is 0 if all elements are exact,
        else infinity. None if the result was not checked.
    correct : bool or None
        Whether rounding alone can explain `error`. None if the result was not checked.
    gflops_share, gbps_share : float or None
        `timing.gflops` and `timing.gbps`, divided by the GPU's peaks (`Benchmark.peaks`). None in
        three cases: the variant is NumPy, `timing` does not have the rate, or the peak is not
        known.
    speedup : float or None
        The time of the first row divided by the time of this row. None if one of the two times is
        measured and the other is modelled.
    bound : str or None
        What limits the speed of the kernel, if the time is modelled: ``"bound by DRAM: 8.39 MB"``.
    norm_error : float or None
        The norm of all errors, divided by the norm of NumPy's result in float64. Both are Frobenius
        norms. None if the result was not checked, and for operations that only move elements.
    repeats : int
        The number of calls in each timed run. The time of a run is divided by this number.

    Examples
    --------
    >>> row = coalesce.benchmark("matmul", a, b, variants=["naive"], device="sim")["naive"]
    >>> row.correct, row.timing.source
    (True, 'modelled')
    """

    variant: str
    timing: Timing
    error: float | None = None
    correct: bool | None = None
    gflops_share: float | None = None
    gbps_share: float | None = None
    speedup: float | None = None
    bound: str | None = None
    norm_error: float | None = None
    repeats: int = 1


class BenchmarkData:
    """The data of a `Benchmark`. The docstring of `Benchmark` describes the attributes."""

    def __init__(
        self,
        *,
        operation: str,
        arrays: Sequence[ArrayInfo],
        device: Device,
        rows: Sequence[BenchmarkRow],
        peaks: Peaks | None,
        options: Mapping[str, Any],
        l2: L2 = "kept",
        gpu_state: GpuState | None = None,
        processor: str | None = None,
    ) -> None:
        # Not for users: `benchmark` calls this.
        self.operation = operation
        self.arrays = tuple(arrays)
        self.device = device
        self.rows = tuple(rows)
        self.peaks = peaks
        self.options = dict(options)
        measured = (row.timing for row in self.rows if row.timing.source == "measured")
        on_gpu = any(timing.device != "cpu" for timing in measured)
        self.whole_calls = processor is not None
        self.processor = processor
        self.l2 = l2 if on_gpu and not self.whole_calls else None
        self.ignores_l2 = not on_gpu and l2 == "flushed"
        self.gpu_state = gpu_state

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[BenchmarkRow]:
        return iter(self.rows)

    def __getitem__(self, key: int | str) -> BenchmarkRow:
        if isinstance(key, str):
            for row in self.rows:
                if row.variant == key:
                    return row
            raise KeyError(f"there is no row {key!r}; the rows are {', '.join(self.names)}")
        return self.rows[key]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variants, in order."""
        return tuple(row.variant for row in self.rows)

    @property
    def timings(self) -> dict[str, Timing]:
        """A dict from the names of the variants to their timings."""
        return {row.variant: row.timing for row in self.rows}

    @property
    def comparable(self) -> dict[str, Timing]:
        """The timings of the variants that have a time and a right (or unchecked) result."""
        rows = (row for row in self.rows if row.correct is not False and not row.timing.no_time)
        return {row.variant: row.timing for row in rows}

    @property
    def correct(self) -> bool:
        """Whether all checked results were right. True if no result was checked."""
        return all(row.correct is not False for row in self.rows)

    @property
    def title(self) -> str:
        """The operation, its arrays and the device: ``"matmul of a (512, 512) and b ..."``."""
        operands = " and ".join(f"{a.name} {a.shape}" for a in self.arrays)
        operands = f"{operands}, {self.arrays[0].dtype}" if self.arrays else "a small kernel"
        if self.whole_calls and self.operation not in WHOLE_CALLS:
            operands = f"{operands}, whole calls"
        listed = "".join(f", {name}={value}" for name, value in self.short_options.items())
        where = f"{self.device.name} ({self.device.description})"
        if all(row.timing.device == "cpu" for row in self.rows):
            where = "this machine's CPU"
        return f"{self.operation} of {operands}{listed}, on {where}"

    @property
    def short_options(self) -> dict[str, int | float | str]:
        """The options whose values are numbers or strings. Options that are arrays are left out."""
        return {k: v for k, v in self.options.items() if isinstance(v, int | float | str)}
