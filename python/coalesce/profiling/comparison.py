"""Comparisons: profiles side by side, for example of a kernel and its better version."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coalesce.common import checks
from coalesce.common.forks import cached_property
from coalesce.profiling.comparison_rows import Row, rows_of
from coalesce.profiling.result import Profile
from coalesce.profiling.rows import Line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


def compare(*profiles: Profile) -> Comparison:
    """Compare profiles with the first of them, the baseline.

    Parameters
    ----------
    *profiles : Profile
        Two or more.

    Returns
    -------
    Comparison
        It prints as a table of what changed and by how much, and of the source lines that changed.

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
    0.25
    """
    for given in profiles:
        if not isinstance(given, Profile):
            raise TypeError(f"profiles must be of type Profile; got {checks.shown(given)}")
    if len(profiles) < 2:
        raise ValueError(f"compare needs two profiles or more; got {len(profiles)}")
    return Comparison(profiles)


class Comparison:
    """Profiles side by side, as `compare` returns them.

    A comparison prints as text and shows as HTML in a notebook.

    Attributes
    ----------
    profiles : tuple of Profile
        The profiles; the first is the baseline.
    names : tuple of str
        The headings of the columns: the titles of the profiles without their common beginning.

    Examples
    --------
    >>> naive = coalesce.profile("matmul", a, b, variant="naive")
    >>> tiled = coalesce.profile("matmul", a, b, variant="tiled")
    >>> coalesce.compare(naive, tiled).names
    ('naive', 'tiled')
    """

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self.profiles = tuple(profiles)
        self.names = _names([p.title for p in profiles])

    def rows(self) -> list[Row]:
        """Return the rows of the table: requests, sectors, conflicts, rates and times."""
        return list(self._rows)

    def ratio(self, name: str, of: int = 1) -> float | None:
        """Return a quantity of a profile, divided by the same quantity of the baseline.

        Parameters
        ----------
        name : str
            A row's name, such as ``"global load sectors"``, or a metric of `Profile.metrics`.
        of : int
            Index of the profile; the second by default.

        Returns
        -------
        float or None
            None if the quantity of the baseline is 0 or missing.

        Raises
        ------
        ValueError
            There is no such quantity; the message lists the quantities.
        """
        checks.text("name", name)
        of = self._which(of)
        for row in self._rows:
            if row.name == name:
                return row.ratio(of)
        metrics = [p.metrics() for p in (self.profiles[0], self.profiles[of])]
        if any(name in m for m in metrics):
            return Row(name, (metrics[0].get(name), metrics[1].get(name))).ratio(1)
        known = ", ".join(repr(row.name) for row in self._rows)
        raise ValueError(f"name: unknown quantity {name!r}; there are {known}, and metrics")

    def lines(self, of: int = 1) -> list[tuple[Line | None, Line | None]]:
        """Pair the source lines that access memory with the lines of the baseline.

        Parameters
        ----------
        of : int
            Index of the profile; the second by default.

        Returns
        -------
        list of (Line or None, Line or None)
            The lines of the baseline and of the profile, in the order of the source; None if
            a source does not have the line.
        """
        of = self._which(of)
        return list(_paired(self.profiles[0], self.profiles[of]))

    def _which(self, of: int) -> int:
        return checks.whole("of", of, -len(self.profiles), len(self.profiles) - 1)

    def to_text(self, width: int = 100, *, color: bool = False) -> str:
        """Return the comparison as text of 80 to 100 columns."""
        from coalesce.render.console import as_text

        return as_text(self, width, color=color)

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Write the comparison as an HTML page. See `Profile.to_html`."""
        from coalesce.profiling import comparison_html
        from coalesce.render import markup

        return markup.write(" / ".join(self.names), comparison_html.report(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows and the profiles as dicts, lists and numbers, for `json.dump`."""
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
        from coalesce.profiling import comparison_html

        return str(comparison_html.report(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        from coalesce.profiling import comparison_text

        yield from comparison_text.report(self, options.max_width)

    @cached_property
    def _rows(self) -> tuple[Row, ...]:
        return tuple(rows_of(self.profiles))


def _names(titles: Sequence[str]) -> tuple[str, ...]:
    """Remove the words with which all titles begin, and number equal titles."""
    words = [title.split() for title in titles]
    while all(len(w) > 1 for w in words) and len({w[0] for w in words}) == 1:
        words = [w[1:] for w in words]
    names = [" ".join(w) for w in words]
    return tuple(
        f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names, 1)
    )


def _paired(a: Profile, b: Profile) -> Iterator[tuple[Line | None, Line | None]]:
    left, right = ([line for line in p.lines() if line.accesses] for p in (a, b))
    matcher = difflib.SequenceMatcher(
        None, [line.source.strip() for line in left], [line.source.strip() for line in right], False
    )
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(left[i:i_end], right[j:j_end], strict=True)
        else:
            yield from ((line, None) for line in left[i:i_end])
            yield from ((None, line) for line in right[j:j_end])
