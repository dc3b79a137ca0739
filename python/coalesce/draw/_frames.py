"""Draws matrices and the cells that a warp accesses, at one or more steps of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coalesce.common import require
from coalesce.common.words import plural
from coalesce.draw import _panel, _strip
from coalesce.draw._canvas import INNER, MARGIN, Canvas, Picture, Swatch
from coalesce.draw._matrix import Matrix, window_over
from coalesce.draw._palette import BLUE, SOFT
from coalesce.draw._panel import Panel
from coalesce.draw._words import ARROW, percent, plain

_BETWEEN = 16.0  # the space between two panels
_BETWEEN_FRAMES = 34.0
_LABEL = 20.0  # the height of a frame's label
_SIZES = (24.0, 22.0, 20.0, 18.0, 16.0, 15.0, 13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.5, 5.0)
_TALLEST = 330.0  # the largest height of one grid
_TALL = 700.0  # the largest height of all grids together
_READABLE = 12.0  # the size of cells if not all matrices fit on a screen
# The largest number of rows and columns that are shown. If this makes the cells too small, the next
# number is tried.
_MOST_SHOWN = (34, 22, 12)
_MOST_LINES = 32  # the most lines of memory that are drawn below a matrix

Frames = Mapping[str, Sequence[Matrix]] | Sequence[Matrix]


def matrix_cells(
    shape: Sequence[int],
    touched: Any,
    *,
    name: str = "a",
    itemsize: int = 4,
    labels: Sequence[object] | None = None,
    groups: Sequence[int] | None = None,
    pitch: int | None = None,
    offset: int = 0,
    boxes: Sequence[tuple[int, int, int, int]] = (),
    title: str | None = None,
    headline: str | None = None,
) -> Picture:
    """Draw a matrix in global memory, and the cells that a warp accesses.

    The GPU moves memory in sectors of 32 bytes. The accessed cells of a sector have the same
    colour. Cells of a touched sector that no lane accesses are hatched. Below the matrix, the
    picture shows the accessed cache lines.

    Parameters
    ----------
    shape : (int, int) or (int,)
        The number of rows and of columns. A single number means one row. If the matrix is large,
        only the part around the accessed cells is shown.
    touched : array of int, shape (lanes, 2)
        For each lane, the row and the column of the cell that the lane accesses. If `shape` is a
        single number, you can pass only the column for each lane.
    name : str
        The name of the matrix.
    itemsize : int
        The size of an element in bytes.
    labels, groups, pitch, offset, boxes
        The same as the attributes of `Matrix`.
    title : str, optional
        A line above the headline, such as the source line.
    headline : str, optional
        The headline. By default, it is the number of cells and sectors.

    Returns
    -------
    Picture

    Raises
    ------
    TypeError, ValueError
        An argument has the wrong type, or a cell is outside the matrix.

    Examples
    --------
    >>> column = [(row, 5) for row in range(32)]
    >>> print(coalesce.draw.matrix_cells((512, 512), column).headline)
    32 cells of a (512, 512) → 32 sectors, 12.5 % of the bytes used
    """
    matrix = Matrix(name, shape, touched, labels, groups, itemsize, pitch, offset, boxes=boxes)
    return _draw({"": [matrix]}, title, headline, strip=matrix)


def matrices(frames: Frames, *, title: str | None = None, headline: str | None = None) -> Picture:
    """Draw several matrices side by side, for one or more steps of a kernel.

    Each step of the kernel is a frame, such as an iteration of a loop.

    Parameters
    ----------
    frames : mapping of str to sequence of Matrix, or sequence of Matrix
        For several frames, pass a mapping from the label of each frame, such as "k = 0", to its
        matrices. For one frame, pass a sequence of its matrices. If a matrix is in several
        frames, each frame shows the same rows and columns of the matrix.
    title : str, optional
        A line above the headline.
    headline : str, optional
        The headline. By default, it says how many sectors of each matrix the first frame touches.

    Returns
    -------
    Picture

    Raises
    ------
    TypeError, ValueError
        There is no frame, or a frame has no matrix or more than 6 matrices.

    Examples
    --------
    >>> lanes = range(32)
    >>> steps = {
    ...     f"k = {k}": [
    ...         coalesce.draw.Matrix("a", (64, 64), [(lane, k) for lane in lanes]),
    ...         coalesce.draw.Matrix("b", (64, 64), [(k, 0) for lane in lanes]),
    ...     ]
    ...     for k in range(3)
    ... }
    >>> print(coalesce.draw.matrices(steps).headline)
    A warp at one step: 32 sectors of a, 1 sector of b
    """
    if not isinstance(frames, Mapping):
        frames = {"": frames}
    if not frames:
        raise ValueError("`frames` must contain at least one frame")
    for label, panels in frames.items():
        for panel in panels:
            if not isinstance(panel, Matrix):
                raise TypeError(
                    f"`frames` must contain Matrix objects; frame {label!r} has {panel!r}"
                )
        if not 1 <= len(panels) <= 6:
            raise ValueError(f"a frame must have 1 to 6 matrices; {label!r} has {len(panels)}")
    return _draw(frames, title, headline, strip=None)


def _draw(
    frames: Mapping[str, Sequence[Matrix]],
    title: str | None,
    headline: str | None,
    strip: Matrix | None,
) -> Picture:
    first = list(next(iter(frames.values())))
    if headline is not None:
        require.text("headline", headline)
    else:
        headline = _count(strip) if strip else _counts(first)
    canvas = Canvas()
    y = canvas.headline(16, title, headline)
    arrangement = _arrange(frames)
    for label, x, top in arrangement.labels:
        canvas.text(MARGIN + x, y + top + 12, label, size=13, bold=True)
    for panel, x, top in arrangement.panels:
        _panel.draw(canvas, panel, MARGIN + x, y + top)
    y += arrangement.height
    if strip and strip._moved:
        y = _memory(canvas, strip, y + 6)
    y = _legend(canvas, frames, y + 14)
    text = [title] if title else []
    text += plain(headline)
    text += [line for panel in arrangement.first for line in _panel.text_of(panel)]
    if len(frames) > 1:
        text += [f"... {plural(len(frames) - 1, 'frame')} more"]
    return canvas.picture(
        y + 16,
        headline=headline,
        description=f"{headline}. " + " ".join(_sentence(label, m) for label, m in frames.items()),
        text="\n".join(text),
    )


@dataclass
class Arrangement:
    """Where each label and each panel (matrix) is drawn.

    The coordinates count from the upper left corner of the drawing.
    """

    cell: float  # the size of a cell of the matrices in pixels
    first: list[Panel]  # the panels of the first frame
    # Each label or panel with its x and y coordinate.
    labels: list[tuple[str, float, float]] = field(default_factory=list)
    panels: list[tuple[Panel, float, float]] = field(default_factory=list)
    width: float = 0
    height: float = 0


def _arrange(frames: Mapping[str, Sequence[Matrix]]) -> Arrangement:
    """Return the arrangement with the largest cells that is not too tall.

    If all arrangements are too tall, return the arrangement with the smallest height.
    """
    named: dict[str, list[Matrix]] = {}
    for matrix in (matrix for panels in frames.values() for matrix in panels):
        named.setdefault(matrix.name, []).append(matrix)
    arrangements: list[Arrangement] = []
    for most in _MOST_SHOWN:
        windows = {name: window_over(same, most) for name, same in named.items()}
        for beside, stacked in _SHAPES if len(frames) > 1 else _SHAPES[:1]:
            for size in _SIZES:
                made = {
                    label: [Panel(m, windows[m.name], size) for m in panels]
                    for label, panels in frames.items()
                }
                placed = _place(made, beside, stacked)
                tallest = max(panel.height for panel, _, _ in placed.panels)
                if placed.width <= INNER and tallest <= _TALLEST:
                    arrangements.append(placed)
        if arrangements:
            break
    low = [a for a in arrangements if a.height <= _TALL]
    if low:
        return max(low, key=lambda a: a.cell)
    largest = max(a.cell for a in arrangements)
    return min(
        (a for a in arrangements if a.cell >= min(_READABLE, largest)), key=lambda a: a.height
    )


# The three arrangements that are tried, as (beside, stacked). If `beside` is true, the frames are
# side by side; otherwise they are below each other. If `stacked` is true, the panels of a frame are
# below each other; otherwise they are side by side.
_SHAPES = ((True, False), (False, False), (True, True))


def _place(frames: dict[str, list[Panel]], beside: bool, stacked: bool) -> Arrangement:
    first = next(iter(frames.values()))
    result = Arrangement(first[0].cell, first)
    x = y = 0.0
    for label, panels in frames.items():
        across, down = x, y
        if label:
            result.labels.append((label, x, y))
            down += _LABEL
        top = down
        right = bottom = 0.0
        for panel in panels:
            result.panels.append((panel, across, down))
            right, bottom = (
                max(right, across + panel.full_width),
                max(bottom, down + panel.full_height),
            )
            if stacked:
                down = bottom + 8
            else:
                across, down = right + _BETWEEN, top
        result.width, result.height = max(result.width, right), max(result.height, bottom)
        if beside:
            x = right + _BETWEEN_FRAMES
        else:
            y = bottom + 12
    return result


def _memory(canvas: Canvas, matrix: Matrix, y: float) -> float:
    """Draw the lines of memory that contain the touched cells."""
    memory = matrix._moved
    assert memory is not None
    lines = memory.lines[:_MOST_LINES]
    heading = "the same cells in memory, row after row"
    if len(lines) < len(memory.lines):
        heading += f": the first {len(lines)} of {plural(len(memory.lines), 'line')}"
    canvas.text(MARGIN, y + 12, heading, size=12.5, paint=SOFT)
    strip = _strip.lay_out(memory, MARGIN, y + 22, INNER, lines)
    _strip.draw(canvas, strip)
    if matrix.labels is None:
        users: dict[int, list[int]] = {}
        for lane, touched in enumerate(matrix.cells):
            users.setdefault(matrix.address(touched), []).append(lane)
        _strip.lanes(canvas, strip, matrix.itemsize, users)
    y = _strip.names(canvas, strip)

    def cell(address: int) -> str:
        element = (address - matrix.offset) // matrix.itemsize
        row, col = divmod(element, matrix.pitch or matrix.extents[1])
        return f"{matrix.name}[{row}, {col}]" if element >= 0 else f"{address:#x}"

    return _strip.addresses(canvas, strip, y + 8, cell)


def _legend(canvas: Canvas, frames: Mapping[str, Sequence[Matrix]], y: float) -> float:
    panels = [matrix for members in frames.values() for matrix in members]
    by_sector = any(m._moved and m.groups is None for m in panels)
    touched = "touched; a colour for each sector" if by_sector else "touched"
    entries = [Swatch(touched, BLUE)]
    if any(m.moved_cells for m in panels):
        entries.append(Swatch("in a touched sector, not accessed", BLUE, hatched=True))
    return canvas.legend(y, entries)


def _count(matrix: Matrix) -> str:
    cells = f"{plural(len(matrix.cell_labels), 'cell')} of {matrix.name} {matrix.extents}"
    moved = matrix._moved
    if moved is None:
        return cells
    used = percent(moved.bytes_used, moved.bytes_moved)
    return f"{cells} {ARROW} {plural(len(moved.sectors), 'sector')}, {used} of the bytes used"


def _counts(panels: Sequence[Matrix]) -> str:
    counts = [f"{plural(len(m._moved.sectors), 'sector')} of {m.name}" for m in panels if m._moved]
    if not counts:
        return "The cells that a warp touches: " + ", ".join(matrix.name for matrix in panels)
    return "A warp at one step: " + ", ".join(counts)


def _sentence(label: str, panels: Sequence[Matrix]) -> str:
    parts = "; ".join(_count(matrix) for matrix in panels)
    return f"{label}: {parts}." if label else f"{parts}."
