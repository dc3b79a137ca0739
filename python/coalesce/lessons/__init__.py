"""Support for the lessons in ``notebooks/``: predictions, exercises, and recorded times.

`predict` asks the reader for a guess, and compares the guess with a measurement. `score` counts the
right guesses.

Counts are the same on every machine, but times are not. `times` and `sweep` return the times that
``benchmarks/lessons.py`` recorded on one GPU. If this machine has a GPU, `times` and
`sweep` also measure the times on this GPU.

`exercise` returns a kernel to improve, and checks the reader's kernel: its result and its counts.
`task` makes an exercise of your own. ``coalesce grade`` grades the files of students.
"""

from __future__ import annotations

from coalesce.lessons._cases import exercise, exercises, task
from coalesce.lessons._code import Code
from coalesce.lessons._exercises import Case, Exercise, Verdict, random
from coalesce.lessons._measure import code, source
from coalesce.lessons._predict import Prediction, Score, predict, score
from coalesce.lessons._recording import Recording, recording
from coalesce.lessons._table import Table
from coalesce.lessons._times import Times, sweep, times

__all__ = [
    "Case",
    "Code",
    "Exercise",
    "Prediction",
    "Recording",
    "Score",
    "Table",
    "Times",
    "Verdict",
    "code",
    "exercise",
    "exercises",
    "predict",
    "random",
    "recording",
    "score",
    "source",
    "sweep",
    "task",
    "times",
]
