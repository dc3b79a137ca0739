"""Draws the threads of a block, and the warps to which they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coalesce.common import require
from coalesce.common.words import plural
from coalesce.draw._canvas import INNER, MARGIN, Canvas, Data, Picture, number, text_width
from coalesce.draw._gaps import Gap, shorten
from coalesce.draw._lanes import MOST_LANES, power_of_two
from coalesce.draw._palette import PAPER, SOFT, group, letter, on
from coalesce.draw._words import plain

# The most threads of a block (CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability").
MOST_THREADS = 1024
# The largest cell, and the smallest cell in which a lane's number fits.
_LARGEST, _NUMBERED = 26.0, 15.0
_ROW = 19.0
_BETWEEN = 18.0
_NAME_ROOM = 62.0  # the space beside a row for the names of its warps
_MOST_ROWS, _MOST_LAYERS = 34, 9


def thread_block(
    block_dim: int | Sequence[int], *, warp_size: int = 32, title: str | None = None
) -> Picture:
    """Draw the threads of a block, and the warps to which they belong.

    The colour of a thread shows its warp, and the number shows its lane. Threads are numbered along
    x first, then along y, then along z. Each group of 32 consecutive threads is a warp. A warp
    executes each memory instruction for all of its threads together.

    Parameters
    ----------
    block_dim : int or tuple of up to three int
        The extents of the block in the order x, y, z, as in ``dim3``. The block has at most 1024
        threads.
    warp_size : int
        The number of lanes of a warp: 32, or 64 for AMD GPUs, which call a warp a wavefront.
    title : str, optional
        A line above the headline.

    Returns
    -------
    Picture

    Raises
    ------
    TypeError, ValueError
        The block has no threads, too many threads, or more than three extents.

    Examples
    --------
    >>> print(coalesce.draw.thread_block((24, 5)).headline)
    24 x 5 threads are 4 warps; the last has 24 of 32 lanes

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Thread Hierarchy": the thread ID of (x, y, z) in a block of
    (Dx, Dy, Dz) is x + y Dx + z Dx Dy.
    """
    x, y, z = _extents(block_dim)
    warp_size = power_of_two("warp_size", warp_size, 1, MOST_LANES)
    threads = x * y * z
    shape = " x ".join(map(str, (x, y, z)[: 3 if z > 1 else 2 if y > 1 else 1]))
    headline = f"{shape} threads are {plural(-(-threads // warp_size), 'warp')}"
    rest = threads % warp_size
    if rest:
        which = "; the last has" if threads > warp_size else ", with"
        headline += f"{which} {rest} of {warp_size} lanes"
    note = _note(x, y, z, warp_size)

    canvas = Canvas()
    top = canvas.headline(16, title, headline, note)
    # If the block is one long row of threads, draw each warp as a row of its own.
    folded = y == z == 1 and x > warp_size
    columns, rows = (warp_size, -(-x // warp_size)) if folded else (x, y)
    grid = Grid(columns, rows, z, threads, warp_size, folded)
    bottom = _layers(canvas, grid, top)
    return canvas.picture(
        bottom + 14,
        headline=headline,
        description=f"{headline}. {note}",
        text=_text(grid, title, headline, note),
    )


@dataclass(frozen=True)
class Grid:
    """How the threads of a block are drawn: one layer for each z, with a row for each y."""

    columns: int
    rows: int
    layers: int
    threads: int
    warp_size: int
    folded: bool  # True if the block is one long row, which is drawn as rows of one warp

    def runs(self, layer: int, row: int) -> list[tuple[int, int, int]]:
        """Split a row of threads into parts, so that each part belongs to one warp.

        Return three numbers for each part: its first column, the number of its threads, and the
        index of its first thread in the block. For example, row 1 of a 24 x 5 block has the threads
        24 to 47. Its parts are ``(0, 8, 24)`` and ``(8, 16, 32)``.
        """
        thread = (layer * self.rows + row) * self.columns
        end = min(thread + self.columns, self.threads)
        start, runs = thread, []
        while thread < end:
            stop = min(end, thread - thread % self.warp_size + self.warp_size)
            runs.append((thread - start, stop - thread, thread))
            thread = stop
        return runs

    def row_name(self, row: int) -> str:
        return f"x = {row * self.columns}..." if self.folded else f"y = {row}"


def _extents(block_dim: Any) -> tuple[int, int, int]:
    dimensions = list(block_dim) if isinstance(block_dim, (tuple, list)) else [block_dim]
    if not 1 <= len(dimensions) <= 3:
        raise ValueError(f"`block_dim` must have 1 to 3 extents; got {len(dimensions)}")
    extents = [require.whole("block_dim", extent, 1) for extent in dimensions] + [1, 1]
    threads = extents[0] * extents[1] * extents[2]
    if threads > MOST_THREADS:
        raise ValueError(f"`block_dim` must have at most {MOST_THREADS} threads; got {threads}")
    return extents[0], extents[1], extents[2]


def _note(x: int, y: int, z: int, warp_size: int) -> str:
    rows = y * z
    if rows == 1 or x % warp_size == 0:
        return "The lanes of a warp are consecutive threads along x."
    spanned = min(rows, warp_size // x)
    # Rows with the same z differ only in y.
    differ = "threadIdx.z differs" if y == 1 else "threadIdx.y and z differ"
    if y > 1 and (z == 1 or y % spanned == 0):
        differ = "threadIdx.y differs"
    if x * rows <= warp_size:
        return f"One warp spans all {rows} rows: {differ} among its lanes."
    if warp_size % x == 0:
        return f"A warp spans {plural(spanned, 'row')}: {differ} among its lanes."
    return "Warps end in the middle of rows: lanes are counted along x, then y, then z."


def _layers(canvas: Canvas, grid: Grid, top: float) -> float:
    """Draw a grid of threads for each z, side by side if they fit. Return the y below the grids."""
    shown = shorten(range(grid.layers), grid.layers, _MOST_LAYERS)
    left = 10 + 6 * len(grid.row_name(grid.rows - 1))
    names = left + _NAME_ROOM
    across = int((INNER + _BETWEEN) // (grid.columns * _NUMBERED + names + _BETWEEN))
    across = max(1, min(across, len(shown)))
    cell = (INNER - (across - 1) * _BETWEEN) / across - names
    cell = min(_LARGEST, cell / grid.columns)
    slot = grid.columns * cell + names + _BETWEEN
    y = below = top
    for place, layer in enumerate(shown):
        if place % across == 0:
            y = below + (16 if place else 4)
        x = MARGIN + place % across * slot
        if isinstance(layer, Gap):
            canvas.text(x + left, y + 12, f"... {plural(layer.count, 'layer')} more", paint=SOFT)
            continue
        if grid.layers > 1:
            canvas.text(x + left, y + 9, f"z = {layer}", bold=True)
        below = max(below, _layer(canvas, grid, layer, x + left, y + 14, cell))
    return below


def _layer(canvas: Canvas, grid: Grid, layer: int, x: float, y: float, cell: float) -> float:
    for column in _columns_to_number(grid.columns, cell):
        label = "x = 0" if column == 0 else str(column)
        if not grid.folded:
            middle = x + (column + 0.5) * cell
            canvas.text(middle, y + 8, label, size=10, paint=SOFT, anchor="middle")
    y += 0 if grid.folded else 12
    named: list[int] = []
    for row in shorten(range(grid.rows), grid.rows, _MOST_ROWS):
        if isinstance(row, Gap):
            text = f"... {plural(row.count, 'row')} more ..."
            canvas.text(x + grid.columns * cell / 2, y + 11, text, paint=SOFT, anchor="middle")
            y += 16
            continue
        name = grid.row_name(row)
        canvas.text(x - 5, y + 0.5 * _ROW + 3.5, name, size=10, paint=SOFT, anchor="end")
        runs = grid.runs(layer, row)
        for run in runs:
            _run(canvas, grid, run, x + run[0] * cell, y, cell)
        warps = [thread // grid.warp_size for _, _, thread in runs]
        if warps != named:  # if a warp has several rows, name it only once
            label = f"warp {warps[0]}" if len(warps) == 1 else f"warps {warps[0]}-{warps[-1]}"
            end = x + sum(count for _, count, _ in runs) * cell + 6
            canvas.text(end, y + 0.5 * _ROW + 3.5, label, size=10, paint=SOFT)
            named = warps
        y += _ROW
    return y


def _run(
    canvas: Canvas, grid: Grid, run: tuple[int, int, int], x: float, y: float, cell: float
) -> None:
    """Draw the threads of one warp in one row."""
    _, count, thread = run
    warp, lane = divmod(thread, grid.warp_size)
    paint = group(warp)
    lanes = f"lane {lane}" if count == 1 else f"lanes {lane}-{lane + count - 1}"
    tip = f"warp {warp}, {lanes}"
    marks: Data = {"warp": warp, "lane": lane, "threads": count}
    canvas.rect(x, y, count * cell, _ROW, fill=paint, stroke=PAPER, tip=tip, data=marks)
    baseline = y + 0.5 * _ROW + 3.8
    if cell >= _NUMBERED - 0.01:
        if count > 1:
            marks_between = "".join(
                f"M{number(x + i * cell)} {number(y + 3)}v{number(_ROW - 6)}"
                for i in range(1, count)
            )
            canvas.path(marks_between, stroke=on(paint), weight=0.6, opacity=0.5)
        numbers = [(x + (i + 0.5) * cell, str(lane + i)) for i in range(count)]
        canvas.row(baseline, numbers, size=min(10.5, (cell - 3) / 1.2), paint=on(paint))
        return
    for label in (tip, f"warp {warp}", str(warp)):
        if text_width(label, 10) <= count * cell - 2:
            middle = x + count * cell / 2
            canvas.text(middle, baseline, label, size=10, paint=on(paint), anchor="middle")
            return


def _columns_to_number(columns: int, cell: float) -> list[int]:
    """Return which columns get a number: the first, the last, and every eighth if there is room."""
    if columns == 1:
        return [0]
    between = list(range(8, columns - 4, 8)) if 8 * cell > 40 else []
    return [0, *between, columns - 1]


def _text(grid: Grid, title: str | None, headline: str, note: str) -> str:
    """Draw the block in ASCII: each thread is the letter of its warp.

    At most 8 rows of a layer are shown, and at most 24 rows of all layers together.
    """
    result = [title] if title else []
    result += [*plain(headline), *plain(note)]
    width = max(len(grid.row_name(row)) for row in range(grid.rows))
    shown = max(1, min(grid.layers, 24 // min(grid.rows, 8)))
    for layer in range(shown):
        if grid.layers > 1:
            result.append(f"z = {layer}")
        for item in shorten(range(grid.rows), grid.rows, 8):
            if isinstance(item, Gap):
                result.append(f"{'...':>{width}}  {plural(item.count, 'row')} more")
                continue
            runs = grid.runs(layer, item)
            line = "".join(letter(thread // grid.warp_size) * count for _, count, thread in runs)
            line = line if len(line) <= 64 else line[:61] + "..."
            result.append(f"{grid.row_name(item):>{width}}  {line}")
    if grid.layers > shown:
        result.append(f"... {plural(grid.layers - shown, 'layer')} more")
    return "\n".join(result)
