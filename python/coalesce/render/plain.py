"""Converts reports to plain text. The result is the same as that of the package rich, but faster.

A report consists of texts and tables, which are objects of rich. Most of them need no line breaks
and no styles. This module converts these, and leaves the others to rich.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def lines(item: Any, console: Console) -> Iterator[str]:
    """Yield the lines of `item`, a text, a table or a whole report. Lines may end with spaces.

    The lines are as wide as those of `console`.
    """
    from rich.table import Table
    from rich.text import Text

    if isinstance(item, Text) and "\t" not in item.plain:
        yield from item.plain.splitlines() or [""]
    elif isinstance(item, Table) and (rows := _rows(item, console.width)):
        yield from rows
    elif isinstance(item, (str, Text, Table)):
        yield from printed(item, console)
    else:
        for part in item.__rich_console__(console, console.options):
            yield from lines(part, console)


def printed(item: Any, console: Console) -> list[str]:
    """Return the lines that the package rich prints for an object."""
    with console.capture() as capture:
        console.print(item, soft_wrap=True)
    return capture.get().splitlines()


def _rows(table: Table, width: int) -> list[str] | None:
    """Return the lines of a table.

    If the table is wider than `width`, or needs more than padding of its cells, return None.
    """
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    if table.box is not None or table.pad_edge or table.title or table.caption or table.expand:
        return None
    columns = []
    for column in table.columns:
        given = [c.plain if isinstance(c, Text) else c for c in (column.header, *column.cells)]
        cells = [c for c in given if isinstance(c, str) and _is_simple(c)]
        if len(cells) < len(given):
            return None
        size = max(map(cell_len, cells))
        right = column.justify == "right"
        columns.append(
            [" " * (size - cell_len(c)) + c if right else set_cell_size(c, size) for c in cells]
        )
    rows = [
        (" " if table.collapse_padding else "  ").join(row) for row in zip(*columns, strict=True)
    ]
    return rows if rows and cell_len(rows[0]) <= width else None


def _is_simple(cell: str) -> bool:
    # Rich would interpret "[" as the start of a style, and would remove spaces at the end.
    return cell.isprintable() and "[" not in cell and cell == cell.rstrip()
