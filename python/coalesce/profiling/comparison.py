"""Compares profiles, for example the profiles of a kernel before and after a change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coalesce.common import require
from coalesce.profiling.comparison_data import ComparisonData
from coalesce.profiling.result import Profile
from coalesce.render.report import Report

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.table import Table
    from rich.text import Text


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


class Comparison(Report, ComparisonData):
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

    @property
    def title(self) -> str:  # type: ignore[override]
        """The names of the profiles."""
        return " / ".join(self.names)

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

    def _parts(self, width: int) -> Iterator[Text | Table]:
        from coalesce.profiling.report import comparison_text

        return comparison_text.report(self, width)

    def _markup(self) -> Markup:
        from coalesce.profiling.report import comparison_html

        return comparison_html.report(self)
