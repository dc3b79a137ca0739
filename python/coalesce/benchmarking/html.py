"""Shows a benchmark as HTML: the table with a bar for each time, then the notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalesce.benchmarking import text as benchmark_text
from coalesce.render.markup import BAD, FAINT, GOOD, LINE, MONO, cell, joined, row, table, tag

if TYPE_CHECKING:
    from markupsafe import Markup

    from coalesce.benchmarking.data import BenchmarkData, BenchmarkRow

_BAR = 16  # the length of the longest bar, in characters
_EIGHTHS = " ▏▎▍▌▋▊▉"


def report(benchmark: BenchmarkData) -> Markup:
    """Return the benchmark as a part of an HTML page."""
    parts = [tag("div", tag("b", benchmark.title), "font-size:larger"), _table(benchmark)]
    parts += [tag("div", note, FAINT) for note in benchmark_text.notes(benchmark)]
    wrong = [row.variant for row in benchmark if row.correct is False]
    if wrong:
        text = tag("b", f"▲ Wrong result: {', '.join(wrong)}", f"color:{BAD}")
        parts.append(tag("div", text))
    return tag("div", joined(parts, "\n"), "line-height:1.45")


def _table(benchmark: BenchmarkData) -> Markup:
    names = benchmark_text.columns(benchmark)
    best = benchmark_text.fastest(benchmark)
    heads = [cell(tag("b", name), align=_align(name)) for name in names]
    heads.insert(2, cell(""))
    rows = [row(heads)]
    slowest = max((r.timing.kernel_ms for r in benchmark if not r.timing.no_time), default=0.0)
    for r in benchmark:
        cells = [cell(_content(r, name, r is best), align=_align(name)) for name in names]
        cells.insert(2, cell(_bar(r, slowest)))
        rows.append(row(cells, LINE))
        if r.bound and r.correct is not False:
            why = cell(f"↳ {r.bound}", f"padding-left:24px;{FAINT}", span=len(cells))
            rows.append(row([why]))
    return table(rows)


def _align(name: str) -> str:
    return "left" if name in ("variant", "source") else "right"


def _content(r: BenchmarkRow, name: str, best: bool) -> str:
    text = benchmark_text.cell(r, name)
    if r.correct is False:
        return tag("b", text, f"color:{BAD}")
    return tag("b", text) if best and name in ("variant", "ms", "us", "speedup") else text


def _bar(r: BenchmarkRow, slowest: float) -> str:
    """Draw a time as a bar: solid if measured, shaded if modelled."""
    if r.correct is False or r.timing.no_time or slowest <= 0:
        return ""
    share = r.timing.kernel_ms / slowest
    full, rest = divmod(max(1, round(share * _BAR * 8)), 8)
    if r.timing.source == "modelled":
        bars = "▒" * max(1, round(share * _BAR))
    else:
        bars = "█" * full + _EIGHTHS[rest].strip()
    return tag("span", bars, f"color:{GOOD};{MONO}")
