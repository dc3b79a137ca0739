"""Writes counts, shares and lists of lanes as text for the pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

TIMES = "\N{MULTIPLICATION SIGN}"
ARROW = "\N{RIGHTWARDS ARROW}"

DONE = {"load": "loads", "store": "stores", "atomic": "atomics"}


def percent(part: float, whole: float) -> str:
    """Write a share as "100 %", "12.5 %"."""
    return f"{100 * part / whole:.3g} %"


def plural(count: int, noun: str) -> str:
    """Write "1 sector", "2 sectors"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def lane_list(lanes: Iterable[int]) -> str:
    """Write lanes in full: "lane 3", "lanes 0-7, 12"."""
    runs = runs_of(lanes)
    spans = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    return ("lane " if single else "lanes ") + ", ".join(spans)


def short_list(lanes: list[int]) -> str:
    """Return lanes as a short text for a cell: "3", "0-31", "0,4", or how many lanes there are."""
    runs = runs_of(lanes)
    if len(runs) == 1:
        first, last = runs[0]
        return str(first) if first == last else f"{first}-{last}"
    return ",".join(map(str, lanes)) if len(lanes) <= 2 else f"{TIMES}{len(lanes)}"


def runs_of(values: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run of successive numbers."""
    runs: list[tuple[int, int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def plain(text: str) -> list[str]:
    """Return a sentence in ASCII, as lines of at most 80 columns."""
    return textwrap.wrap(text.replace(ARROW, "->").replace(TIMES, "x"), 80)
