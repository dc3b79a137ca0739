"""The rows of a comparison: one quantity of all profiles in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coalesce.profiling.result import Profile
    from coalesce.profiling.rows import Line
    from coalesce.profiling.verdict import Total

# Modelled metrics that a comparison shows: their names, and whether more is better.
_MODELLED = {
    "l1tex__t_sector_hit_rate.pct": ("L1 hit rate, % (modelled)", True),
    "lts__t_sectors_srcunit_tex_op_read.sum": ("L2 sectors read (modelled)", False),
    "lts__t_sectors_srcunit_tex_op_write.sum": ("L2 sectors written (modelled)", False),
    "dram__bytes_read.sum": ("DRAM bytes read (modelled)", False),
    "dram__bytes_write.sum": ("DRAM bytes written (modelled)", False),
}


@dataclass(frozen=True)
class Row:
    """One quantity of all profiles, or None for a profile that does not have it.

    `more_is_better` says whether a larger value is an improvement.
    """

    name: str
    values: tuple[float | None, ...]
    more_is_better: bool = False

    def ratio(self, i: int) -> float | None:
        """Return the i-th value divided by the first, or None if there is no meaningful ratio."""
        first, value = self.values[0], self.values[i]
        return value / first if first and value is not None else None

    def better(self, i: int) -> bool | None:
        """Whether the i-th value is better than the first; None if they differ by at most 2 %.

        A quantity that the baseline does not have (shared memory) is neither better nor worse.
        """
        first, value = self.values[0], self.values[i]
        if not first or value is None or abs(value - first) <= 0.02 * abs(first):
            return None
        return (value > first) == self.more_is_better


def rows_of(profiles: Sequence[Profile]) -> Iterator[Row]:
    """Yield the rows: times, the totals of each state space and kind, conflicts, caches."""
    for kind in ("measured", "modelled"):
        times = tuple(getattr(p, f"{kind}_ms") for p in profiles)
        if any(time is not None for time in times):
            yield Row(f"time, ms ({kind})", times)
    totals: list[dict[str, Total]] = [{t.name: t for t in p.totals()} for p in profiles]
    for name in dict.fromkeys(name for per_profile in totals for name in per_profile):
        group = [per_profile.get(name) for per_profile in totals]
        unit = next(t.unit for t in group if t is not None)
        yield Row(f"{name} requests", tuple(t.requests if t else 0 for t in group))
        yield Row(f"{name} {unit}", tuple(t.cost if t else 0 for t in group))
        yield Row(f"{unit} per {name}", tuple(t.per_request if t else None for t in group))
        if unit == "sectors":
            used = (100 * t.bytes_used / t.bytes_moved if t else None for t in group)
            yield Row(f"bytes used per {name}, %", tuple(used), more_is_better=True)
    if any(name.startswith("shared") for per_profile in totals for name in per_profile):
        yield Row("bank conflicts", tuple(int(p.bank_conflicts) for p in profiles))
    metrics = [p.metrics() for p in profiles]
    for metric, (name, more_is_better) in _MODELLED.items():
        values = tuple(m.get(metric) for m in metrics)
        if any(value is not None for value in values):
            yield Row(name, values, more_is_better)


def same_cost(a: Line, b: Line) -> bool:
    """Whether two lines have the same requests at the same cost."""
    return _cost(a) == _cost(b)


def _cost(line: Line) -> tuple[int, ...]:
    return (line.requests, line.sectors, line.shared_requests, line.wavefronts)
