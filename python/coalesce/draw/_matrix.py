"""Describes a matrix and the cells that threads access, and chooses the part that is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from coalesce.common import require
from coalesce.common.forks import cached_property
from coalesce.common.words import plural
from coalesce.draw._gaps import Item, shorten
from coalesce.draw._lanes import Lanes
from coalesce.draw._sectors import Memory, memory_of
from coalesce.draw._words import percent

MOST_CELLS = 4096  # the most touched cells of one matrix in one frame
_ONE_CELL = "all lanes at one cell"
Cell = tuple[int, int]


@dataclass(frozen=True)
class Matrix:
    """A row-major matrix, or a tile in shared memory, and the cells that threads access.

    Attributes
    ----------
    name : str
        The name of the matrix, such as ``"a"``.
    shape : (int, int) or (int,)
        The number of rows and of columns. ``(64,)`` means one row of 64 columns.
    touched : sequence of (row, column)
        The cell that each lane accesses. Several lanes may access the same cell.
    labels : sequence, optional
        The text for each lane, which is written into its cell. By default, it is the number of the
        lane, counted from 0.
    groups : sequence of int, optional
        A number for each lane. Cells with the same number get the same colour. By default, it is
        the number of the cell's sector.
    itemsize : int
        The size of an element in bytes.
    pitch : int, optional
        The distance between the starts of two rows, in elements. By default, it is the number of
        columns.
    offset : int
        The distance in bytes from the start of a sector to the first element. It is 0 for allocated
        arrays.
    memory : {"global", "shared"}
        The memory that contains the matrix. For global memory, the picture shows the sectors.
    boxes : sequence of (row, column, rows, columns)
        Parts of the matrix to outline, such as the tile of a block. For each, pass its first row,
        its first column, and how many rows and columns it has.
    note : str, optional
        A line below the matrix. By default, it is the number of sectors.

    Examples
    --------
    >>> column = [(row, 0) for row in range(32)]
    >>> print(coalesce.draw.matrices([coalesce.draw.Matrix("a", (32, 64), column)]).headline)
    A warp at one step: 32 sectors of a
    """

    name: str
    shape: Sequence[int]
    touched: Any = ()
    labels: Sequence[object] | None = None
    groups: Sequence[int] | None = None
    itemsize: int = 4
    pitch: int | None = None
    offset: int = 0
    memory: str = "global"
    boxes: Sequence[tuple[int, int, int, int]] = ()
    note: str | None = None

    def __post_init__(self) -> None:
        require.text("name", self.name)
        rows, cols = self.extents
        require.whole("itemsize", self.itemsize, 1, 64)
        require.whole("offset", self.offset, 0, 2**53)
        if self.memory not in ("global", "shared"):
            raise ValueError(f"`memory` must be 'global' or 'shared'; got {self.memory!r}")
        if self.pitch is not None:
            require.whole("pitch", self.pitch, cols, 2**31 - 1)
        for r, c in self.cells:
            if not (0 <= r < rows and 0 <= c < cols):
                raise ValueError(
                    f"`touched` contains the cell {r, c}, but the matrix {self.name} "
                    f"has the shape {rows, cols}"
                )
        for what, values in (("labels", self.labels), ("groups", self.groups)):
            if values is not None and len(values) != len(self.cells):
                raise ValueError(
                    f"`{what}` must have an item for each of the {len(self.cells)} touched cells; "
                    f"got {len(values)}"
                )

    @cached_property
    def extents(self) -> Cell:
        """The number of rows and of columns."""
        numbers = require.shape("shape", self.shape, 1, 2**31 - 1)
        if len(numbers) not in (1, 2):
            raise ValueError(f"`shape` must be (rows, columns) or (columns,); got {self.shape!r}")
        return (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])

    @cached_property
    def cells(self) -> list[Cell]:
        """The accessed cells, in the order of the lanes: a row and a column for each."""
        cells = require.as_array("touched", self.touched)
        if cells.size == 0:
            cells = np.empty((0, 2), int)
        if cells.dtype.kind not in "iu":
            raise TypeError(f"`touched` must contain pairs of integers; got dtype {cells.dtype}")
        if cells.ndim == 1 and len(self.shape) == 1:
            cells = np.stack([np.zeros_like(cells), cells], axis=1)
        if cells.ndim != 2 or cells.shape[1] != 2:
            raise ValueError(f"`touched` must have shape (cells, 2); got {cells.shape}")
        if len(cells) > MOST_CELLS:
            raise ValueError(f"`touched` must have at most {MOST_CELLS} cells; got {len(cells)}")
        return [(int(r), int(c)) for r, c in cells]

    @cached_property
    def cell_labels(self) -> dict[Cell, list[object]]:
        """For each accessed cell, the labels of the lanes that access it."""
        labels = range(len(self.cells)) if self.labels is None else self.labels
        result: dict[Cell, list[object]] = {}
        for cell, label in zip(self.cells, labels, strict=True):
            result.setdefault(cell, []).append(label)
        return result

    @cached_property
    def _moved(self) -> Memory | None:
        """The sectors of the accessed cells. None for shared memory, or if no cell is accessed."""
        if self.memory == "shared" or not self.cells:
            return None
        addresses = np.array([self.address(cell) for cell in self.cells], np.uint64)
        return memory_of(Lanes(addresses, np.ones(len(addresses), np.bool_), self.itemsize))

    @cached_property
    def colours(self) -> dict[Cell, int]:
        """For each accessed cell, the number of its colour."""
        if self.groups is not None:
            return dict(zip(self.cells, map(int, self.groups), strict=True))
        moved = self._moved
        if moved is None:
            return dict.fromkeys(self.cells, 0)
        return {cell: moved.sector_of(self.address(cell)).number for cell in self.cells}

    @cached_property
    def moved_cells(self) -> dict[Cell, int]:
        """The cells that no lane accesses, but whose sector is moved.

        The keys of the dict are these cells. Each value is the number of the cell's colour: the
        colour of the accessed cells in the same sector.
        """
        result = {}
        for sector in self._moved.sectors.values() if self._moved else ():
            first = (sector.address - self.offset) // self.itemsize
            count = -(-32 // self.itemsize) + 1
            for element in range(max(first, 0), first + count):
                row, col = divmod(element, self.pitch or self.extents[1])
                cell = (row, col)
                start = self.address(cell)
                inside = sector.address <= start < sector.address + 32
                exists = row < self.extents[0] and col < self.extents[1]
                if inside and exists and cell not in self.cell_labels:
                    result[cell] = self.colours[self.cells[sector.lanes[0]]]
        return result

    def address(self, cell: Cell) -> int:
        """Return the address of a cell, in bytes from the start of the first sector."""
        row, col = cell
        return self.offset + (row * (self.pitch or self.extents[1]) + col) * self.itemsize

    @property
    def notes(self) -> list[str]:
        """The lines of text below the matrix."""
        if self.note is not None:
            return self.note.split("\n") if self.note else []
        if self.memory == "shared":
            return ["in shared memory"]
        lines = [self.direction] if self.direction else []
        if self._moved:
            lines.append(plural(len(self._moved.sectors), "sector"))
            used = f"{percent(self._moved.bytes_used, self._moved.bytes_moved)} of it used"
            # In a broadcast, the lanes use a small share of the sector. Nothing is wasted, so the
            # share is not shown.
            lines.append("a broadcast" if self.direction == _ONE_CELL else used)
        return lines

    @property
    def direction(self) -> str:
        """How the lanes are placed in the matrix, such as "lanes along a row".

        Empty if the lanes are placed in another way.
        """
        if self.labels is not None or len(self.cells) < 2:
            return ""
        steps = {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(self.cells)}
        return {
            frozenset({(0, 0)}): _ONE_CELL,
            frozenset({(0, 1)}): "lanes along a row",
            frozenset({(1, 0)}): "lanes down a column",
        }.get(frozenset(steps), "")


@dataclass(frozen=True)
class Window:
    """A part of a matrix: the rows and columns that the picture shows.

    If `schematic` is True, the picture shows a small map of the whole matrix instead.
    """

    rows: list[Item]
    cols: list[Item]
    schematic: bool = False


def window_over(matrices: Iterable[Matrix], most: int) -> Window:
    """Choose which rows and columns of a matrix the picture shows.

    `most` is the largest number of rows, and also of columns, that the picture may show. `matrices`
    has a `Matrix` for each frame: the same matrix, with the accesses of this frame. These rows and
    columns are shown:

    - rows and columns with a cell that is accessed in a frame
    - rows and columns with a cell that is moved because its sector is accessed
    - the first and the last row and column of each box
    - the neighbours of all these rows and columns
    """
    touched: set[Cell] = set()
    around: set[Cell] = set()
    extents = (1, 1)
    for matrix in matrices:
        extents = matrix.extents
        touched.update(matrix.cell_labels)
        around.update(matrix.moved_cells)
        for row, col, height, width in matrix.boxes:
            around.update({(row, col), (row + height - 1, col + width - 1)})
    wanted = touched | around
    rows = shorten(_around({row for row, _ in wanted}, extents[0]), extents[0], most)
    cols = shorten(_around({col for _, col in wanted}, extents[1]), extents[1], most)
    shown = sum(row in rows and col in cols for row, col in touched)
    return Window(rows, cols, schematic=4 * shown < len(touched))


def _around(wanted: set[int], extent: int) -> set[int]:
    """Return the rows or columns to draw: the wanted ones and their neighbours.

    If the matrix is large enough, at least three are drawn. Otherwise, a single accessed cell would
    not look like a part of a matrix.
    """
    around = {i + d for i in wanted for d in (-1, 0, 1)} or {0}
    low = min(around)
    around.update(range(low, low + 4))
    return {i for i in around if 0 <= i < extent}
