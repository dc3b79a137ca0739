"""Makes tables with the Python package `rich`. The tables have bold headings and no borders."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from coalesce.render import console

if TYPE_CHECKING:
    from rich.table import Table


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]] = (),
    *,
    right: Collection[str] = (),
    wrap: Collection[str] = (),
) -> Table:
    """Return a table, which the Python package `rich` can print.

    Parameters
    ----------
    columns : sequence of str
        The headings of the columns.
    rows : sequence of sequences of str
        The cells of each row.
    right : collection of str
        The headings of the columns that are aligned right.
    wrap : collection of str
        The headings of the columns whose cells are broken into lines if the table is too wide. A
        word that is wider than its column is broken, too.
    """
    from rich.table import Table

    result = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        result.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in wrap,
            overflow="fold" if name in wrap else "ellipsis",
        )
    for row in rows:
        result.add_row(*row)
    return result


def as_text(
    columns: Sequence[str], rows: Sequence[Sequence[str]], wrap: Collection[str] = ()
) -> str:
    """Return a table as text, for example for `repr`. The parameters are those of `table`."""
    return console.shown(table(columns, rows, wrap=wrap))
