"""Times of kernels for the lessons: recorded times, and times measured on this machine's GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.arrays import devices
from coalesce.common import require
from coalesce.common.timing import Timing, milliseconds
from coalesce.lessons import _measure
from coalesce.lessons._recording import Recording, label, recording
from coalesce.lessons._table import Table
from coalesce.plots import Sweep

Variants = Iterable[str | tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, repr=False)
class Times(Mapping[str, Timing]):
    """The times of variants of an operation, as a mapping. It prints as a table.

    The mapping has the times that were measured on this machine's GPU. Without a GPU, it has the
    recorded times. If there are no times at all, the mapping is empty. You can pass the
    mapping to a plot: ``coalesce.plots.ladder(times, of="gbps")``.

    Attributes
    ----------
    operation : str
        The name of the operation, such as ``"matmul"``.
    n : int
        The size: the matrices have n x n elements of float32. If a kernel of a lesson takes
        vectors, they have n elements.
    recorded, here : mapping of str to Timing
        The times of the variants. `recorded` has the recorded times, and `here` has the times that
        were measured on this machine's GPU.
    recording : Recording or None
        The recording with the recorded times. None if there is none.
    gpu : str
        The name of this machine's GPU. It is empty if there is no GPU.
    against : str
        The variant that the other variants are compared with. The default is the first variant.

    Examples
    --------
    >>> times = coalesce.lessons.times("matmul", ["naive", "tiled"])
    >>> times.against
    'naive'
    """

    operation: str
    n: int
    against: str
    recorded: Mapping[str, Timing] = field(default_factory=dict)
    here: Mapping[str, Timing] = field(default_factory=dict)
    recording: Recording | None = None
    gpu: str = ""

    def __getitem__(self, name: str) -> Timing:
        return (self.here or self.recorded)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.here or self.recorded)

    def __len__(self) -> int:
        return len(self.here or self.recorded)

    def ratio(self, name: str, against: str | None = None) -> float | None:
        """Return the speed of a variant relative to another.

        Parameters
        ----------
        name, against : str
            The names of two variants. By default, `against` is the variant with which the printed
            table compares the others.

        Returns
        -------
        float or None
            The time of `against` divided by the time of `name`. None if one of them has no time.
        """
        if against is not None:
            require.text("against", against)
        other = self.get(against or self.against)
        this = self.get(require.text("name", name))
        return other.kernel_ms / this.kernel_ms if this is not None and other is not None else None

    @property
    def title(self) -> str:
        """The operation and its size: "matmul of 4096 x 4096 float32"."""
        if self.operation == "lesson":
            return f"n = {self.n:,}"
        return f"{self.operation} of {self.n} x {self.n} float32"

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> Table:
        columns, rows = self._cells() if self else ([], [])
        return Table(columns, rows, self._caption())

    def _caption(self) -> str:
        places = []
        if self.recorded and self.recording is not None:
            places.append(f"measured on {self.recording.where}")
        if self.here:
            places.append(f"measured here, on {self.gpu}")
        if not places:
            return f"{self.title}: no measurement is recorded, and there is no GPU here"
        return f"{self.title}, {'; '.join(places)}"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        groups = [g for g in (self.recorded, self.here) if g]
        names = list(dict.fromkeys(name for group in groups for name in group))
        rate = "GFLOP/s" if self._computes() else "GB/s"
        columns = ["variant"]
        for number, _ in enumerate(groups):
            place = " here" if self.here and number == len(groups) - 1 else ""
            columns += [f"ms{place}", rate, f"speed, {self.against} = 1"]
        rows = []
        for name in names:
            row = [name]
            for group in groups:
                row += self._row(group, name)
            rows.append(row)
        return columns, rows

    def _row(self, group: Mapping[str, Timing], name: str) -> list[str]:
        timing, other = group.get(name), group.get(self.against)
        if timing is None:
            return ["", "", ""]
        rate = timing.gflops if self._computes() else timing.gbps
        speed = _factor(other.kernel_ms / timing.kernel_ms) if other is not None else ""
        return [milliseconds(timing.kernel_ms).removesuffix(" ms"), f"{rate:,.0f}", speed]

    def _computes(self) -> bool:
        """True if the table shows GFLOP/s, as for products. False if it shows GB/s."""
        return self.operation == "matmul" or all(t.gflops > t.gbps for t in self.values())


def times(
    operation: str, variants: Variants, *, n: int = 4096, against: str | None = None
) -> Times:
    """Return the recorded times of variants. If there is a GPU, also measure the times on it.

    Parameters
    ----------
    operation : str
        ``"matmul"``, ``"transpose"``, ``"row_sums"`` or ``"column_sums"``. ``"lesson"`` is the name
        for the kernels that belong to a lesson.
    variants : iterable of str or (str, dict)
        The variants. Each is a name, or a name with options: ``("tiled", {"tile": 16})``.
    n : int
        The size: the matrices have n x n elements of float32. If a kernel of a lesson takes
        vectors, they have n elements.
    against : str, optional
        The label of the variant that the other variants are compared with. The default is the first
        variant.

    Returns
    -------
    Times
        The times. Without a GPU and without a recording, the result is empty. Its printed table
        says why.

    Raises
    ------
    ValueError
        `variants` is empty.

    Examples
    --------
    >>> t = coalesce.lessons.times("matmul", ["naive", "coalesced"])
    >>> t.recording is None or t.ratio("coalesced", "naive") > 1
    True
    """
    require.choice("operation", operation, (*catalogue.operations(), "lesson"))
    n = require.whole("n", n, 1, 2**30)  # the bytes of n x n elements fit into 63 bits
    wanted = [_variant(one) for one in require.one_or_several("variants", variants)]
    if not wanted:
        raise ValueError("`variants` is empty; pass the name of at least one variant")
    names = [label(*one) for one in wanted]
    if against is not None:
        require.choice("against", against, names)
    known = recording()
    recorded = known.times(operation, n) if known is not None else {}
    gpu = _gpu()
    here = {}
    if gpu is not None:
        here = {
            label(variant, options): _measure.measure(operation, variant, n, options, gpu.name)
            for variant, options in wanted
        }
    return Times(
        operation=operation,
        n=n,
        against=against or names[0],
        recorded={name: recorded[name] for name in names if name in recorded},
        here=here,
        recording=known,
        gpu=gpu.description if gpu is not None else "",
    )


def _variant(value: Any) -> tuple[str, dict[str, Any]]:
    """Return a variant's name and options."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, tuple | list) and len(value) == 2:
        name, options = value
        if isinstance(name, str) and isinstance(options, Mapping):
            return name, dict(options)
    raise TypeError(
        f"`variants` must contain names or pairs (name, options); got {require.shown(value)}"
    )


