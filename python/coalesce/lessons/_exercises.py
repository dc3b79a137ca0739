"""Exercises: the reader improves or repairs a kernel, and a check says what is still missing.

The check never shows a solution. It shows one of these:

- the findings of `Kernel.check`;
- the first wrong element, and a description of the wrong result;
- the lines of the profile that cost too much.

`Exercise.hint` returns hints, one after the other. `Exercise.solution` is one solution.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coalesce.check import Finding, Findings
from coalesce.common import errors, require
from coalesce.kernel import Kernel
from coalesce.lessons import _findings, _mistakes, _wrong_results
from coalesce.profiling import Profile
from coalesce.render import console

Array = NDArray[Any]
Stage = Literal["solved", "time", "check", "result", "counts"]
_SOURCES = Path(__file__).with_name("sources")
_time_limit_seconds = 30.0  # the limit in seconds; every solution takes less than one second

_MARK = 7  # fills the output array before a second run of a kernel with a wrong result

_seed = 8  # of the random numbers in the cases; `coalesce grade` takes another one each time

_failures: dict[str, int] = {}  # for each exercise: how many checks of this session failed


@dataclass(frozen=True)
class Case:
    """One test of a task: the launch of its kernel, the arguments, and the expected result.

    Attributes
    ----------
    grid, block : int or tuple of int
        The launch.
    arguments : tuple
        The arguments of the kernel.
    out : numpy.ndarray
        The argument that receives the result. Fill it with NaN, or with an integer that is no
        result, so that elements that are not written are found.
    expected : numpy.ndarray
        The right result.
    elements : int
        The number of elements that must be read. 0 means the size of `out`.
    """

    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    out: Array
    expected: Array
    elements: int = 0

    def __post_init__(self) -> None:
        for name, value in (("out", self.out), ("expected", self.expected)):
            if not isinstance(value, np.ndarray):
                raise TypeError(f"`{name}` must be a NumPy array; got {require.shown(value)}")
        if not isinstance(self.arguments, tuple | list):
            raise TypeError(f"`arguments` must be a tuple; got {require.shown(self.arguments)}")
        require.whole("elements", self.elements, 0)
        if all(argument is not self.out for argument in self.arguments):
            raise ValueError("`out` must be one of `arguments`, the array itself and not a copy")
        if self.out.shape != self.expected.shape:
            raise ValueError(
                f"`expected` must have the shape of `out`, {self.out.shape}; got "
                f"{self.expected.shape}"
            )


def random(*shape: int) -> Array:
    """Return an array of random float32 numbers from 0 to 1, for the cases of a task.

    In one check, arrays of the same shape are equal. Each run of ``coalesce grade`` has other
    numbers, so that a kernel cannot contain the result.

    Parameters
    ----------
    *shape : int
        The shape of the array.

    Returns
    -------
    numpy.ndarray

    Examples
    --------
    >>> coalesce.lessons.random(4, 3).shape
    (4, 3)
    """
    extents = [require.whole("shape", extent, 0) for extent in shape]
    return np.random.default_rng(_seed).random(extents, dtype=np.float32)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Take another seed for the random numbers of the cases."""
    global _seed
    before, _seed = _seed, seed
    try:
        yield
    finally:
        _seed = before


def limit_seconds(seconds: float) -> None:
    """Take another limit for the time of a check."""
    global _time_limit_seconds
    _time_limit_seconds = seconds


class Run(NamedTuple):
    """A launch of a reader's kernel whose accesses were counted."""

    profile: Profile
    case: Case
    kernel: Kernel


@dataclass(frozen=True)
class Demand:
    """A limit for one count in the profile of a kernel, such as the sectors per request.

    `judge` compares the count with the limit. If the count is too large, `judge` raises
    AssertionError. The message shows the source lines that cost too much.
    """

    text: str
    judge: Callable[[Run], None]


