"""Draws one matrix of a picture: its grid and the accessed cells.

It also draws the other cells of the same sectors, because the hardware moves whole sectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from coalesce.common.words import plural
from coalesce.draw._canvas import Box, Canvas, Data, number, text_width
from coalesce.draw._gaps import Gap, Item
from coalesce.draw._matrix import Cell, Matrix, Window
from coalesce.draw._palette import FAINT, INK, SOFT, WASH, group, letter, on
from coalesce.draw._words import TIMES, short_list

GAP = 13.0  # the width of the gap that stands for hidden rows or columns
_NUMBERED = 14.0  # cells of at least this size have labels
_NAME, _NOTE = 13.0, 10.5  # the text sizes of the name and of a note
_ABOVE = 30.0  # the height of the name and the column numbers above the grid
_LINE = 13.0  # the height of one line of a note
_FEW = 256  # up to this number, each touched cell is drawn by itself and has a tooltip
_MAP, _DOT = 220.0, 5.0  # the size of a matrix drawn as a map, and of a cell in the map


@dataclass(frozen=True)
class Panel:
    """A matrix in a picture: the part that is shown, and the size of a cell in pixels."""

    matrix: Matrix
    window: Window
    cell: float

    @property
    def left(self) -> float:
        """The width of the space for the row numbers, to the left of the grid."""
        shown = [row for row in self.window.rows if not isinstance(row, Gap)]
        return 6 + 5.6 * len(str(max(shown)))

    @property
    def heading(self) -> str:
        """The text after the name of the matrix: its number of rows and columns."""
        rows, cols = self.matrix.extents
        return f"{rows} {TIMES} {cols}"

    @property
    def full_width(self) -> float:
        """The width of the whole panel, with names and notes."""
        heading = text_width(self.matrix.name, _NAME, True) + 6 + text_width(self.heading, 11)
        notes = [text_width(note, _NOTE) for note in self.matrix.notes]
        return max(heading, self.left + self.width, *notes)

    @property
    def full_height(self) -> float:
        """The height of the whole panel, with names and notes."""
        return _ABOVE + self.height + 8 + _LINE * len(self.matrix.notes)

    @property
    def width(self) -> float:
        """The width of the grid."""
        if self.window.schematic:
            rows, cols = self.matrix.extents
            return _MAP * min(1.0, max(0.2, cols / rows))
        return self._length(self.window.cols)

    @property
    def height(self) -> float:
        """The height of the grid."""
        if self.window.schematic:
            rows, cols = self.matrix.extents
            return _MAP * min(1.0, max(0.2, rows / cols))
        return self._length(self.window.rows)

    def positions(self, items: list[Item]) -> dict[Item, float]:
        """Return a dict from each row or column to its distance from the edge of the grid.

        `items` are the shown rows or columns. A gap between them is an item, too.
        """
        result: dict[Item, float] = {}
        position = 0.0
        for item in items:
            result[item] = position
            position += GAP if isinstance(item, Gap) else self.cell
        return result

    def _length(self, items: list[Item]) -> float:
        return sum(GAP if isinstance(item, Gap) else self.cell for item in items)


def draw(canvas: Canvas, panel: Panel, x: float, y: float) -> float:
    """Draw a panel. Its upper left corner is (x, y). Return the y coordinate below the panel."""
    matrix = panel.matrix
    canvas.text(x, y + 11, matrix.name, size=_NAME, bold=True)
    start = x + text_width(matrix.name, _NAME, True) + 6
    canvas.text(start, y + 11, panel.heading, paint=SOFT)
    left, top = x + panel.left, y + _ABOVE
    canvas.rect(left, top, panel.width, panel.height, fill=WASH)
    (_map if panel.window.schematic else _cells)(canvas, panel, left, top)
    canvas.rect(left, top, panel.width, panel.height, stroke=INK)
    return _notes(canvas, matrix, x, top + panel.height + 4)


def _map(canvas: Canvas, panel: Panel, left: float, top: float) -> None:
    """Draw the whole matrix small, with a dot for each touched cell."""
    rows, cols = panel.matrix.extents
    for row, col in panel.matrix.cell_labels:
        x = left + (col + 0.5) / cols * panel.width - _DOT / 2
        y = top + (row + 0.5) / rows * panel.height - _DOT / 2
        paint = group(panel.matrix.colours[row, col])
        marks: Data = {"row": row, "col": col, "touched": panel.matrix.name}
        tip = f"{panel.matrix.name}[{row}, {col}]"
        canvas.rect(x, y, _DOT, _DOT, fill=paint, radius=1, tip=tip, data=marks)


def _cells(canvas: Canvas, panel: Panel, left: float, top: float) -> None:
    """Draw the shown rows and columns, cell by cell."""
    matrix, size = panel.matrix, panel.cell
    at_row = {item: top + d for item, d in panel.positions(panel.window.rows).items()}
    at_col = {item: left + d for item, d in panel.positions(panel.window.cols).items()}
    _indices(canvas, panel, at_row, at_col, left, top)
    _grid(canvas, at_row, at_col, size)
    moved_cells: dict[int, list[Box]] = {}
    for (row, col), count, colour in _runs_of_colour(panel, matrix.moved_cells):
        moved_cells.setdefault(colour, []).append((at_col[col], at_row[row], count * size, size))
    for colour, boxes in moved_cells.items():
        cells = round(sum(box[2] for box in boxes) / size)
        canvas.hatch(boxes, group(colour), {"brought": matrix.name, "cells": cells})
    if len(matrix.cell_labels) > _FEW:
        touched: dict[int, list[Box]] = {}
        for (row, col), count, colour in _runs_of_colour(panel, matrix.colours):
            touched.setdefault(colour, []).append((at_col[col], at_row[row], count * size, size))
        for colour, boxes in touched.items():
            cells = round(sum(box[2] for box in boxes) / size)
            canvas.fill(boxes, group(colour), {"touched": matrix.name, "cells": cells})
        _grid(canvas, at_row, at_col, size)
    for cell, labels in matrix.cell_labels.items() if len(matrix.cell_labels) <= _FEW else ():
        if cell[0] in at_row and cell[1] in at_col:
            _touched(canvas, panel, cell, labels, at_col[cell[1]], at_row[cell[0]])
    for row, col, tall, wide in matrix.boxes:
        _box(canvas, (row, col), (tall, wide), at_row, at_col, size)


def _touched(
    canvas: Canvas, panel: Panel, cell: Cell, labels: list[object], x: float, y: float
) -> None:
    matrix, size = panel.matrix, panel.cell
    paint = group(matrix.colours[cell])
    numbers = [label for label in labels if isinstance(label, int)]
    who = short_list(numbers) if len(numbers) == len(labels) else str(labels[0])
    place = f"{matrix.name}[{cell[0]}, {cell[1]}]"
    by = f"{plural(len(labels), 'lane')}, {who}" if len(labels) > 1 else who
    marks: Data = {"row": cell[0], "col": cell[1], "lanes": len(labels)}
    marks["touched"] = matrix.name
    tip = f"{place}: {by}"
    canvas.rect(
        x,
        y,
        size,
        size,
        fill=paint,
        stroke=FAINT,
        weight=0.5,
        tip=tip,
        data=marks,
    )
    if size < _NUMBERED:
        return
    if len(labels) > 1 and text_width(who, 8) > size:
        who = f"{TIMES}{len(labels)}"
    font = min(11.0, 0.56 * size)
    middle, baseline = x + size / 2, y + size / 2 + 0.36 * font
    canvas.text(middle, baseline, who, size=font, paint=on(paint), anchor="middle", most=size - 2)


def _indices(
    canvas: Canvas,
    panel: Panel,
    at_row: dict[Item, float],
    at_col: dict[Item, float],
    x: float,
    y: float,
) -> None:
    """Write the indices of some rows and columns, which `_numbered` chooses.

    An index is left out if it would overlap the index before it.
    """
    touched_rows = {row for row, _ in panel.matrix.cell_labels}
    touched_cols = {col for _, col in panel.matrix.cell_labels}
    reach = float("-inf")
    for row, top in _numbered(at_row, touched_rows):
        middle = top + panel.cell / 2 + 3.2
        if middle - reach >= 9.5:
            canvas.text(x - 4, middle, str(row), size=9, paint=SOFT, anchor="end")
            reach = middle
    reach = float("-inf")
    for col, left in _numbered(at_col, touched_cols):
        middle, half = left + panel.cell / 2, text_width(str(col), 9) / 2
        if middle - half >= reach + 2:
            canvas.text(middle, y - 3.5, str(col), size=9, paint=SOFT, anchor="middle")
            reach = middle + half


def _numbered(at: dict[Item, float], touched: set[int]) -> Iterator[tuple[int, float]]:
    """Yield the rows (or columns) that get a number, and where they are drawn.

    - Up to three accessed rows: each gets a number.
    - More accessed rows: the first and the last get a number.
    - No accessed row: the first and the last row that are shown get a number.
    - The first row after a gap also gets a number.
    """
    shown = [item for item in at if not isinstance(item, Gap)]
    touched = touched or {shown[0], shown[-1]}
    ends = touched if len(touched) <= 3 else {min(touched), max(touched)}
    previous: Item = 0
    for item, place in at.items():
        if isinstance(item, Gap):
            pass
        elif item in ends or (isinstance(previous, Gap) and previous.first):
            yield item, place
        previous = item


def _grid(
    canvas: Canvas, at_row: dict[Item, float], at_col: dict[Item, float], size: float
) -> None:
    """Draw the lines between cells as one SVG path, and dots where rows or columns are left out."""
    columns, rows = list(_runs(at_col, size)), list(_runs(at_row, size))
    lines = [
        f"M{number(left + i * size)} {number(top)}V{number(bottom)}"
        for top, bottom in rows
        for left, right in columns
        for i in range(round((right - left) / size) + 1)
    ]
    lines += [
        f"M{number(left)} {number(top + i * size)}H{number(right)}"
        for top, bottom in rows
        for left, right in columns
        for i in range(round((bottom - top) / size) + 1)
    ]
    canvas.path("".join(lines), stroke=FAINT, weight=0.6)
    dots = [
        f"M{number((left + right) / 2)} {number(place + 2)}v{number(GAP - 3)}"
        for item, place in at_row.items()
        for left, right in columns
        if isinstance(item, Gap)
    ]
    dots += [
        f"M{number(place + 2)} {number((top + bottom) / 2)}h{number(GAP - 3)}"
        for item, place in at_col.items()
        for top, bottom in rows
        if isinstance(item, Gap)
    ]
    if dots:
        canvas.path("".join(dots), stroke=SOFT, weight=1.8, dash="1.8 2.2")


def _runs(at: dict[Item, float], size: float) -> Iterator[tuple[float, float]]:
    """Yield where each group of neighbouring rows or columns begins and ends."""
    stretch: list[float] = []
    for item, place in at.items():
        if isinstance(item, Gap):
            if stretch:
                yield stretch[0], stretch[-1] + size
            stretch = []
        else:
            stretch.append(place)
    if stretch:
        yield stretch[0], stretch[-1] + size


def _runs_of_colour(panel: Panel, moved_cells: dict[Cell, int]) -> Iterator[tuple[Cell, int, int]]:
    """Group neighbouring cells of a row that have the same colour.

    Yield the first cell of each group, the number of its cells, and the number of the colour.
    """
    shown_rows, shown_cols = set(panel.window.rows), set(panel.window.cols)
    cells = sorted(c for c in moved_cells if c[0] in shown_rows and c[1] in shown_cols)

    def stretch(entry: tuple[int, Cell]) -> tuple[int, int, int]:
        place, (row, col) = entry
        return row, col - place, moved_cells[row, col]

    for (_, _, sector), members in groupby(enumerate(cells), key=stretch):
        run = [cell for _, cell in members]
        yield run[0], len(run), sector


def _box(
    canvas: Canvas,
    corner: Cell,
    extent: Cell,
    at_row: dict[Item, float],
    at_col: dict[Item, float],
    size: float,
) -> None:
    """Outline the visible part of a region of the matrix."""
    tops = [at_row[r] for r in range(corner[0], corner[0] + extent[0]) if r in at_row]
    lefts = [at_col[c] for c in range(corner[1], corner[1] + extent[1]) if c in at_col]
    if tops and lefts:
        width, height = lefts[-1] + size - lefts[0], tops[-1] + size - tops[0]
        canvas.rect(lefts[0], tops[0], width, height, stroke=INK, weight=2.4)


def _notes(canvas: Canvas, matrix: Matrix, x: float, y: float) -> float:
    for line in matrix.notes:
        y += _LINE
        canvas.text(x, y, line, size=_NOTE, paint=SOFT)
    return y + 4


def text_of(panel: Panel) -> list[str]:
    """Return the panel as lines of ASCII text. At most 12 rows of the matrix are shown."""
    matrix = panel.matrix
    lines = [f"{matrix.name} {matrix.extents}"]
    if panel.window.schematic:
        return [*lines, f"       {plural(len(matrix.cell_labels), 'cell')} in all parts of it"]
    for item in panel.window.rows[:12]:
        if isinstance(item, Gap):
            lines.append(f"{'...':>6} {plural(item.count, 'row')}")
            continue
        row = []
        for col in panel.window.cols:
            if isinstance(col, Gap):
                row.append(" ~ ")
            elif (item, col) in matrix.cell_labels:
                row.append(letter(matrix.colours[item, col]))
            else:
                row.append("." if (item, col) in matrix.moved_cells else " ")
        lines.append(f"{item:>6} |{''.join(row)}|")
    if len(panel.window.rows) > 12:
        lines.append(f"{'...':>6} {plural(len(panel.window.rows) - 12, 'row')} more")
    return lines
