"""Exercises: kernels that are correct but wasteful, and checks that say what remains to be done.

A check never shows a solution. Its messages come from the tools of the lessons: the findings of
`Kernel.check`, the first wrong element, and the lines and warps of the profile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coalesce.common import checks
from coalesce.kernel import Kernel
from coalesce.profiling import Profile
from coalesce.profiling.advice import wasteful
from coalesce.profiling.assertions import explanation
from coalesce.profiling.rows import Access

Array = NDArray[Any]
Kind = Literal["load", "store"]
Quantity = Literal["requests", "sectors"]
_SOURCES = Path(__file__).with_name("sources") / "exercises"


@dataclass(frozen=True)
class Case:
    """A launch of an exercise's kernel: its arguments, and the result that is expected."""

    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    out: Array
    expected: Array


@dataclass(frozen=True)
class Demand:
    """A demand on a profile; `judge` raises AssertionError with the lines that miss it."""

    text: str
    judge: Callable[[Profile, Case], None]


@dataclass(frozen=True, repr=False)
class Verdict:
    """The verdict of a check. It is true if the exercise is solved, and prints as text.

    Attributes
    ----------
    exercise : str
    stage : {"solved", "check", "result", "counts"}
        Where the check stopped: at findings of `Kernel.check`, at a wrong result, or at the counts.
    text : str
        What is wrong; if solved, the counts.
    """

    exercise: str
    stage: Literal["solved", "check", "result", "counts"]
    text: str

    def __bool__(self) -> bool:
        return self.stage == "solved"

    def __repr__(self) -> str:
        return f"{self.exercise}: {_HEADS[self.stage]}\n{self.text}"


_HEADS = {
    "solved": "solved. The result is right, the check finds nothing, and the counts pass.",
    "check": "not yet. The check of the run found:",
    "result": "not yet. The result is wrong:",
    "counts": "not yet. The result is right; the counts do not pass:",
}


@dataclass(frozen=True, repr=False)
class Exercise:
    """A kernel that is correct but wasteful, and a check that passes when its counts do.

    Attributes
    ----------
    name : str
        Name of the exercise and of its kernel.
    task : str
        A sentence: what the kernel computes.
    launch : str
        The grid and the block in words. They are part of the task and do not change.
    source : str
        The CUDA C++ source to start from.
    """

    name: str
    task: str
    launch: str
    _demands: tuple[Demand, ...] = field(repr=False)
    _make: Callable[[bool], Case] = field(repr=False)

    @property
    def demands(self) -> tuple[str, ...]:
        """The demands on the counts, as a list of sentences."""
        return tuple(demand.text for demand in self._demands)

    @property
    def source(self) -> str:
        """The CUDA C++ source to start from, as a string."""
        return (_SOURCES / f"{self.name}.cu").read_text(encoding="utf-8")

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.task}", f"  launch: {self.launch}"]
        return "\n".join(lines + [f"  - {text}" for text in self.demands])

    def check(self, kernel: Kernel | str) -> Verdict:
        """Run a kernel on the simulator and check whether it solves the exercise.

        Parameters
        ----------
        kernel : Kernel or str
            The kernel, or CUDA C++ source with a kernel of the exercise's name.

        Returns
        -------
        Verdict

        Raises
        ------
        TypeError
            `kernel` is neither, or its parameters differ from those of the exercise.
        CompileError
            The source does not compile.

        Examples
        --------
        >>> ex = coalesce.lessons.exercise("brighten")
        >>> bool(ex.check(ex.source))
        False
        """
        if isinstance(kernel, str):
            kernel = Kernel(kernel, self.name)
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel or its CUDA text; got {checks.shown(kernel)}")
        for even in (False, True):  # the odd shape tests the edges; the even one is counted
            case = self._make(even)
            found = kernel.check(case.grid, case.block, *case.arguments)
            if found:  # warnings, too: code that relies on lockstep is not correct
                return Verdict(self.name, "check", str(found[0]))
            wrong = _first_wrong(case)
            if wrong:
                return Verdict(self.name, "result", wrong)
        profile = kernel.profile(case.grid, case.block, *case.arguments)
        messages = [_judged(demand, profile, case) for demand in self._demands]
        failed = [text for text in messages if text]
        if failed:
            return Verdict(self.name, "counts", _once(failed))
        totals = [
            f"  {t.name}: {t.requests:,} requests of {t.per_request:.3g} {t.unit}"
            for t in profile.totals()
        ]
        return Verdict(self.name, "solved", "\n".join(totals))


def exercise(name: str) -> Exercise:
    """Return an exercise.

    Parameters
    ----------
    name : {"brighten", "rotate", "smooth"}

    Raises
    ------
    ValueError
        There is no such exercise.

    Examples
    --------
    >>> coalesce.lessons.exercise("smooth").launch
    'one thread per element, blocks of 256'
    """
    known = {one.name: one for one in _EXERCISES}
    return known[checks.choice("name", name, known)]


def exercises() -> tuple[Exercise, ...]:
    """Return all exercises, the easiest first."""
    return _EXERCISES


