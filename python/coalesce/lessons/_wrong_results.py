"""Describes a wrong result, for example as transposed, mirrored, shifted or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def close(out: Array, expected: Array) -> NDArray[np.bool_]:
    """Return a bool array: which elements of `out` are close enough to the expected ones."""
    return np.isclose(out, expected, rtol=1e-4, atol=1e-5)


def _same(out: Array, variant: Array) -> bool:
    """Return whether two results are equal. Elements that were not written (NaN) count as equal."""
    unwritten = np.isnan(out) & np.isnan(variant)
    return bool((close(out, variant) | unwritten).all())


def described(
    out: Array,
    expected: Array,
    unwritten: NDArray[np.bool_],
    known: Sequence[tuple[str, Array]] = (),
) -> str:
    """Return a sentence about the wrong result `out`: the mistake, or which elements are wrong.

    `expected` is the right result, and `unwritten` says which elements were never written. `known`
    has the results of common mistakes, as (sentence, wrong result) pairs.
    """
    wrong = ~close(out, expected)
    if unwritten.all():
        return "Nothing was written at all. Does any thread reach the store?"
    if sentence := recognized(out, expected, known):
        return sentence
    computed = ~np.isfinite(out) & ~unwritten if out.dtype.kind == "f" else np.zeros_like(wrong)
    if computed.any():
        few = f"{computed.sum():,} {'element is' if computed.sum() == 1 else 'elements are'}"
        if np.isnan(out[computed]).any():
            return (
                f"{few} nan: not a number. Is a variable, or an element of an array, used before "
                "it has a value, or is 0 divided by 0?"
            )
        return f"{few} infinite. Is a number divided by 0, or does it grow in each iteration?"
    if wrong.sum() == unwritten.sum():
        return (
            "What was written is right, but some elements were not written. Do the indices of all "
            "threads together cover the array, also where it is no multiple of the block?"
        )
    cause = _scaled(out, expected) or _permuted(out, expected)
    return cause or " ".join(filter(None, [_place(wrong), _direction(out, expected)]))


def recognized(out: Array, expected: Array, known: Sequence[tuple[str, Array]]) -> str:
    """If `out` is one of the wrong results in `known`, return the sentence about it, else "".

    `known` has the results of common mistakes, as (sentence, wrong result) pairs. `expected` is the
    right result.
    """
    for sentence, variant in [*known, *_variants(expected)]:
        if variant.size == out.size and _same(out.ravel(), variant.ravel()):
            return sentence
    return ""


def _variants(expected: Array) -> list[tuple[str, Array]]:
    """Return results of common mistakes, each with its sentence."""
    results = []
    if expected.ndim == 2:
        results += [
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
    flat = expected.ravel()
    whole = np.trunc(flat)
    if expected.dtype.kind == "f" and whole.any():
        results.append(("The fractions are missing. Is a number converted to an integer?", whole))
    results += [
        ("All elements are one place too early. Is an index off by one?", np.roll(flat, -1)),
        ("All elements are one place too late. Is an index off by one?", np.roll(flat, 1)),
        ("The elements are in reverse order.", flat[::-1]),
    ]
    for axis, name in zip(range(expected.ndim), _AXES[expected.ndim], strict=True):
        if expected.ndim > 1:
            for step, where in ((-1, "early"), (1, "late")):
                results.append(
                    (
                        f"All elements are one {name} too {where}. Is an index off by one?",
                        np.roll(expected, step, axis),
                    )
                )
    return results


def _scaled(out: Array, expected: Array) -> str:
    """Recognize a result whose elements are all wrong by the same factor."""
    good = np.isfinite(out) & (expected != 0)
    if not good.any() or not np.isfinite(out).all():
        return ""
    factors = out[good] / expected[good]
    if not np.allclose(factors, factors.flat[0], rtol=1e-3):
        return ""
    factor = float(factors.flat[0])
    if factor == 0:
        return (
            "All elements are 0. Does the kernel store what it computed? Does each loop run, and "
            "is no number converted to an integer?"
        )
    large = max(abs(factor), 1 / abs(factor))
    if np.ptp(expected) == 0 and not np.isclose(large, max(2, round(large)), rtol=1e-3):
        return ""  # each wrong constant is a multiple of the right one
    reason = "Is something added several times?" if factor > 1 else "Is a part left out?"
    return f"Each element is {factor:.4g} times the right value. {reason}"


def _permuted(out: Array, expected: Array) -> str:
    """Recognize a result with the right values in wrong places."""
    if not np.isfinite(out).all() or np.unique(expected).size < 2:
        return ""
    if close(np.sort(out.ravel()), np.sort(expected.ravel())).all():
        return "The values are right, but in the wrong places. Check the indices."
    return ""


def _place(wrong: NDArray[np.bool_]) -> str:
    """If only some rows or columns have wrong elements, say which."""
    for axis, name in zip(range(wrong.ndim), _AXES[wrong.ndim], strict=True):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        places = np.flatnonzero(wrong.any(axis=others) if others else wrong)
        count = wrong.shape[axis]
        if not 0 < places.size < count:
            continue
        first, last = int(places[0]), int(places[-1])
        if places.size != last - first + 1:
            continue  # not one range
        if last == count - 1:
            if first > count / 2:
                return (
                    f"Only from {name} {first} on something is wrong. Look at the last block, "
                    "where the array ends."
                )
            return (
                f"Everything before {name} {first} is right. What changes there: the block, the "
                "tile, or a part of the index?"
            )
        if first == 0:
            return f"Everything after {name} {last} is right. What is special before?"
    return ""


def _direction(out: Array, expected: Array) -> str:
    """Say whether the wrong elements are too small or too large.

    If all elements are wrong by the same amount, also say by how much.
    """
    wrong = ~close(out, expected) & np.isfinite(out)
    difference = out[wrong].astype(float) - expected[wrong]
    if not difference.size:
        return ""
    word = "large" if difference[0] > 0 else "small"
    if (difference > 0).any() and (difference < 0).any():
        return "Compute the first wrong element by hand. Which index do you get?"
    if wrong.all() and np.allclose(difference, difference[0], rtol=1e-3):
        reason = "Does the count begin at 0 or at 1?" if out.dtype.kind == "i" else ""
        return f"Each element is {abs(difference[0]):.4g} too {word}. {reason}".rstrip()
    reason = "counted several times" if word == "large" else "left out"
    return f"All wrong elements are too {word}. Is a part {reason}?"


_AXES = {1: ("element",), 2: ("row", "column"), 3: ("layer", "row", "column")}
