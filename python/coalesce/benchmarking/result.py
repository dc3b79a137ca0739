"""`Benchmark`: the timed variants of an operation, one row for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coalesce.arrays.devices import Device
from coalesce.arrays.peaks import Peaks
from coalesce.common.timing import Timing
from coalesce.profiling.result import ArrayInfo

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console, ConsoleOptions, RenderResult

    from coalesce.plots.axes import Theme


@dataclass(frozen=True)
class BenchmarkRow:
    """The times of one variant, and whether its result was right.

    Attributes
    ----------
    variant : str
        Name of the variant.
    timing : Timing
        Its times; `Timing.source` says whether they were measured or modelled.
    error : float or None
        The largest difference of an element from NumPy's result in float64. It is divided by the
        sum of the magnitudes of the terms that were added up for this element. For an operation
        that only moves elements it is 0, or infinity if an element differs. None if the result was
        not checked.
    correct : bool or None
        Whether rounding alone can cause an error of this size; None if the result was not checked.
    gflops_share, gbps_share : float or None
        Rates as shares of the GPU's peaks (`Benchmark.peaks`). None for NumPy, for missing rates,
        and for GPUs whose peaks are not known.
    speedup : float or None
        How many times faster than the first row; None if one is measured and one is modelled.
    bound : str or None
        For a modelled time, what bounds the kernel: ``"bound by DRAM: 8.39 MB"``.
    """

    variant: str
    timing: Timing
    error: float | None = None
    correct: bool | None = None
    gflops_share: float | None = None
    gbps_share: float | None = None
    speedup: float | None = None
    bound: str | None = None


class Benchmark:
    """The timed variants of an operation, as `benchmark` returns them.

    It is a sequence of `BenchmarkRow`. Index it with a number or with a variant's name. It prints
    as a table, also in a notebook.

    Attributes
    ----------
    operation : str
    arrays : tuple of ArrayInfo
        Names, shapes and dtypes of the operands.
    device : Device
    rows : tuple of BenchmarkRow
        The rows, in the order of `variants`.
    peaks : Peaks or None
        The published peaks of the GPU (`Peaks.source`); None if the GPU is not in the table.
    options : dict
        The options of the operation, such as ``{"tile": 16}``.
    """

    def __init__(
        self,
        *,
        operation: str,
        arrays: Sequence[ArrayInfo],
        device: Device,
        rows: Sequence[BenchmarkRow],
        peaks: Peaks | None,
        options: Mapping[str, Any],
    ) -> None:
        # Not for users: `benchmark` calls this.
        self.operation = operation
        self.arrays = tuple(arrays)
        self.device = device
        self.rows = tuple(rows)
        self.peaks = peaks
        self.options = dict(options)

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
        """The timings by variant."""
        return {row.variant: row.timing for row in self.rows}

    @property
    def correct(self) -> bool:
        """Whether all checked results were right."""
        return all(row.correct is not False for row in self.rows)

    @property
    def title(self) -> str:
        """The operation, its arrays and the device: ``"matmul of a (512, 512) and b ..."``."""
        operands = " and ".join(f"{a.name} {a.shape}" for a in self.arrays)
        given = "".join(f", {name}={value}" for name, value in self.short_options.items())
        where = f"{self.device.name} ({self.device.description})"
        if all(row.timing.device == "cpu" for row in self.rows):
            where = "this machine's CPU"
        return f"{self.operation} of {operands}, {self.arrays[0].dtype}{given}, on {where}"

    @property
    def short_options(self) -> dict[str, int | float | str]:
        """The options that are numbers or strings, without arrays."""
        return {k: v for k, v in self.options.items() if isinstance(v, int | float | str)}

    def plot(
        self,
        of: Literal["time", "gflops", "gbps"] = "time",
        *,
        ax: Axes | None = None,
        theme: Theme | None = None,
    ) -> Axes:
        """Plot the variants as a ladder of bars, as `coalesce.plots.ladder` does.

        Parameters
        ----------
        of : {"time", "gflops", "gbps"}
            Milliseconds, or a rate.
        ax, theme
            As for `coalesce.plots.ladder`.

        Returns
        -------
        Axes
            Modelled bars are hatched.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        from coalesce import plots

        return plots.ladder(self.timings, of=of, ax=ax, theme=theme)

    def to_text(self, width: int = 100, *, color: bool = False) -> str:
        """Return the table as text of 80 to 100 columns."""
        from coalesce.render.console import as_text

        return as_text(self, width, color=color)

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Write the table as an HTML page. See `Profile.to_html`."""
        from coalesce.benchmarking import html as benchmark_html
        from coalesce.render import markup

        return markup.write(self.title, benchmark_html.report(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers, for `json.dump`.

        Returns
        -------
        dict
            ``operation``, ``arrays``, ``options``, ``device``, ``peaks`` (None, or the attributes
            of `Peaks`) and ``rows``: the attributes of `BenchmarkRow`, with the attributes of
            `Timing` under ``timing``.
        """
        return {
            "operation": self.operation,
            "arrays": [{**asdict(array), "shape": list(array.shape)} for array in self.arrays],
            "options": self.short_options,
            "device": self.device.name,
            "peaks": None if self.peaks is None else asdict(self.peaks),
            "rows": [_plain(row) for row in self.rows],
        }

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with one row per variant: the attributes of its row and timing.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("to_dataframe needs pandas: pip install pandas") from None
        records = []
        for row in self.rows:
            record = asdict(row)
            timing = record.pop("timing")
            timing.pop("parts")
            variant = record.pop("variant")
            records.append({"variant": variant, **timing, **record})
        return pandas.DataFrame(records).set_index("variant")

    def __str__(self) -> str:
        from coalesce.render.console import shown

        return shown(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from coalesce.benchmarking import html as benchmark_html

        return str(benchmark_html.report(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        from coalesce.benchmarking import text as benchmark_text

        yield from benchmark_text.report(self, options.max_width)


def _plain(row: BenchmarkRow) -> dict[str, Any]:
    fields = asdict(row)
    fields["timing"]["parts"] = [list(part) for part in row.timing.parts]
    # JSON has no infinity and no NaN.
    fields["error"] = None if row.error == float("inf") else row.error
    if row.timing.no_time:
        fields["timing"] |= dict.fromkeys(("kernel_ms", "spread", "gflops", "gbps"))
        fields["timing"]["parts"] = [[name, None] for name, _ in row.timing.parts]
    return fields
