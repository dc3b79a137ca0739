"""Chooses which rows or columns of a large matrix are shown, and which are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """`count` neighbouring indices that are left out. The lowest of them is `first`."""

    first: int
    count: int


Item = int | Gap


def shorten(wanted: Iterable[int], extent: int, most: int) -> list[Item]:
    """Return the wanted indices of ``range(extent)`` and the gaps between them.

    An axis of at most `most` indices is shown whole. If more than `most` indices are wanted, only
    the first ``most - 2`` and the last two of them are kept. If a gap would hide only one index,
    this index is shown instead of the gap, if there is room.
    """
    shown = list(range(extent)) if extent <= most else sorted(set(wanted))
    if len(shown) > most:
        shown = shown[: most - 2] + shown[-2:]
    items: list[Item] = []
    following = 0
    for index in [*shown, extent]:
        missing = index - following
        if missing == 1 and len(shown) < most:
            items.append(following)
        elif missing:
            items.append(Gap(following, missing))
        if index < extent:
            items.append(index)
        following = index + 1
    return items


def inside(items: list[Item]) -> list[Item]:
    """Return the items, but without a gap at the start or at the end."""
    first, last = 0, len(items)
    if items and isinstance(items[0], Gap):
        first = 1
    if last > first and isinstance(items[-1], Gap):
        last -= 1
    return items[first:last]
