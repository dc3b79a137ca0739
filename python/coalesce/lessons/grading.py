"""Grades files of students: ``coalesce grade``.

Nothing of a submission is trusted:

- Only CUDA C++ is taken from a submission: a ``.cu`` file, or the ``%%cuda`` cells of a notebook.
  Its Python code is never executed.
- The source may include headers of CUDA, but no other files, such as the solutions of this package.
- A kernel runs on the simulator in a process of its own, with limits for time and memory. The
  output of printf is thrown away.
- The numbers in the cases are drawn again in each run.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import runpy
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coalesce.common import require
from coalesce.cxx.declarations import bare
from coalesce.kernel import Kernel
from coalesce.lessons import _exercises
from coalesce.lessons._cases import exercises
from coalesce.lessons._exercises import Exercise

SECONDS = 3.0
_MOST_BYTES = 16 << 30  # of address space, of which the simulator reserves more than it uses
_MOST_CHARACTERS = 1 << 16  # of a source; the longest solution has 2,000
_CHILD = "from coalesce.lessons.grading import grade_one; grade_one()"

_DEFINITION = re.compile(r"-D\s*(\w+(?:=\S+)?)")
# An #include in any spelling that NVRTC accepts; also in a comment or a string.
_INCLUDE = re.compile(r"(?:#|%:|\?\?=)(?:\s|/\*.*?\*/)*include\w*", re.DOTALL)
_OF_CUDA = re.compile(r"include[ \t]*<(?![./])(?!.*\.\.)[\w./+-]+>")


@dataclass(frozen=True)
class Grade:
    """The grade of one exercise or task.

    Attributes
    ----------
    exercise : str
        The name of the exercise.
    solved : bool
        Whether the kernel passes.
    stage : str
        ``"solved"``, or where the check stopped. ``"missing"``: the file has no such kernel.
        ``"source"``: the source does not compile, includes a file, or has other parameters.
        ``"ended"``: the process ended early. ``"task"``: a limit of the task names no
        metric. For the others, see `Verdict`.
    text : str
        What is wrong, or the counts.
    """

    exercise: str
    solved: bool
    stage: str
    text: str


def grade(
    file: str | Path,
    *,
    names: Sequence[str] = (),
    tasks: str | Path | None = None,
    seed: int | None = None,
    seconds: float = SECONDS,
) -> dict[str, Any]:
    """Grade the kernels of a file.

    `names` are the exercises to grade. By default, these are all tasks of the file `tasks`, or all
    exercises whose kernels the submission contains. `seconds` limits the processor time of each
    check. The result can be written as JSON. If the file cannot be read, it says why under
    ``"error"``, and no exercise is solved.
    """
    path = Path(file)
    known = _known(tasks)
    error, cells = "", []
    try:
        cells = _cells(path)
    except (OSError, ValueError) as reason:
        error = str(reason)
    if names:
        wanted = [require.choice("exercises", name, known) for name in names]
    elif tasks is not None:
        wanted = list(known)
    else:
        wanted = [name for name in known if _source(cells, name) is not None]
    if not wanted and not error:
        error = "there is no kernel of an exercise; in a notebook, kernels must be in %%cuda cells"
    seed = secrets.randbits(32) if seed is None else seed

    def one(name: str) -> Grade:
        found = _source(cells, name)
        if found is None:
            return Grade(name, False, "missing", "the file has no kernel of this name")
        source, definitions = found
        order = {
            "name": name,
            "source": source,
            "options": [f"-D{each}" for each in definitions],
            "tasks": None if tasks is None else str(Path(tasks).resolve()),
            "seed": seed,
            "seconds": seconds,
        }
        return Grade(name, **_in_child(order, seconds))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        grades = list(pool.map(one, wanted))
    return {
        "file": str(path),
        "solved": sum(each.solved for each in grades),
        "of": len(grades),
        "seed": seed,
        "error": error,
        "exercises": [asdict(each) for each in grades],
    }


def _known(tasks: str | Path | None) -> dict[str, Exercise]:
    """Return the exercises of the lessons, or the tasks of a teacher's file, by their names."""
    if tasks is None:
        return {each.name: each for each in exercises()}
    listed = runpy.run_path(str(tasks)).get("tasks")
    if not isinstance(listed, list) or not all(isinstance(each, Exercise) for each in listed):
        raise ValueError(
            f"{tasks} must define a list `tasks` with the results of lessons.task(...)"
        )
    return {each.name: each for each in listed}


