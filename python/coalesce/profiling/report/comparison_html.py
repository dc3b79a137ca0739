"""Shows a comparison as HTML: a table of quantities, then the changed lines side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalesce.profiling.report.comparison_text import (
    change,
    changed,
    left_out,
    limits,
    same_rows,
    unchanged,
    value,
)
from coalesce.profiling.report.text import bar, launch, percent
from coalesce.profiling.rows.accesses import Access, Line
from coalesce.profiling.sentences.advice import wasteful
from coalesce.render.markup import (
    BAD,
    FAINT,
    GOOD,
    LINE,
    MONO,
    cell,
    code_of,
    joined,
    row,
    table,
    tag,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from coalesce.profiling.comparison_data import ComparisonData


def report(comparison: ComparisonData) -> Markup:
    """Return the comparison as a part of an HTML page."""
    parts = []
    for name, profile in zip(comparison.names, comparison.profiles, strict=True):
        parts.append(tag("div", [tag("b", name), " ", tag("span", launch(profile), FAINT)]))
    parts += [tag("div", text) for text in limits(comparison)]
    parts.append(_rows(comparison))
    if note := same_rows(comparison.rows()):
        parts.append(tag("div", note, FAINT))
    parts += [_lines(comparison, i) for i in range(1, len(comparison.profiles))]
    return tag("div", joined(parts, "\n"), "line-height:1.45")


def _rows(comparison: ComparisonData) -> Markup:
    head = [cell("")]
    for i, name in enumerate(comparison.names):
        head.append(cell(tag("b", name), align="right"))
        head += [cell("")] if i else []
    rows = [row(head)]
    for quantity in comparison.rows():
        if not quantity.changed:
            continue
        cells = [cell(quantity.name)]
        for i, one in enumerate(quantity.values):
            cells.append(cell(value(one), align="right"))
            if i:
                color = {True: f"color:{GOOD}", False: f"color:{BAD}", None: FAINT}
                text = change(quantity, i)
                better = quantity.better(i)
                cells.append(cell(text if better is None else tag("b", text), color[better]))
        rows.append(row(cells, LINE))
    return table(rows)


def _lines(comparison: ComparisonData, i: int) -> Markup:
    pairs = comparison.lines(i)
    names = comparison.names[0], comparison.names[i]
    if not pairs:
        return joined([])
    listed = changed(pairs)
    if not listed:
        return tag("div", unchanged(*names, len(pairs)), FAINT)
    note = left_out(len(pairs) - len(listed))
    rows = [row([cell(tag("b", f"Lines of {name}")) for name in names])]
    rows += [row([_line(line) for line in pair], LINE) for pair in listed]
    return table(rows) + (tag("div", note, FAINT) if note else "")


def _line(line: Line | None) -> Markup:
    if line is None:
        return cell("", "max-width:480px;white-space:normal")
    bad = any(wasteful(a) for a in line.accesses)
    number = tag("b", f"▲ {line.number}", f"color:{BAD}") if bad else str(line.number or "?")
    source = tag("b", code_of(line.source.strip()))
    parts = [tag("div", [number, " ", source]), *(_access(a) for a in line.accesses)]
    return cell(parts, "max-width:480px;white-space:normal")


def _access(access: Access) -> Markup:
    bad = wasteful(access)
    bars = tag("span", bar(access, 8).rstrip(), f"color:{BAD if bad else GOOD};{MONO}")
    takes = tag("b", access.takes, f"color:{BAD}") if bad else access.takes
    text = f" {percent(access.share)} {access.name}: {access.requests:,} x "
    return tag("div", [bars, text, takes], "padding-left:16px")
