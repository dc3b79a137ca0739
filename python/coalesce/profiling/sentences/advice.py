"""Makes the sentences about an access: which addresses its lanes use, and how to lower the cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from coalesce._core import model
from coalesce.profiling.patterns.classification import BANKS, WORD_BYTES, Pattern
from coalesce.profiling.patterns.examples import Example, distinct
from coalesce.profiling.rows.accesses import TOLERANCE, Access, number

_ROW_OF_BANKS = BANKS * WORD_BYTES
_WIDEST_LOAD = 16  # bytes per lane
_CLEARLY_SLOWER = 1.5  # a smaller difference between two lengths of rows is not worth a sentence
_LINES = 4  # L1 looks up four lines at once

_FIXES = {
    "misaligned": (
        "Let each warp begin at a multiple of 32 bytes: pad the rows to such a multiple, launch "
        "blocks of a multiple of 32 threads, or shift the lanes."
    ),
    "stride": "Let neighbouring lanes access neighbouring elements.",
    "field": "Accesses to a structure of arrays, one array per field, would be contiguous.",
    "gather": "Sort the indices, or load the data contiguously into shared memory first.",
    "runs": (
        "Make the runs longer: launch blocks of 32 threads along x whose lanes step along the "
        "last axis of the array."
    ),
    "partial": "Let all lanes of a warp take the same branch, for example by sorting the work.",
}
_FIXES_OF_SCATTERED = {
    "store": "Sort the stores by address, or order the data in shared memory first.",
    "reduction": "Sort the updates by address, or add up in shared memory first.",
    "atomic": "Sort the updates by address, or add up in shared memory first.",
}
_PIECES = "A bulk copy, or a row of a box, begins or ends inside a 32-byte sector."
_FIX_OF_PIECES = (
    "Let it begin at a multiple of 32 bytes of global memory, and copy a multiple of 32 bytes."
)
_FIX_OF_CONSTANTS = (
    "Put tables that each lane indexes differently into global memory, or copy them to shared "
    "memory."
)
_FIX_OF_WORDS = "Let neighbouring lanes access neighbouring words."
_FIX_OF_UPDATES = (
    "Lanes that update the same address are served one after the other: combine their values in "
    "the warp or the block first."
)
_FIX_OF_DATA = (
    "If the addresses depend on the data, padding does not help. Several copies of the array do: "
    "let the lanes use the copies in turn."
)
_FIX_OF_AXIS = (
    "Let threadIdx.x count along the last axis of the array, or load a tile through shared memory."
)


def wasteful(access: Access) -> bool:
    """Whether the access costs clearly more than an access to adjacent elements."""
    return access.cost > TOLERANCE * access.ideal


def contended(access: Access) -> bool:
    """Whether all lanes of a warp update the same address with an atomic operation."""
    pattern = access.pattern
    updates = access.kind in ("atomic", "reduction")
    return updates and pattern is not None and pattern.kind == "broadcast"


def shares_words(access: Access) -> bool:
    """Whether an atomic on shared memory is slow because several lanes update the same word.

    An atomic can also be slow because of a bank conflict: lanes update different words of the same
    bank. Then the result is False.
    """
    pattern = access.pattern
    atomic = access.space == "shared" and access.kind == "atomic"
    return atomic and wasteful(access) and pattern is not None and pattern.kind == "groups"


def split(access: Access) -> bool:
    """Whether an access is slow only because shared memory serves parts of the warp one by one.

    For 8 or 16 bytes per lane, these parts are the halves or the quarters of a warp. See
    `Example.split`.
    """
    return access.example is not None and access.example.split and wasteful(access)


def sentence(access: Access) -> str:
    """Return text about an access: which addresses its lanes use, and how to lower a high cost."""
    return " ".join(filter(None, _parts(access)))


def with_sentences(accesses: Sequence[Access]) -> Iterator[tuple[Access, str]]:
    """Yield an (access, text) pair for each access of a line. The text describes the access.

    A text consists of sentences. If a sentence fits several accesses, only the first access gets
    this sentence.
    """
    seen: set[str] = set()
    for access in accesses:
        parts = [part for part in _parts(access) if part not in seen]
        if worth_a_sentence(access):
            seen.update(parts)
        yield access, " ".join(filter(None, parts))


def remarks(access: Access, text: str) -> str:
    """Return what a report shows below an access: `text`, and a sentence about merged accesses.

    `text` is left out if the access is not worth a sentence. The sentence about merged accesses is
    left out if no accesses were merged. So the result may be empty.
    """
    return " ".join(filter(None, (text * worth_a_sentence(access), access.merge_note)))


def worth_a_sentence(access: Access) -> bool:
    """Whether a report should describe an access.

    A report should describe it if both conditions are true:

    - The access is wasteful, or all lanes of a warp update the same address.
    - The access takes at least 1 % of the kernel's sectors. For shared memory, it takes at least
      1 % of the kernel's wavefronts (cycles of shared memory).
    """
    return (wasteful(access) or contended(access)) and access.share >= 0.01


def remedy(access: Access) -> str:
    """Return only what to do about an access, in one or two sentences."""
    pattern = access.pattern
    if pattern is not None and pattern.kind == "stride" and pattern.axis is not None:
        return _FIX_OF_AXIS
    return _parts(access)[1].removeprefix(_same_bank(access.example))


def _parts(access: Access) -> tuple[str, str]:
    """Describe where the lanes access memory, and what to do if this costs too much."""
    if access.space == "local":
        how = "This is an array that a thread indexes at run time, or spilled registers."
        return how, ""
    if access.space == "constant":
        if not wasteful(access):
            return "", ""
        of_array = f" of {access.array}" * bool(access.array)
        return f"{access.takes}{of_array} per request, one after the other.", _FIX_OF_CONSTANTS
    pattern = access.pattern
    if access.kind.startswith("tma_"):
        return (_PIECES, _FIX_OF_PIECES) if wasteful(access) else ("", "")
    if pattern is None:
        if not wasteful(access):
            return "", ""
        return f"{access.takes} per request; {number(access.needed_per_request)} would suffice.", ""
    if contended(access):
        how = "The lanes update the same address, one after the other."
        return how, "Combining their values in the warp first leaves one update."
    if not wasteful(access):
        return pattern.text, ""
    if shares_words(access):
        return "Some lanes of a warp update the same word.", _FIX_OF_UPDATES
    if split(access):
        groups = "halves" if access.width == 8 else "quarters"
        how = (
            f"No bank conflict, but few lanes are active: the {groups} of the warp are served one "
            "after the other, each in its own wavefront."
        )
        return how, _FIXES["partial"]
    how = pattern.text
    if pattern.kind == "gather" and access.kind in _FIXES_OF_SCATTERED:
        how = how.replace("gather from", "scatter to")
    if not all(e.wastes for row in access.instructions for e in distinct(row.examples)):
        how = f"In some requests: {how[0].lower()}{how[1:]}"
    return how, _fix(access, pattern)


def _fix(access: Access, pattern: Pattern) -> str:
    if pattern.kind == "stride" and pattern.axis is not None:
        return f"{_conflict_in_l1(access, pattern)}{_FIX_OF_AXIS}"
    if pattern.kind == "groups" and access.kind in ("atomic", "reduction"):
        return _FIX_OF_UPDATES
    if pattern.kind == "gather" and access.kind in _FIXES_OF_SCATTERED:
        return _FIXES_OF_SCATTERED[access.kind]
    if pattern.kind == "conflict":
        return _FIX_OF_DATA if not pattern.regular else _fix_of_conflict(access, pattern)
    return _FIXES.get(pattern.kind, "")


def _conflict_in_l1(access: Access, pattern: Pattern) -> str:
    """Say that the length of the rows makes a request slow in L1, if it does.

    The data of L1 are in 32 banks, as in shared memory. If a row has a multiple of 32 words, all
    words of a column are in one bank, and each pass delivers only one of them. For example, a load
    down a column of floats takes 32 passes with rows of 4,096 elements, and about 9 with rows of
    4,097. (The model of L1 is described in docs/models.md.)
    """
    example, step = access.example, pattern.stride_bytes
    if example is None or example.array is None or step is None or access.width > _WIDEST_LOAD:
        return ""
    length, item = example.array.shape[-1], np.dtype(example.array.dtype).itemsize
    if step % (length * item):
        return ""
    places = [address - example.array.address for address in example.active]
    padded = [place // (length * item) * item + place for place in places]
    now, longer = (
        _passes_of_l1(tuple(place - min(lanes) for place in lanes), access.width)
        for lanes in (places, padded)
    )
    if now < _CLEARLY_SLOWER * longer:
        return ""
    return (
        f"Rows of {length:,} elements put these words into few of the 32 banks of L1: a request "
        f"takes about {now:.0f} passes. With rows of {length + 1:,} elements, it takes about "
        f"{longer:.0f} (modelled). "
    )


@cache
def _passes_of_l1(lanes: tuple[int, ...], width: int) -> float:
    """Return how many passes L1 needs for lanes at these distances from the first one, in bytes.

    The result is the mean over requests that begin at different words, as in a loop along a row.
    """
    starts = range(0, _LINES * model.LINE_BYTES, WORD_BYTES)
    passes = [model.l1_cycles([start + lane for lane in lanes], width)[1] for start in starts]
    return sum(passes) / len(passes)


def _fix_of_conflict(access: Access, pattern: Pattern) -> str:
    """Say how to remove a bank conflict.

    If the rows of the array are known, padding is proposed only if it removes the conflict: see
    `Access.padding`.
    """
    step, padding, example = pattern.stride_bytes, access.padding, access.example
    whole_rows = step is not None and step % _ROW_OF_BANKS == 0
    if padding is None or example is None or example.array is None:
        if step is None or (example and example.array and len(example.array.shape) > 1):
            return f"{_same_bank(example)}{_FIX_OF_WORDS}"
        if not whole_rows:
            return _FIX_OF_WORDS
        # The rows are not known, for example in dynamic shared memory.
        words = abs(step) // WORD_BYTES + max(1, access.widest // WORD_BYTES)
        return (
            f"{_FIX_OF_WORDS} If this distance is the length of a row, pad the rows to {words:,} "
            "words."
        )
    array, more = example.array, padding.elements
    length = array.shape[-1]
    if more and padding.ways == 1:
        if not whole_rows or length * np.dtype(array.dtype).itemsize % _ROW_OF_BANKS:
            return f"Pad the rows of the array to {length + more} elements."
        elements = "one element" if more == 1 else f"{more} elements"
        return f"Pad the rows of the array by {elements}, or swizzle its columns."
    helps = (
        f"Rows of {length + more} elements would only reduce the conflict to {padding.ways}-way."
        if more
        else "Padding the rows of the array does not help."
    )
    return f"{_same_bank(example)}{_FIX_OF_WORDS} {helps}"


def _same_bank(example: Example | None) -> str:
    """Return a sentence that names two lanes with different words of the same bank, or ""."""
    lanes = None if example is None else example.same_bank
    if example is None or lanes is None:
        return ""
    what = "different words of the same bank"
    array, addresses = example.array, [example.addresses[lane] for lane in lanes]
    if array is not None and all(0 <= a - array.address < array.nbytes for a in addresses):
        first, second = map(array.element, addresses)
        what = f"{first} and {second}, which are in the same bank"
    return f"Lanes {lanes[0]} and {lanes[1]} access {what}. "
