"""Copies of arrays for simulations that must not change the caller's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ArrayCopies:
    """Copies of several arrays. If two of the arrays share memory, their copies share memory, too.

    After pickling, the copies still share memory. (If you pickle NumPy arrays that share memory,
    the unpickled arrays do not share memory.)
    """

    # The bytes of the arrays. Arrays that share memory have their bytes in the same item.
    memory: tuple[np.ndarray[Any, np.dtype[np.uint8]], ...]
    # For each array: the index of its item in `memory`, the position of its first byte in this
    # item, its shape, its dtype, and whether it may be written.
    places: tuple[tuple[int, int, tuple[int, ...], np.dtype[Any], bool], ...]

    @classmethod
    def of(cls, arrays: Sequence[Array], writable: Sequence[bool]) -> ArrayCopies:
        """Make copies of C-contiguous arrays.

        `writable` says for each array whether the simulation may write to it. Memory that the
        simulation only reads is not copied.
        """
        order = sorted(range(len(arrays)), key=lambda i: _start(arrays[i]))
        groups: list[tuple[int, int, list[int]]] = []  # start, end and arrays of each group
        for i in order:
            start, end = _start(arrays[i]), _start(arrays[i]) + arrays[i].nbytes
            if groups and start < groups[-1][1]:
                first, last, members = groups[-1]
                groups[-1] = (first, max(last, end), [*members, i])
            else:
                groups.append((start, end, [i]))
        memory = []
        places: list[Any] = [None] * len(arrays)
        for start, end, members in groups:
            memory.append(_join([arrays[i] for i in members], start, end))
            if any(writable[i] for i in members):
                memory[-1] = memory[-1].copy()
            for i in members:
                a = arrays[i]
                place = (len(memory) - 1, _start(a) - start, a.shape, a.dtype, bool(writable[i]))
                places[i] = place
        return cls(tuple(memory), tuple(places))

    def arrays(self) -> list[Array]:
        """Return the copies as NumPy arrays. They are views of `memory`."""
        views = []
        for number, first, shape, dtype, writable in self.places:
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            view = self.memory[number][first : first + size].view(dtype).reshape(shape)
            view.flags.writeable = writable and view.flags.writeable
            views.append(view)
        return views

    def copy(self) -> ArrayCopies:
        """Return a copy of this object. Memory that the simulation only reads is not copied."""
        written = {number for number, *_, writable in self.places if writable}
        memory = (m.copy() if i in written else m for i, m in enumerate(self.memory))
        return ArrayCopies(tuple(memory), self.places)


def in_c_order(name: str, array: Array, dtype: Any = None) -> Array:
    """Return a copy in C order of an array that a caller passed.

    A small array may have very many elements, if it is a broadcast array. If its copy does not fit
    in the memory, the MemoryError names the array. `name` is its name in the message.
    """
    try:
        return np.array(array, dtype, order="C", copy=True, ndmin=array.ndim)
    except MemoryError:
        raise MemoryError(
            f"{name} has shape {array.shape} and strides {array.strides}, so the kernel needs a "
            f"copy of {array.nbytes:,} bytes in C order, which does not fit in the memory. Pass a "
            "smaller array"
        ) from None


def elements_overlap(array: Array) -> bool:
    """Return whether two elements of a NumPy array share memory.

    For example, ``numpy.lib.stride_tricks.as_strided`` can return such an array.
    """
    axes = sorted(
        (abs(stride), extent)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    )
    if array.size < 2 or array.flags.c_contiguous:
        return False
    span, nested = array.itemsize, True  # the bytes of an element, then of a row, ...
    for stride, extent in axes:
        nested = nested and stride >= span
        span += stride * (extent - 1)
    if nested:
        return False
    if array.size * array.itemsize > span:
        return True  # more elements than there is room for
    offsets = np.zeros(1, np.int64)
    for stride, extent in axes:
        offsets = (offsets[:, np.newaxis] + np.arange(extent) * stride).ravel()
    return bool((np.diff(np.sort(offsets)) < array.itemsize).any())


def _start(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _join(arrays: Sequence[Array], start: int, end: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of memory from start to end.

    If one array contains all these bytes, the result is a view of the array. Otherwise the result
    is a copy of the bytes of several arrays.
    """
    flat = [array.reshape(-1).view(np.uint8) for array in arrays]
    for bytes_ in flat:
        if bytes_.nbytes == end - start:
            return bytes_
    joined = np.empty(end - start, np.uint8)
    for array, bytes_ in zip(arrays, flat, strict=True):
        first = _start(array) - start
        joined[first : first + bytes_.nbytes] = bytes_
    return joined