@dataclass(frozen=True, repr=False)
class Verdict:
    """The result of a check. It is true if the exercise is solved, and prints as text.

    Attributes
    ----------
    exercise : str
        The name of the exercise.
    stage : {"solved", "time", "check", "result", "counts"}
        Where the check stopped. ``"time"``: the kernel did not end. ``"check"``: `Kernel.check` has
        findings. ``"result"``: the result is wrong. ``"counts"``: the counts do not meet the
        demands of the exercise. ``"solved"``: nothing is wrong.
    text : str
        What is wrong. If the exercise is solved, the counts.
    help : str
        The Python call that shows a hint: ``"lessons.exercise('brighten').hint(1)"``. If the next
        check fails, too, its verdict has the call for ``hint(2)``, and so on. After the last hint,
        `help` is the call for the solution.

    Examples
    --------
    >>> ex = coalesce.lessons.exercise("brighten")
    >>> verdict = ex.check(ex.source)
    >>> bool(verdict), verdict.stage
    (False, 'counts')
    """

    exercise: str
    stage: Stage
    text: str
    help: str = ""

    def __bool__(self) -> bool:
        return self.stage == "solved"

    def __repr__(self) -> str:
        lines = [f"{self.exercise}: {_HEADS[self.stage]}", self.text]
        return "\n".join([*lines, f"Help: {self.help}"] if self.help else lines)


_HEADS = {
    "solved": "solved. The result is right, the check finds no mistake, and the counts pass.",
    "time": "not yet. The kernel did not end:",
    "check": "not yet. The check of the run found:",
    "result": "not yet. The result is wrong:",
    "counts": "not yet. The result is right; the counts do not pass:",
}


