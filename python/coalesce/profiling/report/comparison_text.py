"""Shows a comparison as text: a table, then a diff that has only lines with different costs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from coalesce.profiling.comparison_data import Row, same_cost
from coalesce.profiling.report.text import BAD, BOLD, FAINT, GOOD, launch, source_line
from coalesce.profiling.rows.accesses import Line
from coalesce.render import tables

if TYPE_CHECKING:
    from rich.table import Table

    from coalesce.profiling.comparison_data import ComparisonData

# A line of the baseline, and the same line of the other profile; see Comparison.lines.
Pair = tuple[Line | None, Line | None]

# The largest widths of the columns, including the gap before them.
_NAME, _VALUE, _CHANGE = 34, 15, 12


def report(comparison: ComparisonData, width: int) -> Iterator[Text | Table]:
    """Yield the parts of the text: the table, and a diff with the baseline for each profile."""
    for name, profile in zip(comparison.names, comparison.profiles, strict=True):
        for i, part in enumerate(textwrap.wrap(f"{name}  {launch(profile)}", width)):
            head = Text(part[: len(name)] if i == 0 else "", BOLD)
            yield head.append(part[len(head) :], "not bold dim")
    for text in limits(comparison):
        yield from (Text(part) for part in textwrap.wrap(text, width))
    # If not all profiles fit, further tables show the rest, each beside the baseline.
    fit = max(1, (width - _NAME - _VALUE) // (_VALUE + _CHANGE))
    others = range(1, len(comparison.profiles))
    for start in range(0, len(others), fit):
        yield Text()
        yield _table(comparison, others[start : start + fit])
    if note := same_rows(comparison.rows()):
        yield Text(note, FAINT)
    for i in others:
        yield from _lines(comparison, i, width)


def _table(comparison: ComparisonData, chosen: Sequence[int]) -> Table:
    names = [_fit(name) for name in comparison.names]
    table = tables.table(["", names[0]], right=names)
    for i in chosen:
        table.add_column(names[i], justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    for row in comparison.rows():
        if not row.changed or all(row.values[i] is None for i in (0, *chosen)):
            continue
        cells = [Text(row.name), Text(value(row.values[0]))]
        for i in chosen:
            style = {True: GOOD, False: BAD, None: FAINT}[row.better(i)]
            cells += [Text(value(row.values[i])), Text(change(row, i), style)]
        table.add_row(*cells)
    return table


def limits(comparison: ComparisonData) -> list[str]:
    """Return what limits the time of each profile, as the model says, if this is not the same."""
    modelled = [(n, p.modelled) for n, p in zip(comparison.names, comparison.profiles, strict=True)]
    if len({m and m.bound for _, m in modelled}) == 1:
        return []
    return [f"{name} is {m.why} (modelled)." for name, m in modelled if m is not None]


def same_rows(rows: Sequence[Row]) -> str:
    """Return a sentence about the rows that are not shown, because all profiles have one value."""
    same = sum(not row.changed for row in rows)
    if same == len(rows):
        return f"All {same} quantities are the same."
    quantities = "1 quantity is" if same == 1 else f"{same} quantities are"
    return f"{quantities} the same in all profiles, and not shown." if same else ""


def _fit(name: str) -> str:
    return name if len(name) < _VALUE else f"{name[: _VALUE - 2]}…"


def _lines(comparison: ComparisonData, i: int, width: int) -> Iterator[Text]:
    names = comparison.names
    pairs = comparison.lines(i)
    if not pairs:
        return
    yield Text()
    listed = changed(pairs)
    if not listed:
        yield Text(unchanged(names[0], names[i], len(pairs)), FAINT)
        return
    yield Text(f"Lines of {names[0]} (-) and {names[i]} (+)", BOLD)
    for pair in listed:
        for mark, line in zip("-+", pair, strict=True):
            if line is not None:
                yield from source_line(line, width, 0, mark, sentences=False)

    if note := left_out(len(pairs) - len(listed)):
        yield Text(note, FAINT)


def changed(pairs: Sequence[Pair]) -> list[Pair]:
    """Return only the pairs whose two lines have different costs."""
    return [(a, b) for a, b in pairs if a is None or b is None or not same_cost(a, b)]


def unchanged(first: str, other: str, lines: int) -> str:
    """Return a sentence which says that every line has the same cost in both profiles.

    `first` and `other` are the names of the two profiles. `lines` is the number of lines that
    access memory.
    """
    which = "The one line that accesses" if lines == 1 else f"All {lines} lines that access"
    return f"{which} memory cost{'s' * (lines == 1)} the same in {first} and {other}."


def left_out(lines: int) -> str:
    """Return a sentence which says that `lines` lines are not shown, because their costs are equal.

    If `lines` is 0, return "".
    """
    if lines == 1:
        return "1 line with the same cost in both is not shown."
    return f"{lines} lines with the same cost in both are not shown." if lines else ""


def value(number: float | None) -> str:
    """Return a number of a row as text: ``"1,234"``, ``"2.5"``, or ``"-"`` for None."""
    if number is None:
        return "-"
    if isinstance(number, int) or number >= 1000:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def change(row: Row, i: int) -> str:
    """Return how the i-th value of a row differs from the first: ``"32x less"``, ``"the same"``."""
    first, now = row.values[0], row.values[i]
    if first is None or now is None:
        return ""
    if first == now:
        return "the same"
    if "%" in row.name:
        return f"{now - first:{'+.0f' if abs(now - first) >= 1 else '+.1g'}} points"
    if not first:
        return "new"
    if not now:
        return "gone"
    factor = max(first, now) / min(first, now)
    word = "less" if now < first else "more"
    if factor < 1.1:
        return f"{abs(now - first) / first:.1%} {word}"
    return f"{factor:.3g}x {word}" if factor < 1000 else f"{factor:,.0f}x {word}"
