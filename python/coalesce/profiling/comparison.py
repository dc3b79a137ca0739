"""Compares profiles, for example the profiles of a kernel before and after a change."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coalesce.common import require
from coalesce.profiling.comparison_data import ComparisonData
from coalesce.profiling.result import Profile

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


def compare(*profiles: Profile) -> Comparison:
    """Compare profiles with the first profile, the baseline.

    Parameters
    ----------
    *profiles : Profile
        Two or more profiles.

    Returns
    -------
    Comparison
        It prints as a table with a row for each quantity that changed. Below the table are the
        source lines whose costs changed.

    Raises
    ------
    TypeError
        An argument is not a Profile.
    ValueError
        There are fewer than two profiles.

    Examples
    --------
    >>> naive = coalesce.profile("matmul", a, b, variant="naive")
    >>> tiled = coalesce.profile("matmul", a, b, variant="tiled")
    >>> coalesce.compare(naive, tiled).ratio("global load requests")
    0.125
    """
    for profile in profiles:
        if not isinstance(profile, Profile):
            raise TypeError(f"`profiles` must be of type Profile; got {require.shown(profile)}")
    if len(profiles) < 2:
        raise ValueError(f"compare() needs two profiles or more; got {len(profiles)}")
    return Comparison(profiles)


class Comparison(ComparisonData):
    """Profiles side by side, as `compare` returns them.

    A comparison prints as text and shows as HTML in a notebook.

    Attributes
    ----------
    profiles : tuple of Profile
        The profiles. The first one is the baseline.
    names : tuple of str
        The headings of the columns: the titles of the profiles. Words at the beginning that all
        titles have in common are left out.

    Examples
    --------
    >>> naive = coalesce.profile("matmul", a, b, variant="naive")
    >>> tiled = coalesce.profile("matmul", a, b, variant="tiled")
    >>> coalesce.compare(naive, tiled).names
    ('naive', 'tiled')
    """

    profiles: tuple[Profile, ...]

    def to_text(self, width: int = 100, *, color: bool = False) -> str:
        """Return the comparison as text.

        Parameters
        ----------
        width : int
            The width of the text in columns. A number below 80 counts as 80, and a number above 100
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
        """Return the comparison as an HTML page, or write the page to a file.

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
        from coalesce.profiling.report import comparison_html
        from coalesce.render import markup

        return markup.write(" / ".join(self.names), comparison_html.report(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows and the profiles as dicts, lists and numbers, for `json.dump`.

        Returns
        -------
        dict
            It has the keys ``names``, ``rows`` and ``profiles``. ``rows`` has a dict for each
            quantity, with ``name``, ``values`` and ``more_is_better``. ``profiles`` has the results
            of `Profile.to_dict`.
        """
        return {
            "names": list(self.names),
            "rows": [asdict(row) for row in self._rows],
            "profiles": [p.to_dict() for p in self.profiles],
        }

    def __str__(self) -> str:
        from coalesce.render.console import shown

        return shown(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from coalesce.profiling.report import comparison_html

        return str(comparison_html.report(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        from coalesce.profiling.report import comparison_text

        yield from comparison_text.report(self, options.max_width)
