"""Writes counts as text, in the singular or the plural."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return a count and a noun as text, such as "1 sector" or "2 sectors"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def numbers_of(whose: str, noun: str, count: int) -> str:
    """Say which numbers things have: "a block's 4 warps have the numbers 0 to 3".

    For one thing, the text is "a block's only warp has the number 0". `whose` is the first part of
    the text, such as "a block's".
    """
    if count == 1:
        return f"{whose} only {noun} has the number 0"
    return f"{whose} {count} {noun}s have the numbers 0 to {count - 1}"
