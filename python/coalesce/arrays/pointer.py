"""Pointers to elements of NumPy arrays, as arguments of kernels.

In a CUDA program, you pass a pointer such as `x + r` to a kernel. In Python, you pass a `Pointer`.

You can also pass a view such as `x[r:]`. The kernel may then access the whole base array `x`. For
some views, it may access only the view itself: see `whole_of`.
"""

from __future__ import annotations

import math
import mmap
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce.common import require
from coalesce.common.words import plural


@dataclass(frozen=True, eq=False)
class Pointer:
    """A pointer to an element of an array, as an argument of a kernel.

    The function `pointer` returns such an object.

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
    """Return a pointer to an element of an array.

    A kernel that gets this pointer may access the whole array.

    In CUDA C++, you can pass ``d_x + r`` to a kernel. The kernel can then also read the element
    before this address, for example at the edge of a stencil. In Python, pass the view ``x[r:]`` or
    ``coalesce.pointer(x, r)``. Reports and error messages count the elements from the start of `x`.

    The argument decides what the kernel may access:

    - A kernel that gets the view ``x[r:]`` may access all of `x`.
    - A kernel that gets ``coalesce.pointer(x[r:], 0)`` may access only the elements of ``x[r:]``.
      An access to any other element of `x` is out of bounds. Use this to find the mistakes of a
      kernel that should stay inside a view.

    **Views.** A kernel that gets a C-contiguous view of a NumPy array may access the whole base.
    The view may have another shape or dtype than the base. The base is the outermost array to which
    the elements belong. If the argument is one of the following arrays, the kernel may access only
    the elements of this array:

    - strided views, such as ``x[::2]``, and transposed arrays: the kernel gets a copy;
    - views of an array in a mapped file (``numpy.memmap``), because a file may be very large;
    - empty views, because NumPy does not keep their position;
    - a writable view of a base that is read-only;
    - arrays of other libraries, and arrays over the memory of another object, such as bytes.

    **On a GPU.** The whole base is copied to the GPU, and back if the kernel may write to it. This
    takes time and memory if the base is much larger than the view. In this case, pass a copy of the
    view, or ``coalesce.pointer(x[r:], 0)``. All elements of the view are copied back. Elements
    outside the view are copied back only if the kernel has changed them. So several threads of a
    Python program may launch kernels on different views of `x` at the same time: no thread
    overwrites the results of another thread.

    Parameters
    ----------
    array : numpy.ndarray
        A C-contiguous array of any shape. If the kernel runs on a GPU, the whole array is copied to
        the GPU. It is copied back if the kernel may write to it. For an array that is already in
        device memory, you do not need this function. Pass ``x[r:]``; the kernel may then access all
        of `x`.
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
            f"`array` must be a NumPy array; got {require.shown(array)}. For an array x in device "
            "memory, pass a slice such as x[r:] to the kernel instead of a pointer"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"`array` is not C-contiguous (strides {array.strides}), so its elements do not follow "
            "each other in memory; pass numpy.ascontiguousarray(array)"
        )
    places = [_integer(number) for number in index]
    whole = (array.size + 1,) if len(places) == 1 else array.shape
    if len(places) != len(whole):
        raise IndexError(
            f"`index` must be one integer, or {plural(array.ndim, 'integer')}: one for each axis "
            f"of shape {array.shape}; got {plural(len(places), 'integer')}"
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
    raise TypeError(f"`index` must consist of integers; got {require.shown(value)}")


def whole_of(view: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int] | None:
    """Return the base array of a view, and the offset of the view in this array in bytes.

    `view` is C-contiguous and aligned. A view such as ``x[r:]`` is passed like ``d_x + r`` in a
    CUDA program: a kernel that gets the view may access the whole base array `x`. This function
    returns `x` as an array with the dtype of the view. If some bytes at the start or the end of `x`
    do not make up a whole element of this dtype, the returned array leaves out these bytes.

    The result is None if the kernel may access only `view` itself. These are the cases:

    - `view` has no base array.
    - `view` has all bytes of its base.
    - `view` is empty. (NumPy does not keep the position of an empty view.)
    - The memory of the base belongs to a file (`numpy.memmap`), which may be very large.
    - The base is read-only, but the view is not.
    - The base is not one contiguous block of memory, or the view is not inside it.
    """
    base = view
    while isinstance(base.base, np.ndarray):
        base = base.base
    owner: Any = base.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if base is view or isinstance(owner, mmap.mmap) or base.dtype.hasobject or not view.nbytes:
        return None
    base = base.view(np.ndarray)
    if not base.flags.c_contiguous:
        base = base.T
    if not base.flags.c_contiguous or (view.flags.writeable and not base.flags.writeable):
        return None
    start = _address(view) - _address(base)
    if not 0 <= start <= base.nbytes - view.nbytes or view.nbytes == base.nbytes:
        return None
    first = start % view.itemsize
    last = base.nbytes - (base.nbytes - first) % view.itemsize
    whole = base.reshape(-1).view(np.uint8)[first:last].view(view.dtype)
    whole = whole.reshape(_shape(view, base, first, start - first, whole.size))
    whole.flags.writeable = view.flags.writeable
    return whole, start - first


def _shape(
    view: np.ndarray[Any, Any], base: np.ndarray[Any, Any], first: int, offset: int, size: int
) -> tuple[int, ...]:
    """Return the shape in which reports count the elements of the base.

    If possible, it is the shape of the base. If the caller changed the shape, as in
    ``x.reshape(64, 32)[1:]``, it has the rows of the view. Otherwise, it has one dimension.
    `first` is the number of bytes left out at the start, and `offset` is the offset of the view.
    `size` is the number of elements.
    """
    row = view.shape[1:]
    if base.dtype == view.dtype and first == 0 and base.shape[base.ndim - len(row) :] == row:
        return tuple(base.shape)
    length = math.prod(row)
    if length and size % length == 0 and offset // view.itemsize % length == 0:
        return (size // length, *row)
    return (size,)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