@dataclass(frozen=True, repr=False)
class Exercise:
    """A kernel to improve or to repair, and a check of its result and its counts.

    Attributes
    ----------
    name : str
        The name of the exercise, which is also the name of its kernel.
    lesson : int or None
        The number of the lesson that contains the exercise. None for a task of your own (`task`).
    task : str
        A sentence that says what the kernel computes.
    launch : str
        The grid and the block in words. A solution must use the same grid and block.
    source : str
        The CUDA C++ source to start from.

    Examples
    --------
    >>> ex = coalesce.lessons.exercise("brighten")
    >>> ex.lesson, len(ex.demands)
    (8, 4)
    """

    name: str
    lesson: int | None
    task: str
    launch: str
    _demands: tuple[Demand, ...] = field(repr=False)
    _make: Callable[[bool], Case] = field(repr=False)
    _hints: tuple[str, ...] = field(repr=False, default=())
    # More cases, with other edges. Their accesses are not counted.
    _edges: tuple[Callable[[], Case], ...] = field(repr=False, default=())
    # The kinds of accesses to global memory whose costs the demands count.
    _kinds: frozenset[str] = field(repr=False, default=frozenset({"load", "store"}))

    @property
    def demands(self) -> tuple[str, ...]:
        """The limits for the counts of a solution, such as "no bank conflicts in shared memory"."""
        return tuple(demand.text for demand in self._demands)

    @property
    def source(self) -> str:
        """The CUDA C++ source to start from, as a string."""
        return self._read("exercises")

    @property
    def solution(self) -> str:
        """The CUDA C++ source of one solution. Every kernel that passes the check is a solution."""
        return self._read("solutions")

    def _read(self, kind: Literal["exercises", "solutions"]) -> str:
        if self.lesson is None:
            return ""
        file = _SOURCES / kind / f"lesson_{self.lesson}" / f"{self.name}.cu"
        return file.read_text(encoding="utf-8")

    def hint(self, number: int = 1) -> str:
        """Return a hint; later hints say more.

        Parameters
        ----------
        number : int
            The number of the hint, from 1.

        Returns
        -------
        str
            The hint. If there are fewer than `number` hints, the text says how many there are.

        Examples
        --------
        >>> coalesce.lessons.exercise("brighten").hint()
        'Which index changes from lane to lane: row or col?'
        """
        number = require.whole("number", number, 1)
        if number > len(self._hints):
            if not self._hints:
                return "There are no hints."
            call = f"lessons.exercise({self.name!r}).solution"
            return f"There are {len(self._hints)} hints. {call} shows one solution."
        return self._hints[number - 1]

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.task}", f"  launch: {self.launch}"]
        lines += [f"  - {text}" for text in self.demands]
        if self._hints:
            call = f"lessons.exercise({self.name!r})"
            lines.append(f"  hints: {call}.hint(1) to .hint({len(self._hints)})")
        return console.wrapped(lines)

    def check(self, kernel: Kernel | str) -> Verdict:
        """Run a kernel on the simulator and check whether it solves the exercise.

        Parameters
        ----------
        kernel : Kernel or str
            The kernel, or CUDA C++ source. The source must have a kernel with the name of the
            exercise.

        Returns
        -------
        Verdict

        Raises
        ------
        TypeError
            `kernel` is neither a kernel nor a string, or its parameters are not those of the
            exercise.
        CompileError
            The source does not compile.

        Examples
        --------
        >>> ex = coalesce.lessons.exercise("brighten")
        >>> bool(ex.check(ex.source))
        False
        """
        with errors.short():
            return self._verdict(kernel)

    def _verdict(self, kernel: Kernel | str) -> Verdict:
        if isinstance(kernel, str):
            kernel = Kernel(kernel, self.name)
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"`kernel` must be a Kernel, or a string of CUDA C++; got {require.shown(kernel)}"
            )
        try:
            with _time_limit(_time_limit_seconds):
                stage, text = self._checked(kernel)
        except _EndlessError:
            stage = "time"
            text = (
                f"  after {_time_limit_seconds:g} s it was stopped; solutions take less than "
                "a second. Does the condition of each loop become false, and does its counter "
                "change?"
            )
        if stage == "solved" or self.lesson is None:
            return Verdict(self.name, stage, text)
        failures = _failures[self.name] = _failures.get(self.name, 0) + 1
        more = f".hint({failures})" if failures <= len(self._hints) else ".solution"
        return Verdict(self.name, stage, text, f"lessons.exercise({self.name!r}){more}")

    def _findings(self, kernel: Kernel, case: Case) -> Findings:
        """Check the run of a case. If the parameters do not fit, say which ones the case needs."""
        try:
            return kernel.check(case.grid, case.block, *case.arguments)
        except TypeError as error:
            needed = f"for {len(case.arguments)} arguments"
            if self.lesson is not None:
                needed = str(Kernel(self.source, self.name).signature)
            raise TypeError(
                f"the parameters must be those of the exercise, {needed}; got {kernel.signature}"
            ) from error

    def _finding_text(self, finding: Finding, case: Case, kernel: Kernel) -> str:
        """Return the text of a finding, and sentences about its usual cause in this exercise."""
        names = [parameter.name for parameter in kernel.signature.parameters]
        array = finding.array
        if array in names and self.lesson is not None:  # the reader may have renamed it
            own = Kernel(self.source, self.name).signature.parameters
            array = own[names.index(array)].name
        sentences = _findings.sentences(self.name, finding, array, kernel.source)
        if not sentences:
            mistakes = _mistakes.results(self.name, case.arguments, case.expected)
            known = _wrong_results.recognized(case.out, case.expected, mistakes)
            sentences = [known] if known else _findings.for_any_exercise(finding)
        lines = console.wrapped(f"  {sentence}" for sentence in sentences)
        return f"{finding}\n{lines}" if lines else str(finding)

    def _checked(self, kernel: Kernel) -> tuple[Stage, str]:
        """Return the stage at which the check stops, and what is wrong there."""
        # The odd shapes test the edges; the even shape is counted.
        makes: list[Callable[[], Case]] = [partial(self._make, False)]
        makes += [*self._edges, partial(self._make, True)]
        for make in makes:
            case = make()
            findings = self._findings(kernel, case)
            if findings:  # includes warnings: code that relies on lockstep is not correct
                return "check", self._finding_text(findings[0], case, kernel)
            if not _wrong_results.close(case.out, case.expected).all():
                again = make()
                untouched = np.isclose(case.out, again.out, equal_nan=True)
                again.out[...] = _MARK
                kernel.check(again.grid, again.block, *again.arguments)
                unwritten = untouched & (again.out == _MARK)
                added = again.out - _MARK
                return "result", _first_wrong(self.name, case, kernel, unwritten, added)
        # The counted run has other numbers. So a kernel cannot save accesses by keeping the results
        # of the run before, or by finding them in the output.
        with seeded(_seed + 1):
            case = self._make(True)
        profile = kernel.profile(case.grid, case.block, *case.arguments)
        if not _wrong_results.close(case.out, case.expected).all():
            return "result", (
                "  after two right results, the third one is wrong. A kernel must compute each "
                "result from its arguments alone."
            )
        run = Run(profile, case, kernel)
        failed = [text for demand in self._demands if (text := _judged(demand, run))]
        failed += _other_accesses(profile, self._kinds)
        if failed:
            return "counts", _join_messages(failed)
        totals = [
            f"  {t.name}: {t.requests:,} requests of {t.per_request:.3g} {t.unit}"
            for t in profile.totals()
        ]
        return "solved", "\n".join(totals)


