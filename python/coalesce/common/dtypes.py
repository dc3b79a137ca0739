"""Element types of arrays.

An element type has a name in NumPy, such as "float32", and a short code, such as "f4". Other
libraries describe their GPU arrays by ``__cuda_array_interface__``, which contains the code.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from coalesce.common import require
from coalesce.common.errors import LaunchError


# NumPy takes several microseconds for the text of a dtype, and every launch needs some of them.
@functools.lru_cache(1000)
def text_of(dtype: np.dtype[Any]) -> str:
    """Return ``str(dtype)``."""
    return str(dtype)


@functools.lru_cache(1000)
def code_of(dtype: np.dtype[Any]) -> str:
    """Return the code of a dtype, such as "f4" for float32. The code of bfloat16 is "V2"."""
    return "V2" if dtype.name == "bfloat16" else dtype.str[1:]


def dtype_name(code: str) -> str:
    """Return NumPy's name for the code of an element type: "float32" for "f4".

    A code that NumPy does not know is returned unchanged.
    """
    if code == "V2":
        return "bfloat16"
    try:
        return str(np.dtype(code).name)
    except TypeError:
        return code


def to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a float32 array rounded to bfloat16: to the nearest number, ties to even.

    The dtype of the result is "V2", two raw bytes per element. Such an array does not need the
    package ml_dtypes, but NumPy cannot compute with it.
    """
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return rounded.astype(np.uint16).view("V2")


def from_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a bfloat16 array as float32. The values are the same."""
    bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32)
    return (bits << 16).view(np.float32)


def is_native(dtype: np.dtype[Any]) -> bool:
    """Return whether all numbers of a dtype are in this machine's byte order.

    NumPy's `isnative` is not enough for structured dtypes: it ignores fields that are arrays.
    """
    return dtype.isnative and (dtype.names is None or dtype == dtype.newbyteorder("="))


def number_type(value: Any) -> np.dtype[Any]:
    """Return a NumPy dtype: ``np.dtype("float32")`` for "float32" or ``np.float32``.

    `value` must name a type of numbers that kernels can use: at most 16 bytes, in this machine's
    byte order. For any other `value`, TypeError is raised.
    """
    if isinstance(value, np.generic | np.ndarray):  # NumPy would use its dtype
        raise TypeError(f"`dtype` must name a type of numbers; got {require.shown(value)}")
    try:
        if isinstance(value, str) and not value.isprintable():
            raise ValueError
        dtype: np.dtype[Any] = np.dtype(value)
    except Exception:
        raise TypeError(
            f"`dtype` must name a type of numbers, such as numpy.float32; got "
            f"{require.shown(value)}"
        ) from None
    if dtype.kind not in "biufc" or not dtype.isnative or dtype.itemsize > 16:
        raise TypeError(
            "`dtype` must be a type of numbers of at most 16 bytes, in this machine's byte order; "
            f"got {dtype!r}"
        )
    return dtype


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the size of an array in bytes.

    If the size is 2**62 bytes or more, raise LaunchError: no device has so much memory.
    """
    size = math.prod(shape) * dtype.itemsize
    if size >= 2**62:
        raise LaunchError(
            f"out of memory: an array of shape {shape}, dtype {dtype}, needs {size} bytes"
        )
    return size
