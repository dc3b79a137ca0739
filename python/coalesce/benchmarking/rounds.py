"""Times candidates in rounds, in which all candidates take turns.

So all candidates run at the same clocks and temperatures of the GPU. The order of the candidates is
reversed in every second round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from coalesce._core import cuda

Runs = int | Literal["auto"]
# The times of one run in milliseconds, one for each kernel that the run launches.
Times = tuple[float, ...]
Batch = Callable[[int], Sequence[Times]]  # makes a number of runs and returns their times

RUNS_PER_ROUND = 2


def interleaved(candidates: Mapping[str, Batch], runs: Runs) -> dict[str, list[Times]]:
    """Time all candidates in turn. Return a dict from each candidate to the times of its runs.

    Each candidate first makes one untimed run, the warm-up. Then a round has `RUNS_PER_ROUND` runs
    of each candidate. A candidate takes part in the rounds until it has made `runs` runs. With
    ``"auto"``, the spread of its times decides when it has made enough: see ``enough_runs`` in
    csrc/cuda/statistics.hpp.
    """
    for batch in candidates.values():
        batch(1)
    times: dict[str, list[Times]] = {name: [] for name in candidates}
    backwards = False
    while waiting := [name for name in candidates if not _enough(times[name], runs)]:
        for name in reversed(waiting) if backwards else waiting:
            times[name] += candidates[name](_next(len(times[name]), runs))
        backwards = not backwards
    return times


def _enough(times: Sequence[Times], runs: Runs) -> bool:
    if runs != "auto":
        return len(times) >= runs
    return cuda.enough_runs([sum(one) for one in times])


def _next(made: int, runs: Runs) -> int:
    """Return the number of runs of a candidate in its next round."""
    return RUNS_PER_ROUND if runs == "auto" else min(RUNS_PER_ROUND, runs - made)
