"""Sentences: how an access lies in words and, where that costs too much, what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coalesce.profiling.patterns import BANKS, WORD_BYTES, Pattern
from coalesce.profiling.rows import TOLERANCE, Access, number

_ROW_OF_BANKS = BANKS * WORD_BYTES

_FIXES = {
    "misaligned": (
        "Let warps begin at multiples of 32 bytes: pad the rows to one, launch blocks of a "
        "multiple of 32 threads, or shift the lanes."
    ),
    "stride": "Let neighbouring lanes take neighbouring elements.",
    "field": "A structure of arrays, one array a field, would be contiguous.",
    "gather": "Sort what is gathered, or load it contiguously into shared memory first.",
    "conflict": (
        "Let neighbouring lanes take neighbouring words, or pad the rows of the array so that "
        "those of a warp lie in different banks."
    ),
    "runs": (
        "Make the runs longer, with blocks of 32 threads along x whose lanes step along the last "
        "axis of the array."
    ),
    "partial": "Let whole warps branch alike, for example by sorting what they work on.",
}
_FIXES_OF_SCATTERED = {
    "store": "Sort what is written, or order it in shared memory and write it contiguously.",
    "reduction": "Sort what is updated, or add up in shared memory first.",
    "atomic": "Sort what is updated, or add up in shared memory first.",
}
_FIX_OF_COLUMN = "Pad the rows of the array by one element, or swizzle its columns."
_FIX_OF_UPDATES = (
    "Lanes that update one address go one after the other: combine in the warp or the block first."
)
_FIX_OF_DATA = (
    "Where the words follow from the data, padding does not help; several copies of the array, "
    "which the lanes take turns with, do."
)
_FIX_OF_AXIS = (
    "Let threadIdx.x count along the last axis of the array, or load a tile through shared memory."
)


def wasteful(access: Access) -> bool:
    """Whether the access takes more sectors or wavefronts than its elements packed would."""
    return access.cost > TOLERANCE * access.ideal


def contended(access: Access) -> bool:
    """Whether the lanes of a warp update one address."""
    pattern = access.pattern
    updates = access.kind in ("atomic", "reduction")
    return updates and pattern is not None and pattern.kind == "broadcast"


def shares_words(access: Access) -> bool:
    """Whether an atomic takes wavefronts as lanes update one word, not as words share a bank."""
    pattern = access.pattern
    atomic = access.space == "shared" and access.kind == "atomic"
    return atomic and wasteful(access) and pattern is not None and pattern.kind == "free"


def sentence(access: Access) -> str:
    """Return how an access lies and, where that costs, the fix."""
    return " ".join(filter(None, _parts(access)))


def told(accesses: Sequence[Access]) -> Iterator[tuple[Access, str]]:
    """Yield the accesses of a line with their sentences, each part of which is said once."""
    seen: set[str] = set()
    for access in accesses:
        parts = [part for part in _parts(access) if part not in seen]
        if worth_a_sentence(access):
            seen.update(parts)
        yield access, " ".join(filter(None, parts))


def remarks(access: Access, text: str) -> str:
    """Return what is said of an access: `text`, where it wastes, and what the assembler merged."""
    return " ".join(filter(None, (text * worth_a_sentence(access), access.merge)))


def worth_a_sentence(access: Access) -> bool:
    """Whether an access wastes, or lanes wait for each other, enough for the kernel to notice."""
    return (wasteful(access) or contended(access)) and access.share >= 0.01


def _parts(access: Access) -> tuple[str, str]:
    """Return how an access lies, and the fix where that costs."""
    if access.space == "local":
        how = "An array of each thread that is indexed at run time, or registers that did not fit."
        return how, ""
    pattern = access.pattern
    if pattern is None:
        if not wasteful(access):
            return "", ""
        return f"{access.takes} a request where {number(access.needed_per_request)} would do.", ""
    if contended(access):
        how = "The lanes update one address, one after the other;"
        return how, "combining them in the warp first leaves one."
    if not wasteful(access):
        return pattern.text, ""
    if shares_words(access):
        return "Some lanes of a warp update one word.", _FIX_OF_UPDATES
    how = pattern.text
    if pattern.kind == "gather" and access.kind in _FIXES_OF_SCATTERED:
        how = how.replace("gather from", "scatter to")
    if not all(e.wastes for row in access.instructions for e in row.examples):
        how = f"Some requests: {how[0].lower()}{how[1:]}"
    return how, _fix(access, pattern)


def _fix(access: Access, pattern: Pattern) -> str:
    step = pattern.stride_bytes
    if pattern.kind == "stride" and pattern.axis is not None:
        return _FIX_OF_AXIS
    if pattern.kind == "groups" and access.kind in ("atomic", "reduction"):
        return _FIX_OF_UPDATES
    if pattern.kind == "gather" and access.kind in _FIXES_OF_SCATTERED:
        return _FIXES_OF_SCATTERED[access.kind]
    if pattern.kind == "conflict" and not pattern.regular:
        return _FIX_OF_DATA
    # Rows of 32 words, as of a tile that is read down a column.
    if pattern.kind == "conflict" and step is not None and step % _ROW_OF_BANKS == 0:
        return _FIX_OF_COLUMN
    return _FIXES.get(pattern.kind, "")
