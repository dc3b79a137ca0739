"""Describes a wrong result: transposed, mirrored, shifted, doubled or partly missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def close(out: Array, expected: Array) -> NDArray[np.bool_]:
    """Return which elements are right."""
    return np.isclose(out, expected, rtol=1e-4, atol=1e-5)


def described(out: Array, expected: Array, known: Sequence[tuple[str, Array]] = ()) -> str:
    """Describe a wrong result in a sentence, if it looks like a known mistake; else return "".

    `known` has mistakes of this exercise: a sentence, and the result that the mistake gives.
    """
    written = ~np.isnan(out) if out.dtype.kind == "f" else np.ones(out.shape, bool)
    wrong = ~close(out, expected)
    if not written.any():
        return "Nothing was written at all. Does any thread reach the store?"
    if wrong.sum() == (~written).sum():
        return (
            "What was written is right, but some elements were not written. Do the indices of all "
            "threads together cover the array, also where it is no multiple of the block?"
        )
    for sentence, variant in [*known, *_variants(expected)]:
        if variant.size == out.size and close(out.ravel(), variant.ravel()).all():
            return sentence
    return _scaled(out, expected) or _permuted(out, expected) or _edges(wrong)


def _variants(expected: Array) -> list[tuple[str, Array]]:
    """Return results of common mistakes, each with its sentence."""
    found = []
    if expected.ndim == 2:
        found += [
            (
                "The result is transposed: rows and columns have changed places in an index.",
                expected.T,
            ),
            (
                "The result is upside down: the rows are in reverse order.",
                expected[::-1],
            ),
            (
                "The result is mirrored: the columns are in reverse order.",
                expected[:, ::-1],
            ),
            (
                "The result is turned by 180 degrees: rows and columns are in reverse order.",
                expected[::-1, ::-1],
            ),
            (
                "The result is transposed and its rows are in reverse order.",
                expected.T[::-1],
            ),
            (
                "The result is transposed and its columns are in reverse order.",
                expected.T[:, ::-1],
            ),
        ]
    if expected.ndim == 3:
        found.append(
            (
                "The axes are in reverse order: x must run fastest, then y, then z.",
                np.broadcast_to(
                    np.arange(expected.size).reshape(expected.shape[::-1]).T, expected.shape
                ),
            )
        )
    flat = expected.ravel()
    found += [
        ("All elements are one place too early. Is an index off by one?", np.roll(flat, -1)),
        ("All elements are one place too late. Is an index off by one?", np.roll(flat, 1)),
        ("The elements are in reverse order.", flat[::-1]),
    ]
    return found


def _scaled(out: Array, expected: Array) -> str:
    """Recognize one factor in all elements."""
    good = np.isfinite(out) & (expected != 0)
    if not good.any() or not np.isfinite(out).all():
        return ""
    factors = out[good] / expected[good]
    if not np.allclose(factors, factors.flat[0], rtol=1e-3):
        return ""
    factor = float(factors.flat[0])
    if factor == 0:
        return "All elements are 0. Does the kernel store what it computed?"
    reason = "Is something added several times?" if factor > 1 else "Is a part left out?"
    return f"Each element is {factor:.4g} times the right value. {reason}"


def _permuted(out: Array, expected: Array) -> str:
    """Recognize the right values in wrong places."""
    if not np.isfinite(out).all() or np.unique(expected).size < 2:
        return ""
    if close(np.sort(out.ravel()), np.sort(expected.ravel())).all():
        return "The values are right, but in the wrong places. Check the index of the store."
    return ""


def _edges(wrong: NDArray[np.bool_]) -> str:
    """Recognize wrong elements at the end of an axis only."""
    for axis, name in zip(range(wrong.ndim), ("row", "column"), strict=False):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        places = np.flatnonzero(wrong.any(axis=others) if others else wrong)
        if (
            places.size
            and places[0] > wrong.shape[axis] / 2
            and places[-1] == wrong.shape[axis] - 1
        ):
            what = name if wrong.ndim == 2 else "element"
            return (
                f"Only from {what} {places[0]} on something is wrong. Look at the last block, "
                "where the array ends."
            )
    return ""
