"""Assertions about a profile, for tests: a failure shows the lines to blame, and their warps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from coalesce.common import checks
from coalesce.profiling.advice import wasteful
from coalesce.profiling.rows import number

if TYPE_CHECKING:
    from coalesce.profiling.rows import Access

_SLACK = 1e-9  # of the rounding of a ratio


class Explained(int):
    """A count with the accesses that make it up, which pytest shows where a comparison fails."""

    accesses: tuple[Access, ...]

    def __new__(cls, value: int, accesses: Iterable[Access]) -> Explained:  # noqa: PYI034
        made = super().__new__(cls, value)
        made.accesses = tuple(accesses)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class Assertions:
    """What a test may demand of a profile. All raise AssertionError and return nothing.

    `line` restricts an assertion to a line of the kernel's file.
    """

    def accesses(self) -> list[Access]:
        """Return the accesses that are judged."""
        raise NotImplementedError

    def assert_sectors_per_request(
        self, load: float | None = None, store: float | None = None, *, line: int | None = None
    ) -> None:
        """Demand that requests of global memory take at most so many sectors on average.

        Parameters
        ----------
        load, store : float, optional
            The most sectors a request: 4.0 for full warps that load neighbouring floats.
        line : int, optional
            Of which line; of the whole kernel by default.

        Raises
        ------
        AssertionError
            They take more; the message shows the accesses that do, and a warp of each.
        TypeError, ValueError
            Nothing is demanded, or no number, or there is no such access to judge.

        Examples
        --------
        >>> p.assert_sectors_per_request(load=16.5, line=28)
        """
        __tracebackhide__ = True  # pytest shows the test's own line
        limits = {"load": load, "store": store}
        wanted = {kind: most for kind, most in limits.items() if most is not None}
        if not wanted:
            raise ValueError("assert_sectors_per_request needs load=, store= or both")
        for kind, most in wanted.items():
            if not checks.number(kind, most) >= 0:  # nan would let everything pass
                raise ValueError(f"{kind} must be a number of sectors from 0 on; got {most!r}")
            judged = self._judged(f"global {kind}", line, partial(_is_global, kind=kind))
            found = sum(a.sectors for a in judged) / sum(a.requests for a in judged)
            if found > most + _SLACK:
                _fail(
                    f"global {kind}s take {number(found)} sectors a request; "
                    f"at most {number(most)} wanted",
                    [a for a in judged if a.per_request > most],
                )

    def assert_coalesced(self, *, line: int | None = None) -> None:
        """Demand that no access of global memory takes more sectors than its elements packed would.

        Raises
        ------
        AssertionError
            One does; the message shows it.

        Examples
        --------
        >>> coalesce.profile("transpose", a, variant="padded").assert_coalesced()
        """
        __tracebackhide__ = True
        judged = self._judged("global", line, _is_global, needed=False)
        bad = [a for a in judged if wasteful(a)]
        if bad:
            excess = sum(a.excess for a in bad)
            _fail(f"accesses of global memory take {excess:,} sectors more than packed ones", bad)

    def assert_bytes_used(self, at_least: float, *, line: int | None = None) -> None:
        """Demand that of the bytes that global memory moves this share is used, from 0 to 1.

        Raises
        ------
        AssertionError
            Less is; the message shows the accesses that waste.

        Examples
        --------
        >>> coalesce.profile("transpose", a, variant="padded").assert_bytes_used(0.9)
        """
        __tracebackhide__ = True
        if not 0 <= checks.number("at_least", at_least) <= 1:
            raise ValueError(f"at_least must be a share from 0 to 1; got {at_least!r}")
        judged = self._judged("global", line, _is_global)
        used = sum(a.bytes_used for a in judged) / sum(a.bytes_moved for a in judged)
        if used < at_least - _SLACK:
            _fail(
                f"{used:.0%} of the bytes that global memory moves are used; "
                f"at least {at_least:.0%} wanted",
                [a for a in judged if a.efficiency < at_least],
            )

    def assert_no_bank_conflicts(self, *, line: int | None = None) -> None:
        """Demand that shared memory takes no wavefront more than without bank conflicts.

        Raises
        ------
        AssertionError
            It does; the message shows the accesses.

        Examples
        --------
        >>> coalesce.profile("transpose", a, variant="padded").assert_no_bank_conflicts()
        """
        __tracebackhide__ = True
        judged = self._judged("shared", line, lambda a: a.space == "shared", needed=False)
        bad = [a for a in judged if a.excess]
        if bad:
            excess = sum(a.excess for a in bad)
            _fail(f"bank conflicts cost {excess:,} wavefronts of shared memory", bad)

    def _judged(
        self, what: str, line: int | None, chosen: Callable[[Access], bool], needed: bool = True
    ) -> list[Access]:
        """Return the chosen accesses; ValueError where there are none, so that no typo passes.

        Of the whole kernel there may be none unless they are `needed`.
        """
        __tracebackhide__ = True
        line = None if line is None else checks.integer("line", line)
        found = [a for a in self.accesses() if chosen(a)]
        at_line = [a for a in found if line is None or (a.line == line and not a.file)]
        if not at_line and (needed or line is not None):
            others = ", ".join(str(n) for n in sorted({a.line for a in found if not a.file}))
            place = "" if line is None else f" at line {line}"
            hint = f"; there is at line {others}" if others and line is not None else ""
            raise ValueError(f"the kernel has no {what} access{place}{hint}")
        return at_line


def explanation(accesses: Sequence[Access]) -> list[str]:
    """Return the rows of accesses for a message: the costliest three, line by line."""
    from coalesce.profiling import text as profile_text

    worst = sorted(accesses, key=lambda a: -a.excess)
    shown: list[str] = []
    for access in worst[:3]:
        shown += profile_text.plain_access(access)
    if len(worst) > 3:
        shown.append(f"  and {len(worst) - 3} more")
    return shown


def _is_global(access: Access, kind: str | None = None) -> bool:
    return access.space == "global" and kind in (None, access.kind)


def _fail(what: str, accesses: Sequence[Access]) -> None:
    __tracebackhide__ = True
    raise AssertionError("\n".join([what, *explanation(accesses)]))