def _cells(path: Path) -> list[tuple[str, list[str]]]:
    """Return the pieces of CUDA C++ in a submission, each with its definitions ``-D``."""
    if path.exists() and not path.is_file():  # to read from a pipe may take forever
        raise ValueError("a submission must be a file")
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".cu":
        return [(text, [])]
    if path.suffix != ".ipynb":
        raise ValueError("a submission must be a .cu file or a notebook (.ipynb)")
    try:
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]).lstrip() for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("the file is no notebook of version 4") from None
    heads = [source.partition("\n") for source in sources if source.startswith("%%cuda")]
    return [("\n" + body, _DEFINITION.findall(head)) for head, _, body in heads]


def _source(cells: list[tuple[str, list[str]]], name: str) -> tuple[str, list[str]] | None:
    """Return the last piece of CUDA C++ that defines a kernel, as if all cells had run in order."""
    kernel = re.compile(rf"\b__global__\b[^;{{}}]{{0,200}}?\b{name}\s*\(")
    return next((cell for cell in reversed(cells) if kernel.search(_code(cell[0]))), None)


@cache
def _code(text: str) -> str:
    """Return the beginning of a source without comments, which may contain the starting point."""
    return bare(text[:_MOST_CHARACTERS])


def _in_child(order: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Check a kernel in a new process, in an empty folder."""
    slow = f"it was stopped after {seconds:g} s of processor time; does each loop end?"
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "COALESCE_DEVICE": "sim"},
            start_new_session=True,
        ) as child,
    ):
        try:
            answer, _ = child.communicate(json.dumps(order).encode(), _wall(seconds))
        except subprocess.TimeoutExpired:
            answer = b""
        finally:
            with contextlib.suppress(ProcessLookupError):  # if all its processes have ended
                os.killpg(child.pid, signal.SIGKILL)
    if answer:
        result: dict[str, Any] = json.loads(answer)
        return result
    if child.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"solved": False, "stage": "time", "text": slow}
    text = f"the process of the check ended early, with status {child.returncode}"
    return {"solved": False, "stage": "ended", "text": text}


def _wall(seconds: float) -> float:
    """Return a limit for the time of a check that may take `seconds` of processor time.

    A busy machine may give the child only a small part of a processor.
    """
    return 10 * seconds + 60


def grade_one() -> None:
    """Check the kernel that standard input describes, and write the result to standard output."""
    import resource

    order = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what a kernel prints with printf
    known = _known(order["tasks"])
    _exercises.limit_seconds(_wall(order["seconds"]))  # the processor time is limited below
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime + order["seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    stage, text = _checked(known[order["name"]], order)
    json.dump({"solved": stage == "solved", "stage": stage, "text": text}, answer)
    answer.close()


def _checked(exercise: Exercise, order: dict[str, Any]) -> tuple[str, str]:
    """Return the stage at which the check stops, and what is wrong there."""
    source = order["source"]
    if len(source) > _MOST_CHARACTERS:
        return "source", f"the source has more than {_MOST_CHARACTERS:,} characters"
    joined = re.sub(r"\\\r?\n", "", source)  # lines that end with a backslash
    for match in _INCLUDE.finditer(joined):
        start = match.end() - len("include")
        if not match[0].endswith("include") or not _OF_CUDA.match(joined, start):
            line = joined.count("\n", 0, match.start()) + 1
            return "source", f"line {line}: only headers of CUDA can be included: #include <name>"
    try:
        kernel = Kernel(source, exercise.name, order["options"])
        with _exercises.seeded(order["seed"]):
            verdict = exercise.check(kernel)
    except KeyError as error:  # a limit for a metric that does not exist
        return "task", f"the task has a mistake: {error}"
    except Exception as error:  # each kind has a message for the reader
        return "source", f"{type(error).__name__}: {error}"
    return verdict.stage, verdict.text
