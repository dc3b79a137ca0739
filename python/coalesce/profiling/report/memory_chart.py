"""Draws how many bytes a kernel moves between the memories, like Nsight Compute's memory chart.

Each arrow is a kind of traffic, and its width is proportional to the bytes. The arrows at the
kernel count the sectors that the requests touch, 32 bytes each. So the chart shows which memory has
to deliver more than the lanes need, and how much the caches keep away from the next memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from coalesce._core import model
from coalesce.draw._canvas import MARGIN, WIDTH, Canvas, Picture
from coalesce.draw._palette import BLUE, FAINT, ORANGE, SOFT, WASH
from coalesce.launch.modelled import of_bytes
from coalesce.profiling.rows.accesses import number

if TYPE_CHECKING:
    from coalesce.profiling.data import ProfileData
    from coalesce.profiling.sentences.verdict import Total

_BOX = 96.0  # the width of a box; the gaps between the boxes share the rest
_HEIGHT = 92.0
_WIDEST = 15.0  # the width in pixels of the arrow with the most bytes
_READS = ("load", "async_copy", "tma_load")  # the kinds of accesses that read
_COLUMNS = 20  # the columns of a box and the arrow after it, in the text


@dataclass(frozen=True)
class _Link:
    """The traffic between two neighbouring boxes: towards the kernel, and away from it."""

    reads: float
    writes: float


def memory_chart(profile: ProfileData, title: str | None) -> Picture:
    """Return the picture. `Profile.memory_chart` describes it."""
    m = profile.metrics()
    totals = [t for t in profile.totals() if t.space in ("global", "generic", "local")]
    reads = [t for t in totals if t.kind in _READS]
    touched = _Link(
        sum(t.bytes_moved for t in reads),
        sum(t.bytes_moved for t in totals if t.kind not in _READS),
    )
    boxes, links = _traffic(m, touched)
    headline = _headline(m, [t for t in reads if t.space != "local"])
    notes = [_shared(m)]
    if "dram__bytes_read.sum" not in m:
        why = profile.not_modelled or "the profile was made without models of the caches"
        notes.append(f"L2 and DRAM are missing: {why}.")
    else:
        notes.append("Hit rates and the traffic of L2 and DRAM are modelled.")
    note = " ".join(filter(None, notes))

    canvas = Canvas()
    top = canvas.headline(16, title or profile.title, headline, note) + 6
    gap = (WIDTH - 2 * MARGIN - 4 * _BOX) / 3
    most = max([1.0, *(max(link.reads, link.writes) for link in links)])
    for i, (name, below) in enumerate(boxes):
        x = MARGIN + i * (_BOX + gap)
        canvas.rect(x, top, _BOX, _HEIGHT, fill=WASH, stroke=FAINT, radius=5)
        canvas.text(x + _BOX / 2, top + 42, name, size=14, anchor="middle", bold=True)
        canvas.text(x + _BOX / 2, top + 60, below, paint=SOFT, anchor="middle")
    for i, link in enumerate(links):
        x = MARGIN + (i + 1) * _BOX + i * gap
        _arrow(canvas, x, top + 30, gap, link.reads, most, to_left=True)
        _arrow(canvas, x, top + 74, gap, link.writes, most, to_left=False)
    lines = [title or profile.title, headline, "", *_text(boxes, links), "", *wrap(note, 80)]
    return canvas.picture(
        top + _HEIGHT + 16,
        headline=headline,
        description=f"{headline}. {note}",
        text="\n".join(lines),
    )


def _traffic(m: Mapping[str, float], touched: _Link) -> tuple[list[tuple[str, str]], list[_Link]]:
    """Return the boxes (a name, and what is below it), and the links between them."""
    boxes = [("kernel", ""), ("L1", ""), ("L2", ""), ("DRAM", "")]
    links = [touched]
    if "dram__bytes_read.sum" in m:
        boxes[1] = ("L1", f"{m['l1tex__t_sector_hit_rate.pct']:.0f} % hits")
        boxes[2] = ("L2", f"{m['lts__t_sector_hit_rate.pct']:.0f} % hits")
        for first, second in (
            ("lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum"),
            ("dram__bytes_read.sum", "dram__bytes_write.sum"),
        ):
            unit = model.SECTOR_BYTES if first.startswith("lts__") else 1
            links.append(_Link(unit * m[first], unit * m[second]))
    return boxes[: len(links) + 1], links


def _headline(m: Mapping[str, float], reads: Sequence[Total]) -> str:
    needed, touched = sum(t.bytes_used for t in reads), sum(t.bytes_moved for t in reads)
    text = f"Loads need {of_bytes(needed)} of global memory, and touch {of_bytes(touched)}"
    read = m.get("dram__bytes_read.sum")
    return text if read is None else f"{text}; {of_bytes(read)} come from DRAM"


def _shared(m: Mapping[str, float]) -> str:
    """Return a sentence about shared memory, or an empty text if the kernel does not use it."""
    wavefronts, ideal = m["memory_l1_wavefronts_shared"], m["memory_l1_wavefronts_shared_ideal"]
    if not wavefronts:
        return ""
    conflicts = number(int(wavefronts - ideal))
    return (
        f"Shared memory: {number(int(wavefronts))} wavefronts, {conflicts} of them because of bank "
        "conflicts."
    )


def _arrow(
    canvas: Canvas, x: float, y: float, length: float, size: float, most: float, *, to_left: bool
) -> None:
    """Draw an arrow with its bytes above it. No bytes make a dashed line."""
    colour = BLUE if to_left else ORANGE
    weight = max(1.0, _WIDEST * size / most)
    head = 5 + weight / 2
    inside = (x + 6, x + length - 6)
    tip, tail = inside if to_left else inside[::-1]
    back = tip + head if to_left else tip - head
    canvas.text(
        x + length / 2, y - _WIDEST / 2 - 4, of_bytes(size), anchor="middle", most=length - 4
    )
    if not size:
        canvas.path(f"M{tail:.1f} {y:.1f}H{tip:.1f}", stroke=FAINT, dash="3 3")
        return
    canvas.path(
        f"M{tail:.1f} {y:.1f}H{back:.1f}", stroke=colour, weight=weight, data={"bytes": int(size)}
    )
    canvas.path(
        f"M{back:.1f} {y - head:.1f}L{tip:.1f} {y:.1f}L{back:.1f} {y + head:.1f}",
        stroke=colour,
        weight=2,
    )


def _text(boxes: list[tuple[str, str]], links: list[_Link]) -> list[str]:
    """Return the chart in characters, with two arrows between two boxes."""
    rows = ["", "", ""]
    for i, (name, below) in enumerate(boxes):
        for row, word in enumerate((name, below, "")):
            rows[row] = rows[row].ljust(i * _COLUMNS) + word
        if i < len(links):
            link = links[i]
            at = i * _COLUMNS + 7
            rows[0] = rows[0].ljust(at) + f"<- {of_bytes(link.reads)}"
            rows[2] = rows[2].ljust(at) + f"-> {of_bytes(link.writes)}"
    return [row.rstrip() for row in rows]
