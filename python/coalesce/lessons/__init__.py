"""Support for the lessons in ``notebooks/``: recorded times, and exercises.

Counts are the same on every machine, but times are not. `times` and `sweep` return the times that
``benchmarks/lessons.py`` recorded on one GPU. If this machine has a GPU, they add its times.
`exercise` returns a kernel that is correct but wasteful, and a check that passes when its counts
do.
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
