"""Writes counts, percentages and lists of lanes as text for the pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

TIMES = "\N{MULTIPLICATION SIGN}"
ARROW = "\N{RIGHTWARDS ARROW}"

DONE = {"load": "loads", "store": "stores", "atomic": "atomics", "copy": "copies"}


def percent(part: float, whole: float) -> str:
    """Return `part` / `whole` as text, such as "100 %" or "12.5 %"."""
    return f"{100 * part / whole:.3g} %"


def lane_list(lanes: Iterable[int]) -> str:
    """Return a list of lanes as text, such as "lane 3" or "lanes 0-7, 12"."""
    runs = runs_of(lanes)
    spans = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    return ("lane " if single else "lanes ") + ", ".join(spans)


def short_list(lanes: list[int]) -> str:
    """Return a list of lanes as a short text for a cell, such as "3", "0-31" or "0,4".

    For three or more lanes that are not consecutive, the text is a multiplication sign and the
    number of lanes. For [1, 4, 9], this number is 3.
    """
    runs = runs_of(lanes)
    if len(runs) == 1:
        first, last = runs[0]
        return str(first) if first == last else f"{first}-{last}"
    return ",".join(map(str, lanes)) if len(lanes) <= 2 else f"{TIMES}{len(lanes)}"


def runs_of(values: Iterable[int]) -> list[tuple[int, int]]:
    """Split ascending numbers into runs without gaps. Return each run's first and last number.

    For 1, 2, 3, 7, the result is [(1, 3), (7, 7)].
    """
    runs: list[tuple[int, int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def plain(text: str) -> list[str]:
    """Convert a sentence to ASCII, and break it into lines of at most 80 characters."""
    return textwrap.wrap(text.replace(ARROW, "->").replace(TIMES, "x"), 80)
