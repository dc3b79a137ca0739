"""The data of a comparison of profiles.

A row is about one quantity, such as "global load sectors". It has the value of this quantity in
each profile. A pair has a source line of the first profile, and the same line of another profile.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coalesce.common import require
from coalesce.common.forks import cached_property

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData
    from coalesce.profiling.rows.accesses import Line
    from coalesce.profiling.sentences.verdict import Total

# Metrics that a comparison shows: their names, their resources, and whether more is better.
_INSTRUCTIONS = {
    "smsp__inst_executed.sum": ("instructions of warps", "issue", False),
    "smsp__thread_inst_executed_per_inst_executed.ratio": (
        "active lanes per instruction",
        "issue",
        True,
    ),
}
_MODELLED = {
    "l1tex__t_sector_hit_rate.pct": ("L1 hit rate, % (modelled)", "l2", True),
    "lts__t_sectors_srcunit_tex_op_read.sum": ("L2 sectors read (modelled)", "l2", False),
    "lts__t_sectors_srcunit_tex_op_write.sum": ("L2 sectors written (modelled)", "l2", False),
    "dram__bytes_read.sum": ("DRAM bytes read (modelled)", "dram", False),
    "dram__bytes_write.sum": ("DRAM bytes written (modelled)", "dram", False),
}


@dataclass(frozen=True)
class Row:
    """The values of one quantity of a `Comparison`.

    Attributes
    ----------
    name : str
        The quantity: ``"global load sectors"``.
    values : tuple of (float or None)
        A value for each profile. None if a profile has no value.
    resource : str or None
        The part of a multiprocessor whose cycles the quantity changes, as in
        ``Profile.modelled.cycles``: ``"data"`` for sectors. None for times, which are the result.
    more_is_better : bool
        Whether a larger value is an improvement.
    """

    name: str
    values: tuple[float | None, ...]
    resource: str | None = None
    more_is_better: bool = False

    def ratio(self, i: int) -> float | None:
        """Return the i-th value divided by the first value.

        Return None if the first value is 0, or if one of the two values is missing.
        """
        first, value = self.values[0], self.values[i]
        return value / first if first and value is not None else None

    @property
    def changed(self) -> bool:
        """Whether a value differs from the first value."""
        return any(value != self.values[0] for value in self.values)

    def better(self, i: int) -> bool | None:
        """Whether the i-th value is better than the first value.

        The result is None if the values differ by at most 2 %, if a value is missing, or if the
        first value is 0.
        """
        first, value = self.values[0], self.values[i]
        if not first or value is None or abs(value - first) <= 0.02 * abs(first):
            return None
        return (value > first) == self.more_is_better


def rows_of(profiles: Sequence[ProfileData]) -> Iterator[Row]:
    """Yield the rows: times, instructions, accesses of each memory, bank conflicts, and caches."""
    measured = tuple(p.measured_ms for p in profiles)
    modelled = tuple(p.modelled_ms for p in profiles)
    for kind, times in (("measured", measured), ("modelled", modelled)):
        if any(time is not None for time in times):
            yield Row(f"time, ms ({kind})", times)
    fits = (p.modelled.blocks_per_multiprocessor if p.modelled else None for p in profiles)
    yield Row("registers per thread", tuple(p.registers or None for p in profiles), "latency")
    yield Row("blocks per multiprocessor", tuple(fits), "latency", more_is_better=True)
    alone = ((p.modelled and round(p.modelled.work["latency"])) or None for p in profiles)
    yield Row("cycles of a warp alone (modelled)", tuple(alone), "latency")
    passes = ((p.modelled and int(p.modelled.work["tag_lookups"])) or None for p in profiles)
    yield Row("L1 passes of global memory (modelled)", tuple(passes), "data")
    metrics = [p.metrics() for p in profiles]
    for metric, (name, resource, more_is_better) in _INSTRUCTIONS.items():
        yield Row(name, tuple(m.get(metric) for m in metrics), resource, more_is_better)
    totals: list[dict[str, Total]] = [{t.name: t for t in p.totals()} for p in profiles]
    for name in dict.fromkeys(name for per_profile in totals for name in per_profile):
        group = [per_profile.get(name) for per_profile in totals]
        total = next(t for t in group if t is not None)
        constant = total.space == "constant"
        requests, data = ("constants", "constants") if constant else ("requests", "data")
        unit = total.unit
        yield Row(f"{name} requests", tuple(t.requests if t else 0 for t in group), requests)
        yield Row(f"{name} {unit}", tuple(t.cost if t else 0 for t in group), data)
        yield Row(f"{unit} per {name}", tuple(t.per_request if t else None for t in group), data)
        if unit == "sectors":
            used = (100 * t.bytes_used / t.bytes_moved if t else None for t in group)
            yield Row(f"bytes used per {name}, %", tuple(used), data, more_is_better=True)
    if any(name.startswith("shared") for per_profile in totals for name in per_profile):
        yield Row("bank conflicts", tuple(int(p.bank_conflicts) for p in profiles), "data")
    for metric, (name, resource, more_is_better) in _MODELLED.items():
        values = tuple(m.get(metric) for m in metrics)
        if any(value is not None for value in values):
            yield Row(name, values, resource, more_is_better)


def _effect(row: Row, profiles: Sequence[ProfileData]) -> float:
    """Return how much a row changes the cycles of its resource, to sort the rows.

    A resource that needs few cycles in all profiles has little effect on the time, however much
    its row changes.
    """
    if not row.changed or row.resource is None:
        return 0
    cycles = [p.modelled.cycles[row.resource] for p in profiles if p.modelled is not None]
    pairs = [
        max(a, b) / max(1, min(a, b))
        for a in row.values[:1]
        if a is not None
        for b in row.values
        if b is not None
    ]
    return max(cycles, default=0) * math.log(max(pairs, default=1))


def same_cost(a: Line, b: Line) -> bool:
    """Whether two source lines have the same numbers of requests, sectors and wavefronts."""
    return _cost(a) == _cost(b)


def _cost(line: Line) -> tuple[int, ...]:
    return (line.requests, line.sectors, line.shared_requests, line.wavefronts)


class ComparisonData:
    """The data of a `Comparison`. The docstring of `Comparison` describes the attributes."""

    def __init__(self, profiles: Sequence[ProfileData]) -> None:
        self.profiles = tuple(profiles)
        self.names = _names([p.title for p in profiles])

    def rows(self) -> list[Row]:
        """Return the rows of the table: requests, sectors, conflicts, rates and times.

        Returns
        -------
        list of Row
            Each row has the ``name`` of a quantity and its ``values``, one for each profile.
        """
        return list(self._rows)

    def ratio(self, name: str, of: int = 1) -> float | None:
        """Return a quantity of a profile, divided by the same quantity of the first profile.

        Parameters
        ----------
        name : str
            The quantity: the name of a row, such as ``"global load sectors"``, or the name of a
            metric of `Profile.metrics`.
        of : int
            The index of the profile. The default is the second profile.

        Returns
        -------
        float or None
            The ratio. None if the quantity of the first profile is 0 or missing.

        Raises
        ------
        ValueError
            There is no such quantity. The message lists the quantities.
        """
        require.text("name", name)
        of = self._which(of)
        for row in self._rows:
            if row.name == name:
                return row.ratio(of)
        metrics = [p.metrics() for p in (self.profiles[0], self.profiles[of])]
        if any(name in m for m in metrics):
            return Row(name, (metrics[0].get(name), metrics[1].get(name))).ratio(1)
        known = ", ".join(repr(row.name) for row in self._rows)
        raise ValueError(
            f"`name` is {name!r}, but there is no such quantity; the known quantities are {known}, "
            "and the metrics of Profile.metrics()"
        )

    def lines(self, of: int = 1) -> list[tuple[Line | None, Line | None]]:
        """Pair the source lines of the first profile with those of another profile.

        Parameters
        ----------
        of : int
            The index of the other profile. The default is 1, the second profile.

        Returns
        -------
        list of (Line or None, Line or None)
            The pairs, in the order of the source. If a line is in only one of the two sources, the
            other item of its pair is None.
        """
        of = self._which(of)
        return list(_paired(self.profiles[0], self.profiles[of]))

    def _which(self, of: int) -> int:
        return require.whole("of", of, -len(self.profiles), len(self.profiles) - 1)

    @cached_property
    def _rows(self) -> tuple[Row, ...]:
        rows = list(rows_of(self.profiles))
        times = [row for row in rows if row.name.startswith("time")]
        others = [row for row in rows if row not in times]
        return (*times, *sorted(others, key=lambda row: -_effect(row, self.profiles)))


def _names(titles: Sequence[str]) -> tuple[str, ...]:
    """Remove the words with which all titles begin, and number equal titles."""
    words = [title.split() for title in titles]
    while all(len(w) > 1 for w in words) and len({w[0] for w in words}) == 1:
        words = [w[1:] for w in words]
    names = [" ".join(w) for w in words]
    return tuple(
        f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names, 1)
    )


def _paired(a: ProfileData, b: ProfileData) -> Iterator[tuple[Line | None, Line | None]]:
    left, right = ([line for line in p.lines() if line.accesses] for p in (a, b))
    matcher = difflib.SequenceMatcher(
        None, [line.source.strip() for line in left], [line.source.strip() for line in right], False
    )
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(left[i:i_end], right[j:j_end], strict=True)
        else:
            yield from ((line, None) for line in left[i:i_end])
            yield from ((None, line) for line in right[j:j_end])
