"""Checks of arguments. Every message names the argument, what was passed and what is needed.

Objects of other libraries may raise any exception when they are read. Therefore code that reads
them runs inside ``with reading(...)``.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np


@contextmanager
def reading(name: str, value: Any) -> Iterator[None]:
    """Turn exceptions of another library's object into a TypeError that names the argument."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as error:
        raise TypeError(
            f"{name} cannot be read: {type(value).__name__} raised {type(error).__name__}: {error}"
        ) from error


def shown(value: Any, most: int = 60) -> str:
    """Return the type of a value and, if it is short, its repr, for a message."""
    kind = type(value).__name__
    try:
        text = repr(value)
    except Exception:
        return kind
    return f"{kind} {text}" if len(text) <= most and "\n" not in text else kind


def text(name: str, value: Any, *, what: str = "a string") -> str:
    """Return a string unchanged. Raises TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {what}; got {shown(value)}")
    return value


def choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return a string that is one of `choices`."""
    wanted = ", ".join(repr(one) for one in choices)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {wanted}; got {shown(value)}")
    if value not in choices:
        raise ValueError(f"{name} must be one of {wanted}; got {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    """Return True or False. NumPy's booleans are accepted, too."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {shown(value)}")
    return bool(value)


def integer(name: str, value: Any) -> int:
    """Return an integer of any type, except bool, as an int."""
    if type(value) is int:
        return value
    if not isinstance(value, bool | np.bool_ | float | str | bytes):
        try:
            return operator.index(value)
        except Exception:
            pass
    raise TypeError(f"{name} must be an integer; got {shown(value)}")


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return an integer from `least` to `most`. Raises TypeError or ValueError for other values."""
    result = integer(name, value)
    if result < least or (most is not None and result > most):
        open_ended = most is None or (result < least and most >= 2**31 - 1)
        limits = f"at least {least}" if open_ended else f"from {least} to {most}"
        raise ValueError(f"{name} must be {limits}; got {result}")
    return result


def number(name: str, value: Any) -> float:
    """Return a real number as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number; got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float64") from None


def positive(name: str, value: Any) -> float:
    """Return a finite real number above 0."""
    real = number(name, value)
    if not (math.isfinite(real) and real > 0):
        raise ValueError(f"{name} must be a positive number; got {real}")
    return real


def several(name: str, value: Any, what: str = "a sequence") -> list[Any]:
    """Return the items of an iterable as a list. A string raises TypeError."""
    if isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{name} must be {what}; got {shown(value)}")
    try:
        return list(value)
    except Exception:
        raise TypeError(f"{name} must be {what}; got {shown(value)}") from None


def texts(name: str, value: Any) -> list[str]:
    """Return the items of a sequence of strings. A string by itself raises TypeError."""
    items = several(name, value, "a sequence of strings")
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{name} must hold strings; got {shown(item)}")
    return items


def path(name: str, value: Any) -> str:
    """Return the path of a file as a string. `value` is a string or a path object."""
    with reading(name, value):
        path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a string or a path; got {shown(value)}")
    if "\0" in path:
        raise ValueError(f"{name} has a NUL character: {path!r}")
    return path


def one_or_several(name: str, value: Any) -> list[Any]:
    """Return the items of an iterable. Any other value, or a string, becomes the only item."""
    if isinstance(value, str | bytes | bytearray):
        return [value]
    with reading(name, value):
        try:
            items = iter(value)
        except TypeError:
            return [value]
        return list(items)


def shape(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> tuple[int, ...]:
    """Return the shape of an array as a tuple. `value` is an integer or several integers."""
    if isinstance(value, set | frozenset):
        raise TypeError(f"{name} must be an integer or a sequence of integers; got {shown(value)}")
    return tuple(whole(name, extent, least, most) for extent in one_or_several(name, value))


def limit(name: str, value: Any, what: str) -> int | None:
    """Return a positive integer of at most 64 bits, or None for no limit."""
    if value is None:
        return None
    try:
        return whole(name, value, 1, 2**63 - 1)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a positive int, or None for all {what}; got {shown(value)}"
        ) from None


def runs(value: Any) -> int | Literal["auto"]:
    """Return a number of timed runs: a positive int of at most 31 bits, or "auto"."""
    if isinstance(value, str) and value == "auto":
        return "auto"
    try:
        return whole("runs", value, 1, 2**31 - 1)
    except (TypeError, ValueError):
        raise ValueError(f'runs must be a positive int or "auto"; got {shown(value)}') from None


def as_array(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return ``numpy.asarray(value)``. Raises TypeError for strings and bytes."""
    if isinstance(value, bytes | bytearray | memoryview | str):
        raise TypeError(f"{name} must be an array or a sequence of numbers; got {shown(value)}")
    with reading(name, value):
        return np.asarray(value)
