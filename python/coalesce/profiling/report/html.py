"""Shows a profile as HTML: what `Profile.to_text` shows, and the source around costly lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalesce.cxx.declarations import lines_of
from coalesce.profiling.report import memory_chart, roofline_chart, stall_chart
from coalesce.profiling.report import text as profile_text
from coalesce.profiling.report.text import bar, percent
from coalesce.profiling.rows.accesses import Access, Line, number
from coalesce.profiling.sentences import verdict
from coalesce.profiling.sentences.advice import remarks, wasteful, with_sentences
from coalesce.render.markup import (
    BAD,
    FAINT,
    GOOD,
    LINE,
    MONO,
    cell,
    code_of,
    folded,
    image,
    joined,
    row,
    table,
    tag,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from coalesce.profiling.data import ProfileData

_COLUMNS = 7
_WRAPPED = "white-space:normal"  # wrap long lines, so that the columns of numbers stay visible
_PICTURES = 3


def report(profile: ProfileData) -> Markup:
    """Return the report as a part of an HTML page."""
    parts = [_header(profile)]
    if profile.modelled is not None:
        parts.append(_paragraph("Time", profile_text.time(profile, profile.modelled)))
        parts += [_paragraph("Faster", text) for text in profile_text.faster(profile)]
    parts += [_findings(profile), _totals(profile)]
    if (estimates := profile_text.caches(profile)) is not None:
        parts.append(_paragraph("Caches", estimates))
    parts.append(_listing(profile))
    parts.append(_pictures(profile))
    parts.append(_charts(profile))
    parts += [tag("div", note, FAINT) for note in profile_text.notes(profile)]
    return tag("div", joined(parts, "\n"), "line-height:1.45")


def _header(profile: ProfileData) -> Markup:
    title = tag("div", tag("b", profile.title), "font-size:larger")
    parts = [title, tag("div", profile_text.launch(profile), FAINT)]
    return joined(parts)


def _findings(profile: ProfileData) -> Markup:
    parts = []
    for finding in verdict.verdict(profile.lines(), profile.block, profile.instructions()):
        color, mark = (BAD, "▲") if finding.wasteful else (GOOD, "✓")
        text = tag("b", finding.text) if finding.wasteful else finding.text
        style = f"border-left:4px solid {color};padding:2px 10px;margin:6px 0"
        parts.append(tag("div", [mark, " ", text], style))
    return joined(parts)


def _totals(profile: ProfileData) -> Markup:
    heads = ("", "requests", "sectors or wavefronts", "per request", "needed", "bytes used")
    rows = [row([cell(head, FAINT, "right") for head in heads])]
    for t in profile.totals():
        each = number(t.per_request)
        used = f"{t.bytes_used / t.bytes_moved:.0%}" if t.bytes_moved else ""
        rows.append(
            row(
                [
                    cell(t.name),
                    cell(f"{t.requests:,}", align="right"),
                    cell(f"{t.cost:,} {t.unit}", align="right"),
                    cell(_warn(each) if t.wasteful else each, align="right"),
                    cell(number(t.needed_per_request), align="right"),
                    cell(used, align="right"),
                ]
            )
        )
    return table(rows)


def _paragraph(head: str, text: str) -> Markup:
    return tag("div", [tag("b", head), " ", text], "margin:8px 0;white-space:normal")


def _charts(profile: ProfileData) -> Markup:
    """Draw the traffic, the rooflines and the stalls, as far as they are modelled."""
    pictures = [memory_chart.memory_chart(profile, "")] if profile.accesses() else []
    if profile.modelled is not None and profile.modelled.work["blocks"]:
        pictures.append(stall_chart.stall_chart(profile, ""))
        if profile.modelled.caches is not None and any(profile.flops.values()):
            pictures.append(roofline_chart.roofline_chart(profile, ""))
    return folded("Charts", joined(map(image, pictures), tag("br"))) if pictures else joined([])


def _pictures(profile: ProfileData) -> Markup:
    """Draw one warp of each of the accesses that waste the most."""
    worst = [a for a in profile.accesses() if wasteful(a) and a.example is not None]
    # There is no picture for constant memory, and for local memory, where each thread has its own
    # addresses.
    worst = [a for a in worst if a.pattern is not None]
    worst = sorted(worst, key=lambda a: -a.excess)[:_PICTURES]
    parts = []
    for i, access in enumerate(worst):
        assert access.example is not None
        drawn = [access.example.picture(), access.example.matrix()]
        images = joined([image(picture) for picture in drawn if picture is not None], tag("br"))
        if why := access.example.not_drawn:
            images = joined([tag("p", why), images])
        where = f"block ({', '.join(map(str, access.example.block))})"
        name = [tag("b", access.place), f", {access.name}: one warp of {where}"]
        parts.append(folded(name, images, unfolded=i == 0))
    return joined(parts)


def _listing(profile: ProfileData) -> Markup:
    heads = ("line", "source", "share", "requests", "each takes", "needed", "bytes used")
    rows = [row([cell(h, FAINT, "left" if h in ("source", "share") else "right") for h in heads])]
    lines = {line.number: line for line in profile.lines() if not line.file and line.number}
    text = lines_of(profile.source)
    last = 0
    for n in _shown(lines, len(text)):
        if last and n > last + 1:
            rows.append(row([cell("⋮", FAINT, "right"), cell("", span=_COLUMNS - 1)]))
        last = n
        rows += _source_line(n, text[n - 1], lines.get(n))
    for line in profile.lines():
        if line.accesses and line.number not in lines:
            rows += _source_line(line.number, line.source, line)
    return table(rows, LINE)


def _shown(lines: dict[int, Line], last: int) -> list[int]:
    """Return the numbers of the lines to show: lines with accesses, and the code around them."""
    costly = [n for n, line in lines.items() if line.accesses and n <= last]
    around = {n + d for n in costly for d in range(-2, 3)}
    code = range(min(lines, default=1), max(lines, default=0) + 1)
    return [n for n in code if n in around and n <= last]


def _source_line(n: int, text: str, line: Line | None) -> list[Markup]:
    accesses = line.accesses if line is not None else ()
    bad = any(wasteful(a) for a in accesses)
    code = code_of(text)
    code = tag("b", code) if accesses else code
    mark = tag("b", f"▲ {n}", f"color:{BAD}") if bad else str(n or "?")
    rows = [
        row(
            [
                cell(mark, "" if accesses else FAINT, "right"),
                cell(code, f"{_WRAPPED};{'' if accesses else FAINT}", span=_COLUMNS - 1),
            ],
            LINE if accesses else "",
        )
    ]
    for access, text in with_sentences(accesses):
        rows.append(_access(access))
        if remark := remarks(access, text):
            sentence = ["↳ ", tag("span", remark, "white-space:normal")]
            rows.append(row([cell(""), cell(sentence, "padding-left:32px", span=_COLUMNS - 1)]))
    return rows


def _access(access: Access) -> Markup:
    bad = wasteful(access)
    color = BAD if bad else GOOD
    name = [access.name]
    if access.pattern is not None:
        name += [" ", tag("span", access.pattern.name, FAINT)]
    bars = tag("span", bar(access, 10).rstrip(), f"color:{color};{MONO}")
    used = percent(access.efficiency) if access.unit == "sectors" else ""
    return row(
        [
            cell(""),
            cell(name, "padding-left:32px"),
            cell([bars, " ", percent(access.share)]),
            cell(f"{access.requests:,}", align="right"),
            cell(_warn(access.takes) if bad else access.takes, align="right"),
            cell(number(access.needed_per_request), align="right"),
            cell(used, align="right"),
        ]
    )


def _warn(text: str) -> Markup:
    return tag("b", text, f"color:{BAD}")
