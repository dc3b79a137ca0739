"""`Report`: how results show themselves, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text


class Report:
    """A result that prints as text, and shows as HTML in a notebook.

    A class that inherits from it has the methods `_parts` and `_markup`, and a title.
    """

    title: str

    def _parts(self, width: int) -> Iterator[Text | Table]:
        """Yield the parts of the text, which has `width` columns."""
        raise NotImplementedError

    def _markup(self) -> Markup:
        """Return the HTML."""
        raise NotImplementedError

    def to_text(self, width: int = 100, *, color: bool = False) -> str:
        """Return the report as text.

        Parameters
        ----------
        width : int
            The width of the text in columns. A width below 80 counts as 80, and a width above 100
            as 100.
        color : bool
            Whether to colour the text with escape sequences for terminals.

        Returns
        -------
        str
            Several lines of text.
        """
        from coalesce.render.console import as_text

        return as_text(self, width, color=color)

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Return the report as an HTML page, or write the page to a file.

        The page is one file without scripts. It has colours for light and for dark mode.

        Parameters
        ----------
        path : str or Path, optional
            The file to write. Without a path, the page is returned.

        Returns
        -------
        str or None
            The page, or None if it was written to `path`.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        from coalesce.render import markup

        return markup.write(self.title, self._markup(), path)

    def __str__(self) -> str:
        from coalesce.render.console import shown

        return shown(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(self._markup())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        yield from self._parts(options.max_width)
