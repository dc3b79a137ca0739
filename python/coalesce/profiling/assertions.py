"""Assertions about a profile, for tests. If one fails, the message shows the costly lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from coalesce.common import require
from coalesce.profiling.rows.accesses import number
from coalesce.profiling.sentences.advice import wasteful

if TYPE_CHECKING:
    from coalesce.profiling.rows.accesses import Access

_SLACK = 1e-9  # tolerates the rounding of a ratio


class Assertions:
    """The assertions of a `Profile`. They raise AssertionError if the kernel costs too much.

    With the argument `line`, an assertion looks only at one line of the kernel's file.
    """

    def accesses(self) -> list[Access]:
        """Return the accesses that the assertions look at. `ProfileData` implements this method."""
        raise NotImplementedError

    def assert_sectors_per_request(
        self, load: float | None = None, store: float | None = None, *, line: int | None = None
    ) -> None:
        """Assert that loads or stores of global memory take few sectors per request on average.

        Parameters
        ----------
        load, store : float, optional
            The largest average that is allowed. For comparison: a warp whose 32 lanes load adjacent
            floats takes 4.0 sectors per request.
        line : int, optional
            The line to look at. By default, the whole kernel.

        Raises
        ------
        AssertionError
            The average is larger. The message shows the accesses, each with the addresses of one
            warp.
        TypeError, ValueError
            Neither `load` nor `store` was passed, or one of them is not a number. Or `load` was
            passed, but the kernel or the line has no load of global memory. Or `store` was passed,
            but the kernel or the line has no store to global memory.

        Examples
        --------
        >>> p.assert_sectors_per_request(load=4.5, line=28)
        """
        __tracebackhide__ = True  # pytest then shows the line of the test, not this line
        limits = {"load": load, "store": store}
        wanted = {kind: most for kind, most in limits.items() if most is not None}
        if not wanted:
            raise ValueError("assert_sectors_per_request needs `load`, `store` or both")
        for kind, most in wanted.items():
            if not require.number(kind, most) >= 0:  # with NaN, every profile would pass
                raise ValueError(f"`{kind}` must be a number of sectors, at least 0; got {most!r}")
            judged = self._judged(f"global {kind}", line, partial(_is_global, kind=kind))
            per_request = sum(a.sectors for a in judged) / sum(a.requests for a in judged)
            if per_request > most + _SLACK:
                _fail(
                    f"global {kind}s take {number(per_request)} sectors per request; "
                    f"at most {number(most)} are allowed",
                    [a for a in judged if a.per_request > most],
                )

    def assert_coalesced(self, *, line: int | None = None) -> None:
        """Assert that all accesses to global memory are coalesced.

        An access is coalesced if it takes no more sectors than an access to adjacent elements would
        take.

        Parameters
        ----------
        line : int, optional
            The line to look at. By default, the whole kernel.

        Raises
        ------
        AssertionError
            An access takes more sectors. The message shows this access.

        Examples
        --------
        >>> coalesce.profile("transpose", a, variant="padded").assert_coalesced()
        """
        __tracebackhide__ = True
        judged = self._judged("global", line, _is_global, needed=False)
        bad = [a for a in judged if wasteful(a)]
        if bad:
            excess = sum(a.excess for a in bad)
            _fail(f"accesses of global memory take {excess:,} sectors more than needed", bad)

    def assert_bytes_used(self, at_least: float, *, line: int | None = None) -> None:
        """Assert that the kernel uses most bytes of the sectors that it touches in global memory.

        Parameters
        ----------
        at_least : float
            The smallest allowed share, from 0 to 1. The share is the number of bytes that the lanes
            requested, divided by the number of bytes in the touched sectors.
        line : int, optional
            The line to look at. By default, the whole kernel.

        Raises
        ------
        AssertionError
            The share is smaller. The message shows the wasteful accesses.

        Examples
        --------
        >>> coalesce.profile("transpose", a, variant="padded").assert_bytes_used(0.9)
        """
        __tracebackhide__ = True
        if not 0 <= require.number("at_least", at_least) <= 1:
            raise ValueError(f"`at_least` must be a number from 0 to 1; got {at_least!r}")
        judged = self._judged("global", line, _is_global)
        used = sum(a.bytes_used for a in judged) / sum(a.bytes_moved for a in judged)
        if used < at_least - _SLACK:
            _fail(
                f"{used:.0%} of the bytes of the touched sectors are used; "
                f"at least {at_least:.0%} must be used",
                [a for a in judged if a.efficiency < at_least],
            )

    def assert_no_bank_conflicts(self, *, line: int | None = None) -> None:
        """Assert that accesses to shared memory have no bank conflicts.

        An access has bank conflicts if it takes more wavefronts than an access to adjacent elements
        would take.

        Parameters
        ----------
        line : int, optional
            The line to look at. By default, the whole kernel.

        Raises
        ------
        AssertionError
            There are bank conflicts. The message shows the accesses that cause them.

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
        """Return the accesses that `chosen` selects, from one line or from the whole kernel.

        If a `line` is passed and has no such access, raise ValueError, because the number may be a
        typo. If the whole kernel has none, raise ValueError only if accesses are `needed`.
        """
        __tracebackhide__ = True
        line = None if line is None else require.integer("line", line)
        matching = [a for a in self.accesses() if chosen(a)]
        at_line = [a for a in matching if line is None or (a.line == line and not a.file)]
        if not at_line and (needed or line is not None):
            others = ", ".join(str(n) for n in sorted({a.line for a in matching if not a.file}))
            place = "" if line is None else f" at line {line}"
            hint = f"; it has such accesses at line {others}" if others and line is not None else ""
            raise ValueError(f"the kernel has no {what} access{place}{hint}")
        return at_line


def explanation(accesses: Sequence[Access]) -> list[str]:
    """Return lines of text about the three accesses that waste the most sectors or wavefronts."""
    from coalesce.profiling.report import text as profile_text

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
