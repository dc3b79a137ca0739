"""Measures the times of several candidates (variants or libraries).

The candidates take turns, so the GPU's clock rate and temperature are the same for all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from coalesce._core import cuda

Runs = int | Literal["auto"]
# The times of one run in milliseconds, one for each kernel that the run launches.
Times = tuple[float, ...]
Batch = Callable[[int], Sequence[Times]]  # makes a number of runs and returns their times

RUNS_PER_ROUND = 2


def interleaved(
    candidates: Mapping[str, Batch], runs: Runs, *, shuffled: bool = False
) -> dict[str, list[Times]]:
    """Measure the times of candidates (variants or libraries). The candidates take turns.

    Return a dict with the times of each candidate.

    Each candidate first makes one untimed run, the warm-up. Then a round has `RUNS_PER_ROUND` runs
    of each candidate. The order is reversed in every second round.

    With `shuffled`, a round has one run of each candidate, in random order. Use `shuffled` if the
    host's clock measures the times. Then a call takes longer after a call of another library,
    because the processor's caches hold the code of that library.

    A candidate takes part in the rounds until it has made `runs` runs. With ``"auto"``, the spread
    of its times decides when it has made enough: see ``enough_runs`` in
    csrc/cuda/launch/statistics.hpp.
    """
    for batch in candidates.values():
        batch(1)
    times: dict[str, list[Times]] = {name: [] for name in candidates}
    backwards, shuffler = False, random.Random(1)
    while waiting := [name for name in candidates if not _enough(times[name], runs)]:
        if shuffled:
            shuffler.shuffle(waiting)
        elif backwards:
            waiting.reverse()
        for name in waiting:
            count = 1 if shuffled else _next(len(times[name]), runs)
            times[name] += candidates[name](count)
        backwards = not backwards
    return times


def _enough(times: Sequence[Times], runs: Runs) -> bool:
    if runs != "auto":
        return len(times) >= runs
    return cuda.enough_runs([sum(one) for one in times])


def _next(made: int, runs: Runs) -> int:
    """Return the number of runs of a candidate in its next round."""
    return RUNS_PER_ROUND if runs == "auto" else min(RUNS_PER_ROUND, runs - made)
