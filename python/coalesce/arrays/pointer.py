"""Pointers to elements of NumPy arrays, as arguments of kernels: `x + r` in a CUDA program."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce.common import require


@dataclass(frozen=True, eq=False)
class Pointer:
    """A pointer to an element of an array, as an argument of a kernel. `pointer` makes it.

    Attributes
    ----------
    array : numpy.ndarray
        The whole array. It is C-contiguous.
    offset : int
        The position of the element in the array, counted in elements (C order).

    Examples
    --------
    >>> coalesce.pointer(a, 1, 0).offset  # the rows have 8 elements
    8
    """

    array: np.ndarray[Any, Any]
    offset: int


def pointer(array: np.ndarray[Any, Any], *index: int) -> Pointer:
    """Return a pointer to an element of an array. A kernel that gets it may access the whole array.

    In CUDA C++, you can pass ``d_x + r`` to a kernel. The kernel can then also read the element
    before this address, for example at the edge of a stencil. To do the same, pass
    ``coalesce.pointer(x, r)``. The slice ``x[r:]`` of a NumPy array would not work: an access to
    the element before the slice is out of bounds. Reports and error messages count the elements
    from the start of `x`.

    Parameters
    ----------
    array : numpy.ndarray
        A C-contiguous array of any shape. For a kernel on a GPU, the whole array is copied to the
        GPU, and copied back if the kernel may write to it. For an array that is already in device
        memory, you do not need this function. Pass ``x[r:]``; the kernel may then access all of
        `x`.
    *index : int
        The index of the element: one integer for each axis, or a single integer that counts
        elements in C order. A single integer may be the size of the array, for a pointer to its
        end. Negative numbers are not allowed.

    Returns
    -------
    Pointer
        The argument for a parameter such as ``const float *x``.

    Raises
    ------
    TypeError
        `array` is not a NumPy array, or an index is not an integer.
    ValueError
        `array` is not C-contiguous.
    IndexError
        The index is outside the array, or has the wrong number of integers.

    Examples
    --------
    >>> import numpy as np
    >>> import coalesce
    >>> before = coalesce.Kernel(
    ...     '''__global__ void before(const float *x, float *y) {
    ...         y[threadIdx.x] = x[int(threadIdx.x) - 1];
    ...     }''', device="sim")
    >>> x, y = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    >>> before[1, 32](coalesce.pointer(x, 10), y)
    >>> float(y[0])
    9.0
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"array must be a NumPy array; got {require.shown(array)}. For an array x in device "
            "memory, pass a slice such as x[r:] to the kernel instead of a pointer"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"array is not C-contiguous (strides {array.strides}), so its elements do not follow "
            "each other in memory; pass numpy.ascontiguousarray(array)"
        )
    places = [_integer(number) for number in index]
    whole = (array.size + 1,) if len(places) == 1 else array.shape
    if len(places) != len(whole):
        raise IndexError(
            f"index must be one integer, or {array.ndim} integers: one for each axis of shape "
            f"{array.shape}; got {len(places)}"
        )
    for place, size in zip(places, whole, strict=True):
        if not 0 <= place < size:
            raise IndexError(
                f"index {', '.join(map(str, places))} is outside the array of shape {array.shape}"
            )
    following = [math.prod(whole[axis + 1 :]) for axis in range(len(whole))]
    return Pointer(array, sum(p * n for p, n in zip(places, following, strict=True)))


def _integer(value: Any) -> int:
    if not isinstance(value, bool | np.bool_):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"index must be integers; got {require.shown(value)}")
