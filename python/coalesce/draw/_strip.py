"""Draws the cache lines that an access touches, from left to right, as a strip.

The strip shows the sectors of each line, and which bytes are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from coalesce.draw._canvas import Canvas, Data, number, text_width
from coalesce.draw._palette import FAINT, INK, SOFT, WASH, Paint, group, letter, on
from coalesce.draw._sectors import Memory, Sector
from coalesce.draw._words import lane_list, runs_of, short_list

HEIGHT = 26.0
_WIDE_GAP, _NARROW_GAP = 20.0, 4.0
_FEW_GAPS = 5  # up to this number, gaps are wide and show dots
# Up to this number of lines, sectors that are not moved are drawn narrow, to leave room for the
# sectors that are moved.
_FEW_LINES = 4
_NARROW = 0.25


@dataclass(frozen=True)
class Strip:
    """Where the sectors of some cache lines are drawn, from left to right.

    All sectors of the lines are drawn, even sectors that the access does not move.

    Attributes
    ----------
    y : float
        The upper edge of the strip.
    memory : Memory
        The cache lines and sectors that the access touches.
    lines : list of int
        The addresses of the cache lines.
    scale : float
        The width in pixels of a byte in a moved sector. Sectors that are not moved may be narrower.
    cells : dict of int to (float, float)
        The key is the address of a sector. The value is a pair: the x coordinate of the sector's
        left edge, and the sector's width.
    """

    y: float
    memory: Memory
    lines: list[int]
    scale: float
    cells: dict[int, tuple[float, float]]

    @property
    def bottom(self) -> float:
        return self.y + HEIGHT

    @property
    def sector_width(self) -> float:
        return self.memory.sector_bytes * self.scale

    def position(self, address: int) -> float:
        """Return the x coordinate of the byte at an address."""
        offset = address % self.memory.sector_bytes
        x, width = self.cells[address - offset]
        return x + offset * width / self.memory.sector_bytes

    def edges(self, line: int) -> tuple[float, float]:
        """Return the x coordinates of both ends of a cache line; `line` is its address."""
        last_x, last_width = self.cells[line + self.memory.line_bytes - self.memory.sector_bytes]
        return self.cells[line][0], last_x + last_width

    def moved(self) -> list[Sector]:
        """Return the moved sectors of all lines."""
        sectors = self.memory.sectors
        return [sectors[address] for address in self.cells if address in sectors]

    def unmoved(self) -> list[tuple[int, float, float]]:
        """Return the groups of neighbouring sectors that are not moved.

        Return a tuple for each group: the number of its sectors, and the x coordinates of its left
        and right edge.
        """
        runs: list[tuple[int, float, float]] = []
        for address, (x, width) in self.cells.items():
            if address in self.memory.sectors:
                continue
            if runs and runs[-1][2] == x and address % self.memory.line_bytes:
                count, left, _ = runs.pop()
                runs.append((count + 1, left, x + width))
            else:
                runs.append((1, x, x + width))
        return runs


def lay_out(memory: Memory, x: float, y: float, width: float, lines: list[int]) -> Strip:
    """Determine where the sectors of some cache lines are drawn.

    `lines` are the addresses of the lines, and `width` is the width of the strip in pixels. If two
    lines are not neighbours in memory, there is a gap between them.
    """
    jumps = [b - a > memory.line_bytes for a, b in pairwise(lines)]
    gap = _WIDE_GAP if sum(jumps) <= _FEW_GAPS else _NARROW_GAP
    narrow = _NARROW if 1 < len(lines) <= _FEW_LINES else 1.0
    sectors = [
        address
        for line in lines
        for address in range(line, line + memory.line_bytes, memory.sector_bytes)
    ]
    shares = [1.0 if address in memory.sectors else narrow for address in sectors]
    unit = (width - gap * sum(jumps)) / sum(shares)
    cells = {}
    previous = lines[0]
    for address, share in zip(sectors, shares, strict=True):
        line = address - address % memory.line_bytes
        if line - previous > memory.line_bytes:
            x += gap
        cells[address] = (x, unit * share)
        x += unit * share
        previous = line
    return Strip(y, memory, lines, unit / memory.sector_bytes, cells)


def draw(canvas: Canvas, strip: Strip) -> None:
    """Draw the sectors, the used bytes in them, and the outlines of the cache lines."""
    for count, left, right in strip.unmoved():
        tip = f"{count * strip.memory.sector_bytes} bytes: not touched"
        canvas.rect(
            left, strip.y, right - left, HEIGHT, fill=WASH, tip=tip, data={"unmoved": count}
        )
        step = (right - left) / count
        marks = [
            f"M{number(left + i * step)} {number(strip.y)}v{number(HEIGHT)}"
            for i in range(1, count)
        ]
        if marks:
            canvas.path("".join(marks), stroke=FAINT, weight=0.6)
    for sector in strip.moved():
        _sector(canvas, strip, sector)
    previous = None
    for line in strip.lines:
        left, right = strip.edges(line)
        weight = 1.4 if strip.sector_width > 8 else 0.8
        canvas.rect(
            left,
            strip.y,
            right - left,
            HEIGHT,
            stroke=INK,
            weight=weight,
            data={"line": f"{line:#x}"},
        )
        if previous is not None and left - previous > _NARROW_GAP + 1:
            x, y = (previous + left) / 2, strip.y + HEIGHT / 2 + 4
            canvas.text(x, y, "⋯", size=15, paint=SOFT, anchor="middle")
        previous = right


def _sector(canvas: Canvas, strip: Strip, sector: Sector) -> None:
    paint, name = group(sector.number), letter(sector.number)
    size = strip.memory.sector_bytes
    x, width = strip.cells[sector.address]
    tip = (
        f"sector {name} at {sector.address:#x}: {sector.bytes_used} of {size} bytes used, "
        f"by {lane_list(sector.lanes)}"
    )
    marks: Data = {"sector": name, "used": sector.bytes_used}
    if sector.bytes_used < size:
        canvas.rect(x, strip.y, width, HEIGHT, fill=WASH, tip=tip, data=marks)
        canvas.hatch([(x, strip.y, width, HEIGHT)], paint)
        for first, last in runs_of([i for i, flag in enumerate(sector.used) if flag]):
            # Used bytes are drawn at least this wide, so that they are visible in a small strip.
            used = max((last + 1 - first) * strip.scale, 1.6)
            canvas.rect(x + first * strip.scale, strip.y, used, HEIGHT, fill=paint, tip=tip)
    else:
        canvas.rect(x, strip.y, width, HEIGHT, fill=paint, tip=tip, data=marks)
    if width > 8:
        canvas.rect(x, strip.y, width, HEIGHT, stroke=paint, weight=0.8)


def names(canvas: Canvas, strip: Strip) -> float:
    """Label each moved sector with its letter and the number of its used bytes.

    The labels are below the strip. If there is no room, the numbers are left out. Return the y
    coordinate of the lower edge of the labels.
    """
    wide, middling = strip.sector_width >= 84, strip.sector_width >= 34
    size = strip.memory.sector_bytes
    y = strip.bottom + 14
    reach = float("-inf")
    for sector in strip.moved():
        x, width = strip.cells[sector.address]
        middle, name = x + width / 2, letter(sector.number)
        if wide:
            label = f"{name}: {sector.bytes_used} of {size} B"
            canvas.text(middle, y, label, size=12, anchor="middle", most=width)
        elif middle - reach > 6.5:
            canvas.text(middle, y, name, size=11.5, anchor="middle", most=11)
            reach = middle
            if middling:
                label = f"{sector.bytes_used}/{size}"
                canvas.text(middle, y + 14, label, paint=SOFT, anchor="middle")
    if strip.sector_width > 2 * size * _NARROW and len(strip.lines) <= _FEW_LINES:
        for count, left, right in strip.unmoved():
            label, middle = f"{count * size} B not touched", (left + right) / 2
            canvas.text(middle, y, label, paint=SOFT, anchor="middle", most=right - left)
    return y + (18 if middling and not wide else 4)


def lanes(canvas: Canvas, strip: Strip, itemsize: int, users: dict[int, list[int]]) -> None:
    """Write the number of each lane into the strip, on top of the bytes that the lane accesses.

    `users` maps an address to the lanes that access it, and `itemsize` is the number of bytes that
    each lane accesses. If one of the numbers does not fit, none is written.
    """
    width = itemsize * strip.scale
    here = {a: u for a, u in users.items() if a - a % strip.memory.sector_bytes in strip.cells}
    if any(text_width(short_list(used), 9) > width - 3 for used in here.values()):
        return
    entries: dict[Paint, list[tuple[float, str]]] = {}
    for address, used in here.items():
        paint = on(group(strip.memory.sector_of(address).number))
        entry = (strip.position(address) + width / 2, short_list(used))
        entries.setdefault(paint, []).append(entry)
    longest = max(len(short_list(used)) for used in here.values())
    size = min(10.5, (width - 3) / (0.6 * longest))
    for paint, texts in entries.items():
        canvas.row(strip.y + HEIGHT / 2 + 3.8, texts, size=size, paint=paint)


def addresses(canvas: Canvas, strip: Strip, y: float, label: Callable[[int], str]) -> float:
    """Write the addresses of the cache lines, below the strip. Return the y coordinate below them.

    `label` is a function that returns the text for an address. If there is no room for all
    addresses, only the first and the last are written.
    """
    edges = [strip.edges(line) for line in strip.lines]
    labels = [label(line) for line in strip.lines]
    if all(text_width(text, 11) + 8 < b - a for text, (a, b) in zip(labels, edges, strict=True)):
        for text, (left, _) in zip(labels, edges, strict=True):
            canvas.path(f"M{number(left)} {number(strip.bottom)}V{number(y + 2)}", stroke=FAINT)
            canvas.text(left + 4, y + 2, text, paint=SOFT)
        return y + 6
    left, right = edges[0][0], edges[-1][1]
    canvas.text(left, y + 2, labels[0], paint=SOFT)
    canvas.text(right, y + 2, labels[-1], paint=SOFT, anchor="end")
    steps = {b - a for a, b in pairwise(strip.lines)}
    apart = f", {steps.pop():,} bytes apart" if len(steps) == 1 else ""
    text = f"{len(strip.lines)} lines of {strip.memory.line_bytes} bytes{apart}"
    canvas.text((left + right) / 2, y + 2, text, paint=SOFT, anchor="middle")
    return y + 6
