"""Shows a profile as text: what limits the time, the verdict, and the lines that access memory.

The text has 80 to 100 columns. It can be read without colours, because marks and bars show the same
as the colours.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from coalesce._core import model
from coalesce.common.timing import milliseconds
from coalesce.launch.modelled import Modelled, of_bytes
from coalesce.profiling.rows.accesses import Access, Line, number
from coalesce.profiling.sentences import limit, verdict
from coalesce.profiling.sentences.advice import remarks, wasteful, with_sentences
from coalesce.profiling.sentences.gains import gains
from coalesce.render import tables

if TYPE_CHECKING:
    from rich.table import Table

    from coalesce.profiling.data import ProfileData

BAD, GOOD, FAINT, BOLD = "red", "cyan", "dim", "bold"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MARGIN = "      │ "
_CLEAR = 1.5  # a gain below this factor is hidden by the time of the launch, if this is long
_ROOMY = 98  # a report of at least this width has room for large numbers with commas


def report(profile: ProfileData, width: int) -> Iterator[Text | Table]:
    """Yield the parts of the report: title, verdict, table, source lines and notes."""
    yield Text(profile.title, BOLD)
    yield from (Text(part, FAINT) for part in textwrap.wrap(launch(profile), width))
    yield Text()
    accesses = profile.accesses()
    if profile.modelled is not None:
        yield from _paragraph("Time", time(profile, profile.modelled), width)
        for text in faster(profile):
            yield from _paragraph("Faster", text, width)
        yield Text()
    for finding in verdict.verdict(profile.lines(), profile.block, profile.instructions()):
        yield from _finding(finding, width)
    if accesses:
        yield Text()
        yield _totals(profile, width)
    if (estimates := caches(profile)) is not None:
        yield Text()
        yield from _paragraph("Caches", estimates, width)
    names = max((len(a.name) for a in accesses), default=0)
    for line in profile.lines():
        if line.accesses:
            yield Text()
            yield from source_line(line, width, names)
    yield Text()
    for note in notes(profile):
        for part in textwrap.wrap(note, width):
            yield Text(part, FAINT)


def launch(profile: ProfileData) -> str:
    """Return a line of text about the launch: the grid, the block, the warps and the device."""
    grid, block = (extents(e) for e in (profile.grid, profile.block))
    warps = math.prod(profile.grid) * -(-math.prod(profile.block) // 32)
    dynamic = f", {profile.shared_bytes:,} B of dynamic shared memory"
    return (
        f"grid {grid}, block {block}{dynamic if profile.shared_bytes else ''}: "
        f"{warps:,} warp{'s' * (warps != 1)}, {profile.device.description}"
    )


def extents(extent: tuple[int, int, int]) -> str:
    """Return the extents of a grid or a block as text: ``"8 x 8"`` for (8, 8, 1)."""
    dimensions = max((i + 1 for i in range(3) if extent[i] != 1), default=1)
    return " x ".join(f"{n:,}" for n in extent[:dimensions])


def notes(profile: ProfileData) -> list[str]:
    """Return the notes of a report.

    The notes give the times, and list the other kernels that the call ran. They also say which
    counts are exact.
    """
    sentences = []
    times = []
    if profile.measured_ms is not None:
        times.append(f"{milliseconds(profile.measured_ms)} measured on {profile.device.name}")
        if profile.modelled_ms is not None:
            times.append(f"{milliseconds(profile.modelled_ms)} modelled")
    if times:
        sentences.append(f"Time: {', '.join(times)}.")
    sentences += [
        f"The call also ran {other.title}; see `preparation`." for other in profile.preparation
    ]
    units = {access.unit for access in profile.accesses()}
    if len(units) > 1:
        others = " and ".join(sorted(units - {"sectors"}, reverse=True))
        sentences.append(f"Bars: █ share of the kernel's sectors, ▒ share of its {others}.")
    sentences += exactness(profile)
    if profile.not_modelled:
        sentences.append(f"Caches and time are not modelled: {profile.not_modelled}.")
    elif profile.modelled is None:
        sentences.append(
            "Caches and time are not modelled with an executor, because they depend on all "
            "blocks and on the order in which a GPU runs them."
        )
    return sentences


def exactness(profile: ProfileData) -> list[str]:
    """Return sentences about the counts: which are exact, and why the others may not be exact."""
    estimates = "" if profile.not_modelled else "Caches and times are modelled estimates. "
    first = next(iter(profile.inexact.values()), "")
    if first.startswith("counted on the PTX"):
        return [f"No count is exact: the kernel was {first}. {estimates}".rstrip()]
    doubts: dict[str, list[str]] = {}
    for name, why in profile.inexact.items():
        listed = name.startswith(
            ("l1tex__t_requests", "l1tex__t_sectors_pipe", "l1tex__m_", "memory_")
        )
        if listed and profile.metrics()[name]:
            doubts.setdefault(why, []).append(name)
    but = ", with these exceptions" * bool(doubts)
    exact = f"Requests, sectors and wavefronts are counted and exact{but}"
    end = ":" if doubts else "."
    sentences = [f"{estimates}{exact}{end}"]
    for why, names in doubts.items():
        spaces = [s for s in ("global", "shared", "local") if any(s in name for name in names)]
        what = f"{' and '.join(spaces)} memory"
        if all("_tma" in name for name in names):
            what = "copies by the TMA"
        sentences.append(f"A GPU may count {what} differently: {why}.")
    return sentences


def time(profile: ProfileData, m: Modelled) -> str:
    """Return sentences about the modelled time: what limits it, and where."""
    text = f"{milliseconds(m.ms)} (modelled), {m.why}{_tags_per_request(profile)}."
    return " ".join(
        [text, *limit.sentences(m, profile.lines(), profile.instructions(), profile.gpu)]
    )


def faster(profile: ProfileData) -> list[str]:
    """Return sentences about the largest gains: how much, under which condition, what to do.

    If nothing is wasteful, return what generally helps against the limit.
    """
    m = profile.modelled
    if m is None:
        return []
    general = limit.remedy(m, profile.gpu)
    largest = gains(profile)[:2]
    if not largest or (largest[0].factor < _CLEAR and general == limit.OF_LAUNCH):
        return [general] * bool(general)
    return [
        f"up to {gain.factor:.3g}x (modelled) if {gain.text.removesuffix('.')}." for gain in largest
    ]


def caches(profile: ProfileData) -> str | None:
    """Return sentences about the caches and DRAM, as the models estimate them.

    Return None if nothing was modelled, or if the kernel does not access memory.
    """
    m = profile.modelled
    if m is None or not profile.accesses():
        return None
    if m.caches is None:
        return "not modelled; pass caches=True to model them."
    c = m.caches
    hits = m.metrics()["l1tex__t_sector_hit_rate.pct"] / 100
    read, written = (of_bytes(model.SECTOR_BYTES * c[name]) for name in ("l2_reads", "l2_writes"))
    text = (
        f"(modelled) L1 hits: {percent(hits)} of the sectors. L2: {read} read, {written} written, "
        f"{percent(m.metrics()['lts__t_sector_hit_rate.pct'] / 100)} hits. "
        f"DRAM: {of_bytes(c['dram_read_bytes'])} read, "
        f"{of_bytes(c['dram_written_bytes'])} written. "
        f"{m.blocks_per_multiprocessor} block{'s' * (m.blocks_per_multiprocessor != 1)} per "
        f"multiprocessor, limited by {m.limit}"
        f"{f' ({profile.registers} per thread)' if m.limit == 'registers' else ''}."
    )
    if m.share is not None and m.share < 1:
        text += f" The caches were modelled for the first {percent(m.share)} of the blocks."
    return text


def _paragraph(head: str, text: str, width: int) -> Iterator[Text]:
    head = f"{head:<8}"
    for part in textwrap.wrap(text, width - len(head)):
        yield Text(head, BOLD).append(part, "not bold")
        head = " " * len(head)


def _tags_per_request(profile: ProfileData) -> str:
    """Return text about the cache lines that L1 looks up for each request.

    Return "" if these look-ups are not what limits the kernel.
    """
    m = profile.modelled
    requests = sum(t.requests for t in profile.totals() if t.space == "global")
    if m is None or m.bound != "data" or not requests:
        return ""
    if m.work["shared_wavefronts"] > m.work["tag_lookups"]:
        return ""
    return f", {number(m.work['tag_lookups'] / requests)} per request"


def _finding(finding: verdict.Sentence, width: int) -> Iterator[Text]:
    mark, style = ("▲ ", f"bold {BAD}") if finding.wasteful else ("✓ ", GOOD)
    for part in textwrap.wrap(finding.text, width - 2):
        yield Text(mark, style).append(part, BOLD if finding.wasteful else "not bold default")
        mark = "  "


def _totals(profile: ProfileData, width: int) -> Table:
    numbers = ["requests", "sectors or", "per request", "needed", "bytes used"]
    heads = ["", *numbers[:2], "wavefronts", *numbers[2:]]
    table = tables.table(heads, right=numbers, wrap=heads[4:])
    table.collapse_padding = width < _ROOMY  # one space between columns, not two
    for t in profile.totals():
        table.add_row(
            t.name,
            _counted(t.requests, width),
            _counted(t.cost, width),
            t.unit,
            Text(number(t.per_request), f"bold {BAD}" if t.wasteful else ""),
            number(t.needed_per_request),
            f"{t.bytes_used / t.bytes_moved:.0%}" if t.bytes_moved else "",
        )
    return table


def _counted(count: int, width: int) -> str:
    """Return a count as text with commas. If a report is narrow, large counts have no commas."""
    return f"{count:,}" if count < 10**8 or width >= _ROOMY else str(count)


def source_line(
    line: Line, width: int, names: int, mark: str | None = None, *, sentences: bool = True
) -> Iterator[Text]:
    """Yield the rows for a source line: the text of the line, and a row for each of its accesses.

    `names` is the width (in characters) of the column that shows the accesses, such as "load a".
    `mark` is shown before the line. By default, a mark is shown if the line is wasteful. If
    `sentences` is true, the sentences about an access are shown below it.
    """
    bad = any(wasteful(a) for a in line.accesses)
    head = Text(("▲" if bad else " ") if mark is None else mark, f"bold {BAD}" if bad else "")
    if line.file:
        head.append(f"     │ {line.accesses[0].place}: ", FAINT)
    else:
        head.append(f"{line.number or '?':>4} ").append("│ ", FAINT)
    head.append(line.source.strip() or "(no source line)", BOLD)
    head.truncate(width, overflow="ellipsis")
    yield head
    bar_width = 10 if width < 96 else 16
    for access, sentence in with_sentences(line.accesses):
        row = _access_row(access, bar_width, min(max(names, 14), 14 if bar_width == 10 else 20))
        remark = _remark(access)
        if len(row) + len(remark) > width:  # leave out this number, before the remark
            row.right_crop(len(_needs(access)))
        row.append(remark if len(row) + len(remark) <= width else "", FAINT)
        yield row
        if sentences:
            indent = " " * (bar_width + 7)
            for part in textwrap.wrap(
                remarks(access, sentence), width - len(_MARGIN) - len(indent)
            ):
                yield Text(_MARGIN, FAINT).append(indent + part, "not dim")


def _access_row(access: Access, bar_width: int, names: int) -> Text:
    bad = wasteful(access)
    row = Text(_MARGIN, FAINT)
    row.append(bar(access, bar_width), f"not dim {BAD if bad else GOOD}")
    row.append(f"{percent(access.share):>5}  ", "not dim")
    name = access.name if len(access.name) <= names else f"{access.name[: names - 1]}…"
    row.append(f"{name:<{names}}{_counted(access.requests, 0):>12} x ", "not dim")
    row.append(f"{access.takes:<14}", f"not dim bold {BAD}" if bad else "not dim")
    row.append(_needs(access), FAINT)
    return row


def _remark(access: Access) -> str:
    """Return a short remark: the pattern, or the share of the moved bytes that are used."""
    if wasteful(access):
        return f"  {percent(access.efficiency)} used" if access.unit == "sectors" else ""
    return f"  {access.pattern.name}" if access.pattern is not None else ""


def _needs(access: Access) -> str:
    return f" needs {number(access.needed_per_request)}"


def plain_access(access: Access) -> list[str]:
    """Return lines of text about an access, without colours, for error messages."""
    cost = f"{access.takes}, needs {number(access.needed_per_request)}"
    drawn = []
    if access.example is not None:
        picture = access.example.picture()
        drawn = [access.example.not_drawn] if picture is None else picture.text.splitlines()
    share = f"{percent(access.share)} of the kernel's {access.unit}"
    return [
        f"  {access.place}: {access.source.strip()}",
        f"    {access.name}: {access.requests:,} requests x {cost}; {share}",
        *textwrap.wrap(
            f"{access.sentence} {access.merge_note}",
            92,
            initial_indent="    ",
            subsequent_indent="    ",
        ),
        *(f"    {line}" for line in drawn),
    ]


def percent(share: float) -> str:
    """Return a share as text: ``"12%"`` for 0.12.

    ``"0%"`` stands for exactly 0, and ``"100%"`` for exactly 1. A share just above 0 becomes
    ``"<1%"``, and a share just below 1 becomes ``">99%"``.
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def bar(access: Access, width: int) -> str:
    """Return a bar of characters. Its length shows the access's share of the kernel's cost.

    If the access causes the whole cost, the bar has `width` characters. The bar is solid for
    sectors, and shaded for wavefronts and words.
    """
    if access.unit != "sectors":
        return ("▒" * max(round(access.share * width), access.share > 0)).ljust(width)
    full, rest = divmod(max(round(access.share * width * 8), access.share > 0), 8)
    return ("█" * full + _EIGHTHS[rest].strip()).ljust(width)
