"""Computes which part of a device array an index such as ``x[2, 3:5]`` selects."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from coalesce.arrays.gpu_array import c_strides


def part(shape: tuple[int, ...], dtype: np.dtype[Any], index: Any) -> tuple[tuple[int, ...], int]:
    """Return the shape of ``array[index]``, and its offset in bytes from the start of the array.

    `array` is any C-contiguous array of this shape and dtype. For example, the result of
    ``part((4, 8), np.dtype("float32"), 2)`` is ``((8,), 64)``.

    Raises
    ------
    IndexError
        The selected part is not contiguous, or the index is out of range.
    """
    items = tuple(_basic_index(i) for i in (index if isinstance(index, tuple) else (index,)))
    # Let NumPy apply its own rules for indices: index an array of this shape that has no memory.
    blank = np.lib.stride_tricks.as_strided(
        np.zeros(1, dtype), shape, c_strides(shape, dtype.itemsize)
    )
    chosen = blank[items if Ellipsis in items else (*items, Ellipsis)]  # never an element
    if not chosen.flags.c_contiguous:
        raise IndexError(
            f"index {index!r} selects elements that are not contiguous in the array of shape "
            f"{shape}. A device array supports only contiguous parts, such as x[2] or x[1:3]; for "
            "other parts, call get() first"
        )
    start = blank.__array_interface__["data"][0]
    return chosen.shape, chosen.__array_interface__["data"][0] - start if chosen.size else 0


def _basic_index(item: Any) -> Any:
    """Check one item of an index, and return it.

    An integer of any type is returned as an int. None, an ellipsis and a slice are returned
    unchanged. Any other item, such as an array, raises TypeError.
    """
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if not isinstance(item, bool | np.bool_ | np.ndarray):
        try:
            return operator.index(item)
        except TypeError:
            pass
    raise TypeError(
        f"the indices of a device array must be integers or slices; got {type(item).__name__}. For "
        "other indices, call get() first: it returns a NumPy array"
    )