def sweep(pattern: str, values: Iterable[int] | None = None) -> Sweep:
    """Return the sectors per load and the bandwidth for several strides, offsets or widths.

    The bandwidth is measured on this machine's GPU. Without a GPU, it is the recorded bandwidth.

    Parameters
    ----------
    pattern : {"stride", "offset", "vector"}
        The name of the pattern. See `coalesce.access`.
    values : iterable of int, optional
        The strides, offsets or widths (see `coalesce.plots.Sweep.run`). Without a GPU, the result
        has bandwidths only if all of these values were recorded.

    Returns
    -------
    Sweep
        The counts and bandwidths. Pass it to ``coalesce.plots.sweep`` to plot them.

    Examples
    --------
    >>> coalesce.lessons.sweep("stride", [1, 2, 8]).sectors
    array([ 4.,  8., 32.])
    """
    counted = Sweep.run(pattern, values)
    known = recording()
    if counted.gbps is not None or known is None:
        return counted
    rates = known.gbps(pattern)
    wanted = counted.values.tolist()
    if not all(value in rates for value in wanted):
        return counted
    return Sweep(
        counted.pattern,
        counted.values,
        counted.itemsize,
        counted.sectors,
        np.array([rates[value] for value in wanted]),
        "measured",
        known.where,
    )


def _factor(value: float) -> str:
    """Return a ratio of speeds as text. It has two decimals, or two digits if it is below 1."""
    return f"{value:.2f}" if value >= 0.995 else f"{value:.2g}"


def _gpu() -> devices.Device | None:
    """Return the GPU that calls run on by default, or None."""
    chosen = devices.resolve(None)
    return chosen if chosen.kind == "cuda" else None
