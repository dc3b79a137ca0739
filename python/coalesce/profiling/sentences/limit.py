"""Says what limits the time of a kernel, which line causes it, and what would limit it next.

For example, `naive` for 256 x 256 matrices keeps the data stage of L1 busy for 271,360 cycles, and
the load-store unit for 20,520. So L1 limits it, and the next limit is at 8 % of this time: if the
accesses were perfect, the kernel could be up to 12 times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coalesce.launch.modelled import BOUNDS, Modelled
from coalesce.profiling.rows.accesses import Access, Line


def _lines_touched(access: Access) -> int:
    return sum(row.lines for row in access.instructions) if access.unit == "sectors" else 0


def _updates(access: Access) -> int:
    return access.requests if access.kind in ("atomic", "reduction") else 0


# How much each access of a line keeps a resource busy. For other resources, no count says it.
_BUSY: dict[str, Callable[[Access], int]] = {
    "requests": lambda access: access.requests,
    "data": _lines_touched,
    "shared": lambda access: access.wavefronts,
    "l2": lambda access: access.sectors,
    "dram": lambda access: access.sectors,
    "constants": lambda access: access.words,
    "atomics": _updates,
}


def sentences(m: Modelled, lines: Sequence[Line]) -> list[str]:
    """Return the sentences: where most of the work is, and how far the next limit is."""
    result = []
    if (where := _place(m, lines)) is not None:
        result.append(where)
    first, second = sorted(m.cycles, key=lambda bound: -m.cycles[bound])[:2]
    if first == m.bound and m.cycles[first] > 0:
        share = m.cycles[second] / m.cycles[first]
        result.append(f"The next limit, at {share:.0%} of this time, is {BOUNDS[second]}.")
    return result


def _place(m: Modelled, lines: Sequence[Line]) -> str | None:
    of_shared = m.bound == "data" and m.work["shared_wavefronts"] > m.work["tag_lookups"]
    if m.bound == "issue":
        work = [line.executed for line in lines]
    elif (busy := _BUSY.get("shared" if of_shared else m.bound)) is not None:
        work = [sum(busy(access) for access in line.accesses) for line in lines]
    else:
        return None
    if len(lines) < 2 or not sum(work):
        return None
    most = max(range(len(lines)), key=work.__getitem__)
    share = work[most] / sum(work)
    return f"{'All' if share > 0.995 else f'{share:.0%}'} of it is in {lines[most].place}."
