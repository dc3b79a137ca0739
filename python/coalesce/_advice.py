"""Sentences: what an access costs in words and, where it costs too much, what to do about it."""

from __future__ import annotations

from coalesce._rows import Access, number

# How much more than its ideal an access may cost before it is called wasteful.
TOLERANCE = 1.05


def wasteful(access: Access) -> bool:
    """Whether the access takes more sectors or wavefronts than its elements packed would."""
    return access.cost > TOLERANCE * access.ideal


def sentence(access: Access) -> str:
    """Return what an access does and, where that costs, the fix."""
    if access.space == "shared":
        if not wasteful(access):
            return "No bank conflict."
        return (
            f"{number(access.conflict)}-way bank conflict: the lanes' words fall on few of the 32 "
            "banks. Pad the rows of the array by one element, or swizzle."
        )
    if wasteful(access):
        return (
            f"{access.takes} a request where {number(access.needed_per_request)} would do; "
            f"{access.efficiency:.0%} of the bytes moved are used."
        )
    return "As few sectors as possible."
