"""A description of an array in a GPU's memory: its address, shape, dtype and so on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


def c_strides(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous array in C order.

    `item_bytes` is the size of an element in bytes.
    """
    strides: list[int] = []
    step = item_bytes
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@dataclass(frozen=True)
class GpuArray:
    """An array in a GPU's memory, from any library: its address, shape, strides and so on."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    code: str  # NumPy's code of the element type, such as "f4" for float32
    ordinal: int  # the number of the GPU
    stream: int | None  # the stream that still works on the array, or None
    read_only: bool
    owner: Any  # the array itself. The reference keeps its memory from being freed.

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.code)

    @property
    def item_bytes(self) -> int:
        return int(self.code[1:])

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.item_bytes

    @property
    def contiguous(self) -> bool:
        """Whether the elements are in C order, without gaps."""
        steps = c_strides(self.shape, self.item_bytes)
        return 0 in self.shape or all(
            extent == 1 or stride == step
            for extent, stride, step in zip(self.shape, self.strides, steps, strict=True)
        )

    @property
    def T(self) -> GpuArray:  # noqa: N802 - NumPy's name
        """The transposed array: the same memory, with the axes in reverse order."""
        return replace(self, shape=self.shape[::-1], strides=self.strides[::-1])

    def flat(self, dtype: np.dtype[Any]) -> GpuArray:
        """Return the memory of this contiguous array as a one-dimensional array of `dtype`."""
        count = self.bytes // dtype.itemsize
        return replace(self, shape=(count,), strides=(dtype.itemsize,), code=dtype.str[1:])

    def part(self, begin: int, count: int) -> GpuArray:
        """Return `count` elements of the memory, from element `begin` on, as a vector."""
        address = self.address + begin * self.item_bytes
        return replace(self, address=address, shape=(count,), strides=(self.item_bytes,))

    def span(self) -> tuple[int, int]:
        """Return a pair: the address of the first byte, and the address after the last byte."""
        if 0 in self.shape:
            return self.address, self.address
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(r for r in reach if r < 0)
        high = self.address + sum(r for r in reach if r > 0) + self.item_bytes
        return low, high

    def whole(self) -> GpuArray:
        """Return a one-dimensional array: the memory from this array's first byte to its last byte.

        If the array has gaps between its elements, the result also contains the gaps.
        """
        low, high = self.span()
        count = (high - low) // self.item_bytes
        return replace(self, address=low, shape=(count,), strides=(self.item_bytes,))
