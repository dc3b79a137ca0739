"""``coalesce grade``: check the kernels in files of students."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from coalesce.common import require
from coalesce.lessons import exercises, grading
from coalesce.render import tables

if TYPE_CHECKING:
    from rich.console import Console


def run_grade(console: Console, options: argparse.Namespace) -> bool:
    """Grade the files, and print a table for each. Return whether everything is solved."""
    names = list(options.exercises)
    if options.lesson is not None:
        lessons = sorted({one.lesson for one in exercises() if one.lesson is not None})
        require.choice("--lesson", str(options.lesson), [str(lesson) for lesson in lessons])
        names += [one.name for one in exercises() if one.lesson == options.lesson]
    graded = []
    for file in options.file:
        result = grading.grade(
            file,
            names=names,
            tasks=options.tasks,
            seed=options.seed,
            seconds=options.seconds,
        )
        rows = [
            (each["exercise"], each["stage"], "" if each["solved"] else _beginning(each["text"]))
            for each in result["exercises"]
        ]
        head = f"{result['file']}: {result['solved']} of {result['of']} solved"
        console.print(escape(f"{head}: {result['error']}" if result["error"] else head))
        heads = ("exercise", "state", "what is wrong")
        if rows:
            console.print(tables.table(heads, rows, wrap=heads[2:]))
        graded.append(result)
    if options.json:
        Path(options.json).write_text(json.dumps(graded, indent=1), encoding="utf-8")
    return all(result["solved"] == result["of"] > 0 for result in graded)


def _beginning(text: str) -> str:
    """Return the first two lines of a verdict. They may quote the student's file."""
    lines = "\n".join(text.strip().splitlines()[:2])
    return escape("".join(c if c.isprintable() or c == "\n" else "?" for c in lines))
