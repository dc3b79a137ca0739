"""Checks of arguments.

Each function checks one argument and returns its value. In all of them, `name` is the name of the
argument and `value` is what the user passed. If the value is wrong, the function raises a TypeError
or a ValueError. The message names the argument, the passed value and what is needed.

All error messages of the package follow one rule: the name of an argument, an option or an
attribute of the Python API stands in backticks, as in "`runs` must be a positive int; got 0". So
nobody reads the name as an ordinary word. Options of the command line (--size) and whole
expressions (check=True) need no backticks.

An argument may also be an object of another library. Such an object may raise any exception when it
is read. Therefore code that reads such an object runs inside ``with reading(...)``.
"""

from __future__ import annotations

import itertools
import math
import numbers
import operator
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

# More than any call needs. Some sequences never end, and some would not fit into memory.
_MOST_ITEMS = 1 << 20


@contextmanager
def reading(name: str, value: Any) -> Iterator[None]:
    """Replace any exception of the ``with`` block by a TypeError that names the argument.

    KeyboardInterrupt (Ctrl-C), SystemExit and MemoryError are not replaced.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as error:
        raise TypeError(
            f"{quoted(name)} cannot be read: {type(value).__name__} raised "
            f"{type(error).__name__}: {error}"
        ) from error


def quoted(name: str) -> str:
    """Return the name of an argument in backticks, for an error message.

    For example, the result for "runs" is "`runs`".

    A phrase, such as "the array" or "argument `x` (float *)", is returned unchanged.
    """
    return name if " " in name or "`" in name else f"`{name}`"


def shown(value: Any, most: int = 60) -> str:
    """Describe a value for an error message: ``"int 3"``.

    The text has the type of the value and its repr. If the repr has more than `most` characters or
    several lines, the text has only the type.
    """
    kind = type(value).__name__
    try:
        text = repr(value)
    except Exception:
        return kind
    return f"{kind} {text}" if len(text) <= most and "\n" not in text else kind


def text(name: str, value: Any, *, what: str = "a string") -> str:
    """Check that a value is a string, and return it.

    In the error message, `what` describes the needed value, such as "a file name".
    """
    if not isinstance(value, str):
        raise TypeError(f"{quoted(name)} must be {what}; got {shown(value)}")
    return value


def choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Check that a value is one of the strings in `choices`, and return it."""
    wanted = ", ".join(repr(one) for one in choices)
    if not isinstance(value, str):
        raise TypeError(f"{quoted(name)} must be one of {wanted}; got {shown(value)}")
    if value not in choices:
        raise ValueError(f"{quoted(name)} must be one of {wanted}; got {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    """Check that a value is True or False, and return it. NumPy's booleans are accepted, too."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{quoted(name)} must be True or False; got {shown(value)}")
    return bool(value)


def integer(name: str, value: Any) -> int:
    """Check that a value is an integer, and return it as an int.

    Any integer type is accepted, such as `numpy.int32`, but not bool.
    """
    if type(value) is int:
        return value
    if not isinstance(value, bool | np.bool_ | float | str | bytes):
        try:
            return operator.index(value)
        except Exception:
            pass
    raise TypeError(f"{quoted(name)} must be an integer; got {shown(value)}")


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Check that a value is an integer from `least` to `most`, and return it as an int.

    If `most` is None, there is no upper limit.
    """
    result = integer(name, value)
    if result < least or (most is not None and result > most):
        open_ended = most is None or (result < least and most >= 2**31 - 1)
        limits = f"at least {least}" if open_ended else f"from {least} to {most}"
        if least == most:
            limits = str(least)
        raise ValueError(f"{quoted(name)} must be {limits}; got {result}")
    return result


def number(name: str, value: Any) -> float:
    """Check that a value is a real number, and return it as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{quoted(name)} must be a real number; got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{quoted(name)} is too large for a float64") from None


def finite(name: str, value: Any) -> float:
    """Check that a value is a finite real number, and return it as a float."""
    real = number(name, value)
    if not math.isfinite(real):
        raise ValueError(f"{quoted(name)} must be a finite number; got {real}")
    return real


def positive(name: str, value: Any) -> float:
    """Check that a value is a finite real number above 0, and return it as a float."""
    real = number(name, value)
    if not (math.isfinite(real) and real > 0):
        raise ValueError(f"{quoted(name)} must be a positive number; got {real}")
    return real


def function(name: str, value: Any, *, what: str = "a function") -> Any:
    """Check that a value is a function, or another object that can be called, and return it."""
    if not callable(value):
        raise TypeError(f"{quoted(name)} must be {what}; got {shown(value)}")
    return value


def several(name: str, value: Any, what: str = "a sequence") -> list[Any]:
    """Return the items of an iterable as a list.

    A string raises TypeError, although it is an iterable. In the error message, `what` describes
    the needed value, such as "a sequence of strings".
    """
    if isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{quoted(name)} must be {what}; got {shown(value)}")
    try:
        items = list(itertools.islice(value, _MOST_ITEMS + 1))
    except Exception:
        raise TypeError(f"{quoted(name)} must be {what}; got {shown(value)}") from None
    if len(items) > _MOST_ITEMS:
        raise ValueError(f"{quoted(name)} must have at most {_MOST_ITEMS:,} items")
    return items


def texts(name: str, value: Any) -> list[str]:
    """Return the items of a sequence of strings as a list. A single string raises TypeError."""
    items = several(name, value, "a sequence of strings")
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{quoted(name)} must contain only strings; got {shown(item)}")
    return items


def path(name: str, value: Any) -> str:
    """Return the path of a file as a string. `value` is a string or a `pathlib.Path`."""
    with reading(name, value):
        path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{quoted(name)} must be a string or a path; got {shown(value)}")
    if "\0" in path:
        raise ValueError(f"{quoted(name)} must not contain a NUL character; got {path!r}")
    return path


def one_or_several(name: str, value: Any) -> list[Any]:
    """Return the items of an iterable as a list. Any other value becomes a list of one item.

    A string also becomes a list of one item.
    """
    if isinstance(value, str | bytes | bytearray):
        return [value]
    with reading(name, value):
        try:
            items = iter(value)
        except TypeError:
            return [value]
        return list(items)


def shape(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> tuple[int, ...]:
    """Check the shape of an array, and return it as a tuple of ints.

    `value` is an integer, or a sequence of integers. The shape of an integer n is (n,). Each
    integer must be from `least` to `most`.
    """
    if isinstance(value, set | frozenset):
        raise TypeError(
            f"{quoted(name)} must be an integer or a sequence of integers; got {shown(value)}"
        )
    return tuple(whole(name, extent, least, most) for extent in one_or_several(name, value))


def limit(name: str, value: Any, what: str) -> int | None:
    """Check that a value is a positive 64-bit integer or None, and return it.

    None means no limit. In the message, `what` says what is limited: ``"blocks"``.
    """
    if value is None:
        return None
    try:
        return whole(name, value, 1, 2**63 - 1)
    except (TypeError, ValueError):
        raise ValueError(
            f"{quoted(name)} must be a positive int, or None for all {what}; got {shown(value)}"
        ) from None


def runs(value: Any) -> int | Literal["auto"]:
    """Check the argument `runs`, and return it: an int from 1 to 2**31 - 1, or "auto"."""
    if isinstance(value, str) and value == "auto":
        return "auto"
    try:
        return whole("runs", value, 1, 2**31 - 1)
    except (TypeError, ValueError):
        raise ValueError(f'`runs` must be a positive int or "auto"; got {shown(value)}') from None


def as_array(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return a value as a NumPy array. A string or bytes raises TypeError."""
    if isinstance(value, bytes | bytearray | memoryview | str):
        raise TypeError(
            f"{quoted(name)} must be an array or a sequence of numbers; got {shown(value)}"
        )
    with reading(name, value):
        return np.asarray(value)