def _judged(demand: Demand, profile: Profile, case: Case) -> str:
    """Return the message of a demand that is not met, or an empty string."""
    try:
        demand.judge(profile, case)
    except AssertionError as error:
        return str(error)
    return ""


def _once(failed: list[str]) -> str:
    """Join the messages of failed demands; each line of the profile is shown once."""
    heads: dict[str, list[str]] = {}
    for text in failed:
        head, _, lines = text.partition("\n")
        heads.setdefault(lines, []).append(head)
    return "\n".join("\n".join([*found, lines]) for lines, found in heads.items())


def _first_wrong(case: Case) -> str:
    """Name the first element that is wrong, or return an empty string."""
    close = np.isclose(case.out, case.expected, rtol=1e-5, atol=1e-6)
    if close.all():
        return ""
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    place = ", ".join(map(str, where))
    got, wanted = case.out[where], case.expected[where]
    difference = f"out[{place}] is {got:.6g} and should be {wanted:.6g}"
    if np.isnan(got):
        difference = f"nothing was written to out[{place}], which should be {wanted:.6g}"
    count = int((~close).sum())
    return f"  out has shape {case.out.shape}; {difference}; {count:,} of {close.size:,} are wrong"


def _image(rows: int, cols: int) -> Array:
    return np.random.default_rng(8).random((rows, cols), dtype=np.float32)


def _empty(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def _brighten(even: bool) -> Case:
    rows, cols = (128, 256) if even else (50, 70)
    image, out = _image(rows, cols), _empty(rows, cols)
    arguments = (image, out, rows, cols, 1.5)
    return Case(-(-rows * cols // 256), 256, arguments, out, np.float32(1.5) * image)


def _rotate(even: bool) -> Case:
    rows, cols = (128, 256) if even else (50, 70)
    image, out = _image(rows, cols), _empty(cols, rows)
    grid = (-(-cols // 32), -(-rows // 32))
    return Case(grid, (32, 32), (image, out, rows, cols), out, np.rot90(image, -1))


def _smooth(even: bool) -> Case:
    n = 8192 if even else 1000
    x, out = _image(1, n)[0], _empty(n)
    near = np.pad(x, 8, mode="edge")
    expected = np.lib.stride_tricks.sliding_window_view(near, 17).mean(axis=1)
    return Case(-(-n // 256), 256, (x, out, n), out, expected)


def _sectors(kind: Kind, most: float) -> Demand:
    def judge(profile: Profile, case: Case) -> None:
        del case
        # Wider elements take more sectors per request; that is not waste.
        if not any(wasteful(a) for a in _global(profile, kind)):
            return
        if kind == "load":
            profile.assert_sectors_per_request(load=most)
        else:
            profile.assert_sectors_per_request(store=most)

    return Demand(f"a {kind} of global memory takes at most {most:g} sectors per request", judge)


def _no_conflicts(profile: Profile, case: Case) -> None:
    del case
    profile.assert_no_bank_conflicts()


def _global(profile: Profile, kind: Kind) -> list[Access]:
    return [a for a in profile.accesses() if a.space == "global" and a.kind == kind]


def _few(kind: Kind, quantity: Quantity, most: float, profile: Profile, case: Case) -> None:
    """Demand that the cost is at most so many times that of one pass over `out`."""
    accesses = _global(profile, kind)
    found = sum(getattr(a, quantity) for a in accesses)
    once = case.out.size // (32 if quantity == "requests" else 8)
    if found > most * once:
        message = (
            f"global {kind}s take {found:,} {quantity}, one pass over the array takes {once:,}; "
            f"at most {most:g} times as many wanted"
        )
        raise AssertionError("\n".join([message, *explanation(accesses)]))


_CONFLICTS = Demand("no bank conflicts in shared memory", _no_conflicts)


def _repeats(kind: Kind, quantity: Quantity, most: float) -> Demand:
    text = f"the {kind}s take at most {most:g} times the {quantity} of one pass over the array"
    return Demand(text, partial(_few, kind, quantity, most))


_ONCE = (_repeats("load", "requests", 1.25), _repeats("store", "requests", 1.25))

_EXERCISES: tuple[Exercise, ...] = (
    Exercise(
        "brighten",
        "multiplies each pixel of an image by a gain.",
        "one thread per pixel, blocks of 256",
        (_sectors("load", 4.5), _sectors("store", 4.5), *_ONCE),
        _brighten,
    ),
    Exercise(
        "rotate",
        "turns an image by 90 degrees, clockwise: out[c, rows - 1 - r] = image[r, c].",
        "blocks of 32 x 32 threads over the image's columns and rows",
        (_sectors("load", 4.5), _sectors("store", 4.5), *_ONCE, _CONFLICTS),
        _rotate,
    ),
    Exercise(
        "smooth",
        "replaces each element by the mean of the 17 around it; the ends are repeated.",
        "one thread per element, blocks of 256",
        (
            _repeats("load", "requests", 1.5),
            _repeats("load", "sectors", 1.5),
            _repeats("store", "requests", 1.25),
            _CONFLICTS,
        ),
        _smooth,
    ),
)
