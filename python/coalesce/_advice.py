"""Sentences: how an access lies in words and, where that costs too much, what to do about it."""

from __future__ import annotations

from coalesce._pattern import Pattern
from coalesce._rows import Access, number

# How much more than its ideal an access may cost before it is called wasteful.
TOLERANCE = 1.05

_FIXES = {
    "misaligned": "Start rows at multiples of 32 bytes, or shift the lanes so that they do.",
    "stride": "Let neighbouring lanes take neighbouring elements.",
    "field": "A structure of arrays, one array a field, would be contiguous.",
    "gather": "Sort what is gathered, or load it contiguously into shared memory first.",
    "conflict": "Pad the rows of the array by one element, or swizzle its columns.",
}
_FIX_OF_AXIS = (
    "Let threadIdx.x count along the last axis of the array, or load a tile through shared memory."
)


def wasteful(access: Access) -> bool:
    """Whether the access takes more sectors or wavefronts than its elements packed would."""
    return access.cost > TOLERANCE * access.ideal


def sentence(access: Access) -> str:
    """Return how an access lies and, where that costs, the fix."""
    if access.space == "local":
        return "An array of each thread that is indexed at run time, or registers that did not fit."
    pattern = access.pattern
    if pattern is None:
        if not wasteful(access):
            return ""
        return f"{access.takes} a request where {number(access.needed_per_request)} would do."
    if access.kind in ("atomic", "reduction") and pattern.kind == "broadcast":
        return (
            "The lanes update one address, one after the other; adding up in the warp first leaves "
            "one update."
        )
    return f"{pattern.text} {_fix(pattern)}".rstrip() if wasteful(access) else pattern.text


def _fix(pattern: Pattern) -> str:
    if pattern.kind == "stride" and pattern.axis is not None:
        return _FIX_OF_AXIS
    return _FIXES.get(pattern.kind, "")
