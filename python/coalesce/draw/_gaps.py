"""Chooses which rows or columns of a large matrix are shown. The others are hidden."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """Neighbouring rows or columns that are hidden: the index of the first, and their number."""

    first: int
    count: int


Item = int | Gap


def shorten(wanted: Iterable[int], extent: int, most: int) -> list[Item]:
    """Return the rows (or columns) to show, with a `Gap` in place of the hidden rows between them.

    `wanted` are the indices of the rows that should be shown. `extent` is the number of rows of the
    matrix. `most` is the largest number of rows to show.

    - If the matrix has at most `most` rows, all of them are shown.
    - If more than `most` rows are wanted, only the first ``most - 2`` and the last two of the
      wanted rows are shown.
    - If a gap would hide only one row, and fewer than `most` rows are shown, this row is shown
      instead of the gap.
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
    """Return the items, but without a `Gap` at the beginning or at the end.

    `items` is a result of `shorten`.
    """
    first, last = 0, len(items)
    if items and isinstance(items[0], Gap):
        first = 1
    if last > first and isinstance(items[-1], Gap):
        last -= 1
    return items[first:last]
