"""Makes the verdict of a profile: sentences on idle lanes and each memory, with the worst line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coalesce.common.geometry import Extent
from coalesce.profiling.patterns.classification import LANES
from coalesce.profiling.rows.accesses import (
    KINDS,
    TOLERANCE,
    Access,
    Instruction,
    Line,
    number,
    unit_of,
)
from coalesce.profiling.sentences.advice import shares_words, split, wasteful

_MANY_CONVERSIONS = 0.02  # conversions are slow, so few of them are worth a sentence
_SURFACES = ("SU", "sust", "sured")  # instructions that write to surfaces begin so
_MANY_LANES = 24  # fewer active lanes on average are worth a sentence


@dataclass(frozen=True)
class Total:
    """The sum of all accesses of one kind to one memory, such as all global loads.

    The property ``name`` is the memory and the kind: ``"global load"``. ``wasteful`` says whether
    the cost is clearly higher than needed.

    Attributes
    ----------
    space, kind : str
        The memory and the kind of access, as in `Access`.
    requests : int
        How often a warp accessed the memory.
    cost : int
        For global memory, the number of 32-byte sectors that were moved. For shared memory, the
        number of wavefronts, which are the cycles of shared memory. For constant memory, the number
        of different words.
    needed : int
        The smallest `cost` that would be enough for these requests.
    bytes_used, bytes_moved : int
        The bytes that the lanes asked for, and the bytes of the sectors. Both are 0 for shared
        and constant memory.
    unit : str
        The unit of `cost`: ``"sectors"``, ``"wavefronts"`` or ``"words"``.
    per_request, needed_per_request : float
        `cost` and `needed`, divided by the requests.

    Examples
    --------
    >>> p = coalesce.profile("matmul", a, b, variant="naive")
    >>> load = p.totals()[0]
    >>> load.name, load.unit
    ('global load', 'sectors')
    """

    space: str
    kind: str
    requests: int
    cost: int
    needed: int
    bytes_used: int
    bytes_moved: int

    @property
    def name(self) -> str:
        """The memory and the kind of access: ``"global load"``."""
        return f"{self.space} {KINDS.get(self.kind, self.kind)}"

    @property
    def unit(self) -> str:
        """The unit of `cost`: ``"sectors"``, ``"wavefronts"`` or ``"words"``."""
        return unit_of(self.space)

    @property
    def wasteful(self) -> bool:
        """Whether the cost is clearly higher than `needed`."""
        return self.cost > TOLERANCE * self.needed

    @property
    def per_request(self) -> float:
        """The average cost of a request, in sectors or wavefronts."""
        return self.cost / self.requests

    @property
    def needed_per_request(self) -> float:
        """`needed` divided by `requests`."""
        return self.needed / self.requests


@dataclass(frozen=True)
class Sentence:
    """A sentence of the verdict. `wasteful` says whether the sentence is about waste."""

    wasteful: bool
    text: str


def totals(accesses: Sequence[Access]) -> list[Total]:
    """Return the sums of the accesses, one for each memory and kind of access.

    The order is the same as in Nsight Compute's tables.
    """
    groups: dict[tuple[int, int], list[Access]] = {}
    for access in accesses:
        place = (_SPACES.index(access.space), _ORDER.index(access.kind))
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
        )
        for _, group in sorted(groups.items())
    ]


_SPACES = ("global", "generic", "shared", "constant", "local")
_ORDER = ("load", "async_copy", "tma_load", "store", "tma_store", "reduction", "atomic")


def verdict(
    lines: Sequence[Line], block: Extent, instructions: Sequence[Instruction]
) -> list[Sentence]:
    """Return a sentence for each memory that the kernel accesses, and one if many lanes are idle.

    Sentences about waste come first.
    """
    accesses = [access for line in lines for access in line.accesses]
    findings = [*_idle_lanes(lines, block), *_same_work(accesses), *_converted(lines, instructions)]
    reads = all(a.kind in ("load", "async_copy", "tma_load") for a in accesses)
    if reads and not any(i.opcode.startswith(_SURFACES) for i in instructions):
        text = "The kernel writes nothing to memory, so the compiler may have removed its work."
        findings.append(Sentence(True, text))
    of_space = (
        (("global", "generic"), _global),
        (("shared",), _shared),
        (("constant",), _constant),
    )
    for spaces, finding in of_space:
        chosen = [a for a in accesses if a.space in spaces]
        if chosen:
            findings.append(finding(chosen))
    if any(a.space == "local" for a in accesses):
        findings.append(_local(accesses))
    if not accesses:
        findings.append(Sentence(False, "No access to global or shared memory."))
    return sorted(findings, key=lambda f: not f.wasteful)


def _idle_lanes(lines: Sequence[Line], block: Extent) -> Iterator[Sentence]:
    """Say that few lanes are active, and whether the size of the blocks or a branch is the cause.

    For example, an `if (threadIdx.x == 0)` leaves 1 of 32 lanes, and a warp executes each of its
    instructions for this lane alone.
    """
    executed, threads = (sum(getattr(line, n) for line in lines) for n in ("executed", "threads"))
    if threads >= _MANY_LANES * executed:
        return
    lanes = number(threads / executed)
    what = f"On average, {lanes} of {LANES} lanes {'is' if lanes == '1' else 'are'} active"
    size = math.prod(block)
    filled = size / -(-size // LANES)  # lanes with a thread, per warp of the block
    if filled < _MANY_LANES:
        why = (
            f"a block has {size} thread{'s' * (size != 1)}, and so {number(filled)} per warp. "
            f"Launch blocks of a multiple of {LANES} threads"
        )
    else:
        worst = max(lines, key=lambda line: LANES * line.executed - line.threads)
        share = (LANES * worst.executed - worst.threads) / (LANES * executed - threads)
        why = (
            f"{share:.0%} of the idle lanes are in {worst.place}. If the lanes of a warp take the "
            "same branch, and a loop as often, none is idle"
        )
    yield Sentence(True, f"{what}; {why}.")


def _same_work(accesses: Sequence[Access]) -> Iterator[Sentence]:
    """Say that the lanes of each warp all do the same.

    This is so if each access is by several lanes to one address: ``s += a[i]; out[i] = s`` with an
    `i` that depends on the block only. Constant memory has such accesses in any kernel.
    """
    accesses = [a for a in accesses if a.space != "constant"]
    stores = [a for a in accesses if a.kind == "store"]
    executed, threads = (
        sum(getattr(i, n) for a in stores for i in a.instructions) for n in ("executed", "threads")
    )
    if threads < 2 * executed or not stores:
        return
    if all(
        a.kind in ("load", "store") and a.pattern is not None and a.pattern.kind == "broadcast"
        for a in accesses
    ):
        yield Sentence(
            True,
            f"{number(threads / executed)} lanes of a warp do the same work: they all store to one "
            f"element in {stores[0].place}. Let each lane compute an element of its own, or let "
            "the lanes share the work for one.",
        )


def _converted(lines: Sequence[Line], instructions: Sequence[Instruction]) -> Iterator[Sentence]:
    """Say that float32 values are converted to float64 and back, as constants such as 0.1 do it."""
    executed = sum(line.executed for line in lines)
    found = [i for i in instructions if i.opcode.startswith("F2F") and "F64" in i.opcode]
    total = sum(i.executed for i in found)
    if total < _MANY_CONVERSIONS * executed or not total:
        return
    of_line = Counter[tuple[str, int]]()
    for i in found:
        of_line[i.file, i.line] += i.executed
    file, number_of_line = max(of_line, key=of_line.__getitem__)
    place = next(
        (x.place for x in lines if (x.file, x.number) == (file, number_of_line)), "the code"
    )
    yield Sentence(
        True,
        f"{total / executed:.0%} of the instructions convert between float32 and float64, most of "
        f"them in {place}. Constants such as 0.1 are float64: write 0.1f.",
    )


def _global(accesses: Sequence[Access]) -> Sentence:
    if not _wasteful(accesses):
        # A copy by the copy engine is much larger than a request of a warp.
        of_warps = [a for a in accesses if not a.kind.startswith("tma_")]
        averaged, unit = (of_warps, "request") if of_warps else (accesses, "TMA copy")
        each = sum(a.cost for a in averaged) / sum(a.requests for a in averaged)
        sectors = f"{number(each)} sector{'s' * (number(each) != '1')}"
        few = (
            "nearly as few as possible" if any(a.excess for a in accesses) else "as few as possible"
        )
        return Sentence(False, f"Global memory: {sectors} per {unit}, {few}.")
    return Sentence(
        True,
        f"Global memory takes {_factor(accesses, 'sectors')} it needs; {_worst_access(accesses)}.",
    )


def _shared(accesses: Sequence[Access]) -> Sentence:
    if not _wasteful(accesses):
        return Sentence(False, "Shared memory: no bank conflicts.")
    worst = max(accesses, key=lambda a: a.excess)
    has = "has no bank conflicts, but" if split(worst) else f"has {_conflicts(worst)} and"
    return Sentence(
        True,
        f"Shared memory {has} takes {_factor(accesses, 'wavefronts')} it needs; "
        f"{_worst_access(accesses)}.",
    )


def _constant(accesses: Sequence[Access]) -> Sentence:
    if not _wasteful(accesses):
        return Sentence(False, "Constant memory: one word per request.")
    words = number(sum(a.cost for a in accesses) / sum(a.requests for a in accesses))
    return Sentence(
        True,
        f"Constant memory delivers {words} words per request, one after the other; "
        f"{_worst_access(accesses)}.",
    )


def _conflicts(access: Access) -> str:
    ways = number(access.conflict)
    if shares_words(access):
        return f"atomics in which {ways} lanes{' on average' * ('.' in ways)} update the same word"
    return f"{ways}-way bank conflicts" + " on average" * ("." in ways)


def _local(accesses: Sequence[Access]) -> Sentence:
    local = sum(a.cost for a in accesses if a.space == "local")
    everything = sum(a.cost for a in accesses if a.unit == "sectors")
    return Sentence(
        True,
        f"Local memory takes {local / everything:.0%} of the sectors. It holds arrays that "
        "a thread indexes at run time, and spilled registers.",
    )


def _wasteful(accesses: Sequence[Access]) -> bool:
    """Whether an access can be improved enough to change the total."""
    excess, cost = sum(a.excess for a in accesses), sum(a.cost for a in accesses)
    return any(wasteful(a) for a in accesses) and excess >= 0.01 * cost


def _factor(accesses: Sequence[Access], unit: str) -> str:
    """Return "3 times the sectors" or "4% more sectors than", to be continued with "it needs"."""
    factor = sum(a.cost for a in accesses) / sum(a.needed for a in accesses)
    if factor < 1.095:
        return f"{factor - 1:.0%} more {unit} than"
    return (
        f"{'twice' if abs(factor - 2) < 0.05 else f'{number(round(factor, 1))} times'} the {unit}"
    )


def _worst_access(accesses: Sequence[Access]) -> str:
    """Say which access causes the largest part of the excess."""
    worst = max(accesses, key=lambda a: a.excess)
    share = worst.excess / sum(a.excess for a in accesses)
    part = "all" if share > 0.995 else f"{share:.0%}"
    kind = KINDS.get(worst.kind, worst.kind)
    what = worst.name[len(kind) + 1 :]
    return (
        f"{part} of the excess comes from the {kind}{f' of {what}' * bool(what)} in {worst.place}"
    )
