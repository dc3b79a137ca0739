"""What the lessons in ``notebooks/`` need beside the package: recorded times, and exercises.

Counts are the same on every machine, times are not. `times` and `sweep` give those that
``benchmarks/lessons.py`` recorded on one GPU, and where there is a GPU here, its own beside them.
`exercise` has kernels that are right and wasteful, with a check that passes when the counts do.
"""

from __future__ import annotations

from coalesce.lessons._exercises import Exercise, Verdict, exercise, exercises
from coalesce.lessons._measure import code, source
from coalesce.lessons._recording import Recording, recording
from coalesce.lessons._times import Times, sweep, times

__all__ = [
    "Exercise",
    "Recording",
    "Times",
    "Verdict",
    "code",
    "exercise",
    "exercises",
    "recording",
    "source",
    "sweep",
    "times",
]
