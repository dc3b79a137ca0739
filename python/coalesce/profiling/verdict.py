"""What a profile comes to: a sentence for each memory, the costliest waste and where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coalesce.profiling.advice import shares_words, wasteful
from coalesce.profiling.rows import TOLERANCE, Access, Errors, number


@dataclass(frozen=True)
class Total:
    """The accesses of one space and kind, summed up: a row such as "global load"."""

    space: str
    kind: str
    requests: int
    cost: int
    needed: int
    bytes_used: int
    bytes_moved: int
    error: float = 0.0  # the standard error of `cost` in an estimate

    @property
    def name(self) -> str:
        """``"global load"``."""
        return f"{self.space} {'copy' if self.kind == 'async_copy' else self.kind}"

    @property
    def unit(self) -> str:
        """``"sectors"`` or ``"wavefronts"``."""
        return "wavefronts" if self.space == "shared" else "sectors"

    @property
    def wasteful(self) -> bool:
        """Whether packed elements would take noticeably less."""
        return self.cost > TOLERANCE * self.needed

    @property
    def per_request(self) -> float:
        """Sectors or wavefronts a request."""
        return self.cost / self.requests

    @property
    def needed_per_request(self) -> float:
        """What would do: the ideal, or less where lanes share addresses."""
        return self.needed / self.requests


@dataclass(frozen=True)
class Finding:
    """A sentence of the verdict; `wasteful` where there is something to gain."""

    wasteful: bool
    text: str


def totals(accesses: Sequence[Access], errors: Errors | None = None) -> list[Total]:
    """Sum the accesses by space and kind, in the order of Nsight Compute's tables."""
    groups: dict[tuple[int, int], list[Access]] = {}
    for access in accesses:
        place = (_SPACES.index(access.space), _KINDS.index(access.kind))
        groups.setdefault(place, []).append(access)
    return [
        Total(
            space=group[0].space,
            kind=group[0].kind,
            requests=sum(a.requests for a in group),
            cost=sum(a.cost for a in group),
            needed=sum(a.needed for a in group),
            bytes_used=sum(a.bytes_used for a in group),
            bytes_moved=sum(a.bytes_moved for a in group),
            error=0.0 if errors is None else errors(_indices(group), group[0].unit),
        )
        for _, group in sorted(groups.items())
    ]


def _indices(accesses: Sequence[Access]) -> list[int]:
    return [i.index for access in accesses for i in access.instructions]


_SPACES = ("global", "generic", "shared", "local")
_KINDS = ("load", "async_copy", "store", "reduction", "atomic")


def verdict(accesses: Sequence[Access]) -> list[Finding]:
    """Return a sentence about each memory that is used, those with waste first."""
    found = []
    for spaces, finding in ((("global", "generic"), _global), (("shared",), _shared)):
        chosen = [a for a in accesses if a.space in spaces]
        if chosen:
            found.append(finding(chosen))
    if any(a.space == "local" for a in accesses):
        found.append(_local(accesses))
    if not found:
        found.append(Finding(False, "No access to global or shared memory."))
    return sorted(found, key=lambda f: not f.wasteful)


def _global(accesses: Sequence[Access]) -> Finding:
    if not _wasteful(accesses):
        each = sum(a.cost for a in accesses) / sum(a.requests for a in accesses)
        sectors = f"{number(each)} sector{'s' * (number(each) != '1')}"
        few = (
            "nearly as few as possible" if any(a.excess for a in accesses) else "as few as possible"
        )
        return Finding(False, f"Global memory: {sectors} a request, {few}.")
    return Finding(
        True,
        f"Global memory takes {_factor(accesses, 'sectors')} it needs; {_blame(accesses)}.",
    )


def _shared(accesses: Sequence[Access]) -> Finding:
    if not _wasteful(accesses):
        return Finding(False, "Shared memory: no bank conflicts.")
    worst = max(accesses, key=lambda a: a.excess)
    return Finding(
        True,
        f"Shared memory has {_conflicts(worst)} and takes "
        f"{_factor(accesses, 'wavefronts')} it needs; {_blame(accesses)}.",
    )


def _conflicts(access: Access) -> str:
    ways = number(access.conflict)
    if shares_words(access):
        return f"atomics in which {ways} lanes{' on average' * ('.' in ways)} update one word"
    return f"{ways}-way bank conflicts" + " on average" * ("." in ways)


def _local(accesses: Sequence[Access]) -> Finding:
    local = sum(a.sectors for a in accesses if a.space == "local")
    everything = sum(a.sectors for a in accesses)
    return Finding(
        True,
        f"Local memory takes {local / everything:.0%} of the sectors: arrays of each thread, or "
        "registers that did not fit.",
    )


def _wasteful(accesses: Sequence[Access]) -> bool:
    """Whether there is an access to improve that the total would notice."""
    excess, cost = sum(a.excess for a in accesses), sum(a.cost for a in accesses)
    return any(wasteful(a) for a in accesses) and excess >= 0.01 * cost


def _factor(accesses: Sequence[Access], unit: str) -> str:
    """Write how much more is taken: ``"3 times the sectors"``, ``"4% more sectors than"``."""
    factor = sum(a.cost for a in accesses) / sum(a.needed for a in accesses)
    if factor < 1.095:
        return f"{factor - 1:.0%} more {unit} than"
    return (
        f"{'twice' if abs(factor - 2) < 0.05 else f'{number(round(factor, 1))} times'} the {unit}"
    )


def _blame(accesses: Sequence[Access]) -> str:
    """Say which access the most of the excess comes from."""
    worst = max(accesses, key=lambda a: a.excess)
    share = worst.excess / sum(a.excess for a in accesses)
    part = "all" if share > 0.995 else f"{share:.0%}"
    kind, _, what = worst.name.partition(" ")
    return f"{part} of the excess is the {kind}{f' of {what}' * bool(what)} in {worst.place}"
