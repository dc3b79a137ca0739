"""The class `Table`: a small table that is text in a terminal, and HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from coalesce.common import require
from coalesce.render import console, tables
from coalesce.render.markup import tag


@dataclass(frozen=True, repr=False)
class Table:
    """A table with a heading above each column.

    The first column is aligned left, and all other columns are aligned right.

    Attributes
    ----------
    columns : sequence of str
        The headings.
    rows : sequence of sequence of str
        The cells. Each row has as many cells as there are headings.
    caption : str
        A line above the table.

    Examples
    --------
    >>> print(coalesce.lessons.Table(["kernel", "loads"], [["tiled", "2"]], "per element"))
    per element
    kernel  loads
    tiled       2
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def __post_init__(self) -> None:
        require.text("caption", self.caption)
        columns = len(require.texts("columns", self.columns))
        for row in require.several("rows", self.rows, "a sequence of rows"):
            if len(require.texts("rows", row)) != columns:
                raise ValueError(f"`rows` must have {columns} cells each; got {require.shown(row)}")

    def __repr__(self) -> str:
        if not self.rows:
            return self.caption
        text = console.shown(tables.table(self.columns, self.rows, right=self.columns[1:]))
        return f"{self.caption}\n{text}" if self.caption else text

    def _repr_html_(self) -> str:
        caption = tag("div", self.caption) if self.caption else Markup()
        if not self.rows:
            return str(caption)

        def row(cells: Iterable[str], name: str) -> Markup:
            sides = ["left;white-space:nowrap", *["right"] * (len(self.columns) - 1)]
            made = (
                tag(name, cell, f"text-align:{side};padding:2px 8px")
                for side, cell in zip(sides, cells, strict=True)
            )
            return tag("tr", made)

        head = tag("thead", row(self.columns, "th"))
        body = tag("tbody", [row(cells, "td") for cells in self.rows])
        return str(caption + tag("table", [head, body]))
