"""Draws one access of a warp: the lanes, and below them the memory that they access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coalesce._core import model
from coalesce.common.words import plural
from coalesce.draw import _strip
from coalesce.draw._canvas import INNER, MARGIN, Canvas, Picture, Swatch, number
from coalesce.draw._lanes import Kind, Lanes, lanes_of, power_of_two
from coalesce.draw._palette import BLUE, FAINT, SOFT, WASH, Paint, group, letter, on
from coalesce.draw._sectors import Memory, memory_of
from coalesce.draw._words import ARROW, DONE, lane_list, percent, plain

# Up to this number of lines, sectors have labels; with more lines, one line is enlarged.
_FEW_LINES = 4
_CELL = 22.0


def warp_access(
    addresses: Any,
    itemsize: int,
    mask: Any = None,
    *,
    kind: Kind = "load",
    title: str | None = None,
    array: str | None = None,
    base: int = 0,
    array_itemsize: int | None = None,
    warp_size: int | None = None,
    line_bytes: int = 128,
    sector_bytes: int = 32,
) -> Picture:
    """Draw one access of a warp to global memory: the lanes, and the sectors that they access.

    A GPU moves memory in sectors of 32 bytes. A cache line has 128 bytes, which are four sectors.
    In the picture, each lane has the colour and the letter of its sector. Bytes that a lane uses
    are filled. Bytes that are moved but not used are hatched.

    Parameters
    ----------
    addresses : sequence of int, shape (lanes,)
        For each lane, the address of the first byte that it accesses. There are up to 64 lanes.
        Lanes without an address are inactive.
    itemsize : int
        How many bytes each lane accesses: 4 for a float, 16 for a float4.
    mask : int or sequence of bool, optional
        The active lanes: an int whose bit i stands for lane i, or a bool for each lane. By default,
        all lanes are active.
    kind : {"load", "store", "atomic", "copy"}
        The kind of access. If several lanes update the same element with an atomic, the sector of
        this element is moved several times. ``"copy"`` is an asynchronous copy that reads from
        `addresses`.
    title : str, optional
        A line above the headline, such as the source line.
    array : str, optional
        The name of the array. If you pass it, the picture shows elements, such as ``x[32]``,
        instead of addresses.
    base : int
        The address of the array's first element.
    array_itemsize : int, optional
        The size of an element of the array in bytes. By default, it is `itemsize`. Pass it if a
        lane accesses several elements, or only a part of an element.
    warp_size : int, optional
        The number of lanes of a warp. By default, it is 32, or 64 (as on AMD GPUs) if there are
        more than 32 addresses.
    line_bytes, sector_bytes : int
        The size of a cache line and of a sector in bytes. Both must be powers of two.

    Returns
    -------
    Picture

    Raises
    ------
    TypeError, ValueError
        An argument has the wrong type or is out of range, or no lane is active.

    Examples
    --------
    >>> stride = coalesce.draw.warp_access(range(0, 32 * 8, 8), 4, title="x[2 * i]")
    >>> print(stride.headline)
    32 lanes, 4-byte loads → 8 sectors in 2 lines, 50 % of the bytes used

    References
    ----------
    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory". The test
    tests/python/counters/test_hardware_counters.py compares the number of sectors with the
    counters of a GPU.
    """
    lanes = lanes_of(addresses, itemsize, mask, warp_size)
    if kind not in DONE:
        raise ValueError(f"`kind` must be 'load', 'store', 'atomic' or 'copy'; got {kind!r}")
    sector_bytes = power_of_two("sector_bytes", sector_bytes, 4, 1024)
    line_bytes = power_of_two("line_bytes", line_bytes, sector_bytes, 4096)
    memory = memory_of(lanes, line_bytes, sector_bytes)

    canvas = Canvas()
    sent = _sent(lanes, memory) if kind == "atomic" else len(memory.sectors)
    headline, note = _headline(lanes, memory, kind, sent), _note(lanes, memory, sent)
    y = canvas.headline(16, title, headline, note)
    y += 27
    drop = 58 if len(memory.lines) == 1 else 84
    strip = _strip.lay_out(memory, MARGIN, y + _CELL + drop, INNER, memory.lines)
    row, users = _row_over(lanes, strip), _users(lanes)
    _links(canvas, lanes, strip, row, y + _CELL)
    _lane_row(canvas, lanes, memory, row, y)
    _strip.draw(canvas, strip)
    _strip.lanes(canvas, strip, lanes.itemsize, users)
    y = _strip.names(canvas, strip)
    y = _strip.addresses(
        canvas, strip, y + 8, _labels(array, base, array_itemsize or lanes.itemsize)
    )
    if len(memory.lines) > _FEW_LINES:
        y = _enlarged(canvas, lanes, strip, users, y)
    y = _legend(canvas, memory, y + 16)
    return canvas.picture(
        y + 16,
        headline=headline,
        description=" ".join([headline + ".", note, *_sentences(memory)]),
        text=_text(lanes, memory, title, headline, note),
    )


def _sent(lanes: Lanes, memory: Memory) -> int:
    """Return how many sectors an atomic sends.

    If lanes access the same element, its sector is sent several times. The model has a rule for the
    accesses that a GPU can make. For other accesses, return the number of touched sectors.
    """
    aligned = all(lanes.address(lane) % lanes.itemsize == 0 for lane in lanes.numbers)
    if not aligned or lanes.count > 32 or lanes.itemsize > 16 or memory.sector_bytes != 32:
        return len(memory.sectors)
    mask = sum(1 << lane for lane in lanes.numbers)
    addresses = [*lanes.addresses.tolist(), *[0] * (32 - lanes.count)]
    counted = model.counted_sectors(addresses, lanes.itemsize, mask, "atomic")
    assert counted is not None
    return counted


def _headline(lanes: Lanes, memory: Memory, kind: Kind, sectors: int) -> str:
    lines = len(memory.lines)
    moved = f"{percent(memory.bytes_used, memory.bytes_moved)} of the bytes used"
    if sectors > len(memory.sectors):
        moved = "because lanes access the same element"
    elif _broadcast(lanes):
        moved = "a broadcast"  # a broadcast uses few bytes of the sector, but this is no waste
    return (
        f"{lanes.words()}, {lanes.itemsize}-byte {DONE[kind]} {ARROW} {plural(sectors, 'sector')} "
        f"in {plural(lines, 'line')}, {moved}"
    )


def _broadcast(lanes: Lanes) -> bool:
    """Return whether several lanes are active, and all of them access the same element."""
    return len({lanes.address(lane) for lane in lanes.numbers}) == 1 and len(lanes.numbers) > 1


def _note(lanes: Lanes, memory: Memory, sent: int) -> str:
    sectors, least = len(memory.sectors), memory.least_sectors
    requested = len(lanes.numbers) * lanes.itemsize
    shared = memory.bytes_used < requested
    if sent > sectors:
        return (
            f"The lanes touch {plural(sectors, 'sector')}. A sector is sent once for each lane "
            "that accesses the same element."
        )
    if _broadcast(lanes):
        return "All lanes ask for the same bytes: one sector serves them all, a broadcast."
    if sectors == least:
        return f"Fewer sectors cannot hold the {memory.bytes_used} bytes that are asked for."
    needed = f"{memory.bytes_used} bytes asked for"
    if shared:
        needed = f"{memory.bytes_used} different bytes asked for"
    return (
        f"The {needed} would fit in {plural(least, 'sector')}; "
        f"the sectors have {memory.bytes_moved:,} bytes."
    )


def _lane_row(canvas: Canvas, lanes: Lanes, memory: Memory, row: _LaneRow, y: float) -> None:
    """Draw a row of lanes with their numbers. Each has the colour and the letter of its sector."""
    small = row.pitch < 14
    canvas.text(MARGIN, y - 17, "the warp's lanes, and the sector each touches", paint=SOFT)
    names = {lane: memory.sector_of(lanes.address(lane)).number for lane in lanes.numbers}
    for first, last in _runs(names):
        if not small:
            middle = (row.centre(first) + row.centre(last)) / 2
            canvas.text(middle, y - 4, letter(names[first]), anchor="middle", bold=True)
    for lane in range(lanes.count):
        centre = row.centre(lane)
        left, width = centre - row.pitch / 2, row.pitch
        if small and lane % 8 == 0:
            canvas.text(centre, y - 4, str(lane), size=10, paint=SOFT, anchor="middle")
        if lane not in names:
            tip = f"lane {lane}: inactive"
            canvas.rect(left, y, width, _CELL, fill=WASH, stroke=FAINT, weight=0.6, tip=tip)
            canvas.text(centre, y + 15, "-", paint=SOFT, anchor="middle")
            continue
        paint, name = group(names[lane]), letter(names[lane])
        where = f"{lanes.itemsize} bytes at {lanes.address(lane):#x}"
        tip = f"lane {lane}: {where}, sector {name}"
        canvas.rect(left, y, width, _CELL, fill=paint, tip=tip, data={"lane": lane, "sector": name})
        label = name if small else str(lane)
        canvas.text(centre, y + 15, label, paint=on(paint), anchor="middle", most=width - 3)
        if names.get(lane + 1) == names[lane]:
            d = f"M{number(left + width)} {number(y + 4)}v{number(_CELL - 8)}"
            canvas.path(d, stroke=on(paint), weight=0.6, opacity=0.5)


def _links(canvas: Canvas, lanes: Lanes, strip: _strip.Strip, row: _LaneRow, y: float) -> None:
    """Connect each lane with its bytes. All links of one colour form one SVG path."""
    curves: dict[Paint, list[str]] = {}
    for lane in lanes.numbers:
        address = lanes.address(lane)
        paint = group(strip.memory.sector_of(address).number)
        x0, x1 = row.centre(lane), strip.position(address) + lanes.itemsize * strip.scale / 2
        middle = number((y + strip.y) / 2)
        curves.setdefault(paint, []).append(
            f"M{number(x0)} {number(y)}C{number(x0)} {middle} {number(x1)} {middle} "
            f"{number(x1)} {number(strip.y)}"
        )
    for paint, paths in curves.items():
        canvas.path(
            "".join(paths), stroke=paint, weight=1.3, opacity=0.85, data={"links": len(paths)}
        )


def _enlarged(
    canvas: Canvas, lanes: Lanes, strip: _strip.Strip, users: dict[int, list[int]], y: float
) -> float:
    """Draw the first line of a strip once more, large enough for its bytes to be seen."""
    line = strip.lines[0]
    large = _strip.lay_out(strip.memory, MARGIN, y + 38, INNER, [line])
    left, right = strip.edges(line)
    canvas.path(
        f"M{number(left)} {number(y + 2)}L{number(MARGIN)} {number(large.y)}"
        f"M{number(right)} {number(y + 2)}L{number(MARGIN + INNER)} {number(large.y)}",
        stroke=FAINT,
        dash="3 3",
    )
    heading = f"the first of the {len(strip.lines)} lines, enlarged"
    canvas.text(MARGIN + 6, large.y - 7, heading, paint=SOFT)
    _strip.draw(canvas, large)
    _strip.lanes(canvas, large, lanes.itemsize, users)
    return _strip.names(canvas, large)


@dataclass(frozen=True)
class _LaneRow:
    """Where the lanes are drawn."""

    left: float
    pitch: float

    def centre(self, lane: int) -> float:
        return self.left + (lane + 0.5) * self.pitch


def _row_over(lanes: Lanes, strip: _strip.Strip) -> _LaneRow:
    """Return where to draw the lanes.

    If most lanes access consecutive bytes, each is drawn above its bytes. Otherwise, the lanes take
    the whole width of the picture.
    """
    everywhere = _LaneRow(MARGIN, INNER / lanes.count)
    first = lanes.numbers[0]
    start = lanes.address(first)
    in_step = sum(lanes.address(n) - start == (n - first) * lanes.itemsize for n in lanes.numbers)
    pitch = lanes.itemsize * strip.scale
    left = strip.position(start) - first * pitch
    fits = left >= MARGIN - 0.1 and left + lanes.count * pitch <= MARGIN + INNER + 0.1
    if len(lanes.numbers) > 1 and 2 * in_step > lanes.count and fits and pitch >= 11:
        return _LaneRow(left, pitch)
    return everywhere


def _legend(canvas: Canvas, memory: Memory, y: float) -> float:
    entries = [Swatch(f"a sector of {memory.sector_bytes} bytes", letter="A")]
    entries.append(Swatch("bytes a lane uses", BLUE))
    if memory.bytes_used < memory.bytes_moved:
        entries.append(Swatch("in a touched sector, used by none", BLUE, hatched=True))
    if len(memory.sectors) < len(memory.lines) * (memory.line_bytes // memory.sector_bytes):
        entries.append(Swatch("not touched", WASH))
    return canvas.legend(y, entries)


def _sentences(memory: Memory) -> list[str]:
    """Describe the first few sectors in words."""
    sectors = list(memory.sectors.values())
    sentences = [
        f"Sector {letter(s.number)} at {s.address:#x} serves {lane_list(s.lanes)}, "
        f"{s.bytes_used} of {memory.sector_bytes} bytes used."
        for s in sectors[:8]
    ]
    if len(sectors) > 8:
        sentences.append(f"{len(sectors) - 8} more sectors.")
    return sentences


def _text(lanes: Lanes, memory: Memory, title: str | None, headline: str, note: str) -> str:
    """Draw the access in ASCII: one character per lane, and one for every 4 bytes of memory."""
    names = {lane: memory.sector_of(lanes.address(lane)).number for lane in lanes.numbers}
    ruler = "".join(f"{lane:<8}" for lane in range(0, lanes.count, 8)).rstrip()
    row = "".join(letter(names[lane]) if lane in names else "-" for lane in range(lanes.count))
    width = max(len(f"{line:#x}") for line in memory.lines)
    result = [title] if title else []
    result += [*plain(headline), *plain(note), f"lane {ruler}", f"     {row}"]
    shown = memory.lines if len(memory.lines) <= 6 else memory.lines[:4]
    result += [_text_line(memory, line, width) for line in shown]
    if len(shown) < len(memory.lines):
        left = len(memory.lines) - len(shown) - 1
        result += [
            f"{'...':<{width}}  {left} lines more",
            _text_line(memory, memory.lines[-1], width),
        ]
    result.append("a letter: 4 bytes used; '.': in a touched sector; blank: not touched")
    return "\n".join(result)


def _text_line(memory: Memory, line: int, width: int) -> str:
    cells = []
    for address in range(line, line + memory.line_bytes, memory.sector_bytes):
        sector = memory.sectors.get(address)
        for first in range(0, memory.sector_bytes, 4):
            used = sector is not None and bool(sector.used[first : first + 4].any())
            cells.append(letter(sector.number) if sector and used else "." if sector else " ")
        cells.append("|")
    return f"{f'{line:#x}':<{width}} |{''.join(cells)}"


def _labels(array: str | None, base: int, itemsize: int) -> Callable[[int], str]:
    """Return a function that turns the address of a line into its label: "x[32]" or "0x80"."""

    def element(address: int) -> str:
        index, rest = divmod(address - base, itemsize)
        return f"{array}[{index}]" if not rest else f"{array}[{index}] + {rest} B"

    return element if array is not None else lambda address: f"{address:#x}"


def _users(lanes: Lanes) -> dict[int, list[int]]:
    """Return the lanes at each address."""
    users: dict[int, list[int]] = {}
    for lane in lanes.numbers:
        users.setdefault(lanes.address(lane), []).append(lane)
    return users


def _runs(names: dict[int, int]) -> list[tuple[int, int]]:
    """Return the first and last lane of each group of neighbours that touch the same sector."""
    runs: list[tuple[int, int]] = []
    for lane, name in names.items():
        if runs and runs[-1][1] == lane - 1 and names[lane - 1] == name:
            runs[-1] = (runs[-1][0], lane)
        else:
            runs.append((lane, lane))
    return runs
