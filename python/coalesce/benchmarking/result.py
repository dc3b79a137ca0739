"""`Benchmark`: the timed variants of an operation, one row for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from coalesce.benchmarking.data import BenchmarkData, BenchmarkRow
from coalesce.render.report import Report

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from rich.table import Table
    from rich.text import Text

    from coalesce.plots.axes import Theme


class Benchmark(Report, BenchmarkData):
    """The timed variants of an operation, as `benchmark` returns them.

    It is a sequence of `BenchmarkRow`. Index it with a number or with a variant's name. It prints
    as a table, also in a notebook.

    Attributes
    ----------
    operation : str
        The name of the operation, or ``"copies"`` or ``"launch"``.
    arrays : tuple of ArrayInfo
        The names, shapes and dtypes of the operands.
    device : Device
        The device that the variants ran on.
    rows : tuple of BenchmarkRow
        A row for each variant, in the order of the argument `variants`.
    peaks : Peaks or None
        The peak rates of the GPU: the largest GFLOP/s and GB/s that its maker publishes. None if
        the package does not know them.
    options : dict
        The options of the operation, such as ``{"tile": 16}``. The value of ``"out"`` is the dtype
        of the result array.
    l2 : {"kept", "flushed"} or None
        What L2 holds when a run begins: ``"kept"`` means data of the previous run, and
        ``"flushed"`` means no data of the arrays. None if all times are modelled, or measured by
        the host's clock.
    gpu_state : GpuState or None
        The clock, the power and the throttle reasons of the GPU. nvidia-smi reported them while the
        variants ran again, after the timed runs. None without a GPU or without nvidia-smi.
    whole_calls : bool
        True if the times are those of whole calls, measured by the host's clock. Then the attribute
        ``timing.kernel_ms`` of a row is the time of a whole call.
    processor : str or None
        How many processors the host has, and their name, if whole calls were timed. Otherwise None.

    Examples
    --------
    >>> result = coalesce.benchmark("matmul", a, b, variants=["naive", "tiled"], device="sim")
    >>> [row.variant for row in result]
    ['naive', 'tiled']
    """

    def plot(
        self,
        of: Literal["time", "gflops", "gbps"] = "time",
        *,
        ax: Axes | None = None,
        theme: Theme | None = None,
    ) -> Axes:
        """Plot a bar for each variant, with `coalesce.plots.ladder`.

        Variants with a wrong result or without a time have no bar.

        Parameters
        ----------
        of : {"time", "gflops", "gbps"}
            The quantity to show: milliseconds, GFLOP/s or GB/s.
        ax, theme
            See `coalesce.plots.ladder`.

        Returns
        -------
        Axes
            The Axes with the bars. Bars of modelled times are hatched.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        ValueError
            No variant has a time and a right result.
        """
        from coalesce import plots

        return plots.ladder(self.comparable, of=of, ax=ax, theme=theme)

    def to_dict(self) -> dict[str, Any]:
        """Return the benchmark as a dict that `json.dump` can write.

        Returns
        -------
        dict
            The keys are:

            - ``operation``, ``arrays``, ``options``, ``device``: the attributes of the benchmark;
            - ``peaks``: None, or a dict of the attributes of `Peaks`;
            - ``l2``, ``whole_calls``, ``processor``: the attributes of the benchmark;
            - ``gpu_state``: None, or a dict of the attributes of `GpuState`;
            - ``rows``: for each row, a dict of the attributes of `BenchmarkRow`. Its item
              ``timing`` is a dict of the attributes of `Timing`.
        """
        return {
            "operation": self.operation,
            "arrays": [{**asdict(array), "shape": list(array.shape)} for array in self.arrays],
            "options": self.short_options,
            "device": self.device.name,
            "peaks": None if self.peaks is None else asdict(self.peaks),
            "l2": self.l2,
            "whole_calls": self.whole_calls,
            "processor": self.processor,
            "gpu_state": None if self.gpu_state is None else asdict(self.gpu_state),
            "rows": [_plain(row) for row in self.rows],
        }

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with one row per variant.

        The columns are the attributes of `BenchmarkRow` and of `Timing`, except `Timing.parts`.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_dataframe() needs pandas, which is not installed: pip install pandas"
            ) from None
        records = []
        for row in self.rows:
            record = asdict(row)
            timing = record.pop("timing")
            timing.pop("parts")
            variant = record.pop("variant")
            records.append({"variant": variant, **timing, **record})
        return pandas.DataFrame(records).set_index("variant")

    def _parts(self, width: int) -> Iterator[Text | Table]:
        from coalesce.benchmarking import text as benchmark_text

        return benchmark_text.report(self, width)

    def _markup(self) -> Markup:
        from coalesce.benchmarking import html as benchmark_html

        return benchmark_html.report(self)


def _plain(row: BenchmarkRow) -> dict[str, Any]:
    fields = asdict(row)
    fields["timing"]["parts"] = [list(part) for part in row.timing.parts]
    # JSON has no infinity and no NaN.
    fields["error"] = None if row.error == float("inf") else row.error
    if row.timing.no_time:
        fields["timing"] |= dict.fromkeys(("kernel_ms", "spread", "gflops", "gbps"))
        fields["timing"]["parts"] = [[name, None] for name, _ in row.timing.parts]
    return fields