class _EndlessError(Exception):
    """A kernel ran longer than any solution does."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_EndlessError` if the code in the ``with`` statement takes too long.

    Only the main thread can be interrupted. In another thread, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    rang = threading.Event()

    def ring() -> None:
        rang.set()
        _thread.interrupt_main()

    bell = threading.Timer(seconds, ring)
    bell.daemon = True
    bell.start()
    try:
        yield
    except KeyboardInterrupt:
        if rang.is_set():
            raise _EndlessError from None
        raise
    finally:
        bell.cancel()


def _other_accesses(profile: Profile, kinds: frozenset[str]) -> list[str]:
    """Return a message for each access to global memory that no demand counts, such as a copy."""
    return [
        f"{a.place}: {a.name}: the demands do not count this kind of access; use loads and stores"
        for a in profile.accesses()
        if a.space in ("global", "generic") and a.kind not in kinds
    ]


def _judged(demand: Demand, run: Run) -> str:
    """Return the message of a demand, or an empty string if the demand is met."""
    try:
        demand.judge(run)
    except AssertionError as error:
        return str(error)
    return ""


def _join_messages(failed: list[str]) -> str:
    """Join the messages of failed demands. Source lines that several messages show appear once."""
    heads: dict[str, list[str]] = {}
    for text in failed:
        head, _, lines = text.partition("\n")
        heads.setdefault(lines, []).append(head)
    return "\n".join(
        "\n".join(filter(None, [*first_lines, lines])) for lines, first_lines in heads.items()
    )


def _first_wrong(
    name: str, case: Case, kernel: Kernel, unwritten: NDArray[np.bool_], added: Array
) -> str:
    """Describe the first wrong element and the wrong result.

    `unwritten` says which elements were not written. `added` is what a second run added to an
    output array with other contents.
    """
    right = _wrong_results.close(case.out, case.expected)
    where = tuple(int(i) for i in np.argwhere(~right)[0])
    place = ", ".join(map(str, where))
    value, wanted = case.out[where], case.expected[where]
    out = _name_of_result(case, kernel)
    adds = _wrong_results.close(added, case.expected)[~right].all()
    difference = f"{out}[{place}] is {value:.6g} and should be {wanted:.6g}"
    if unwritten[where] and not adds:
        difference = f"nothing was written to {out}[{place}], which should be {wanted:.6g}"
    count = int((~right).sum())
    first = (
        f"  {out} has shape {case.out.shape}; {difference}; {count:,} of {right.size:,} are wrong"
    )
    if adds:
        sentence = (
            f"The kernel adds to what is in {out}, and {out} is not 0 before the launch. Let each "
            "thread add in a variable of its own, and store the sum once."
        )
    else:
        mistakes = _mistakes.results(name, case.arguments, case.expected)
        sentence = _wrong_results.described(case.out, case.expected, unwritten, mistakes)
    return console.wrapped([first, f"  {sentence}"])


def _name_of_result(case: Case, kernel: Kernel) -> str:
    """Return the name of the kernel's parameter that receives the result."""
    pairs = zip(kernel.signature.parameters, case.arguments, strict=True)
    return next(parameter.name for parameter, argument in pairs if argument is case.out)
