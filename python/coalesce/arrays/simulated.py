"""Device memory of the simulator: host memory with a device address, and which bytes are defined.

A NumPy array that is a view of such memory is recognised by the object at the end of its bases, so
that whoever has the view can ask for the rest: `memory_of`, `undefined`, `define`.

UNDEFINED BYTES. Memory of `coalesce.empty` holds nothing yet. A byte that was never written has
True in the mask that `undefined` returns; who watches a kernel's stores (`Kernel.check`) clears the
mask of what the kernel wrote, in place. A launch that nobody watches may have written anything, so
that afterwards `define` forgets the mask. Memory that came with contents has no mask.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coalesce._core import sim


class SimulatedMemory(sim.Memory):
    """An allocation in the memory of a simulated device, freed when nothing refers to it."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> None:
        super().__init__(shape, dtype.itemsize, str(dtype))
        self.device = device
        self.lost = False  # as a GPU's memory is after a fault; this never is
        self.size = math.prod(shape) * dtype.itemsize
        self._all_undefined = False
        self._mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    def forget(self) -> None:
        """Take every byte as never written."""
        self._all_undefined, self._mask = self.size > 0, None

    def undefined(self, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """Return the mask of a range of bytes; None where all of the memory is defined."""
        if self._mask is None:
            if not self._all_undefined:
                return None
            self._all_undefined, self._mask = False, np.ones(self.size, np.bool_)
        return self._mask[start:stop]

    def define(self, start: int, stop: int) -> None:
        """Take a range of bytes as written."""
        if stop - start == self.size:
            self._all_undefined, self._mask = False, None
        elif (mask := self.undefined(start, stop)) is not None:
            mask[:] = False


def memory_of(array: np.ndarray[Any, Any]) -> tuple[SimulatedMemory, int] | None:
    """Return the memory that a NumPy array views and its first byte there; None for any other."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, SimulatedMemory):
        return None
    start = base.bytes().__array_interface__["data"][0]
    return base, array.__array_interface__["data"][0] - start


def undefined(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return one bool for each byte of a C-contiguous array; None where all are defined."""
    found = memory_of(array)
    return None if found is None else found[0].undefined(found[1], found[1] + array.nbytes)


def define(array: np.ndarray[Any, Any]) -> None:
    """Take every byte of a C-contiguous array as written."""
    found = memory_of(array)
    if found is not None:
        found[0].define(found[1], found[1] + array.nbytes)
