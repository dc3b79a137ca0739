"""Device memory of the simulator: host memory with a device address, and a mask of undefined bytes.

`memory_of`, `undefined` and `define` take a NumPy array that is a view of such memory. They find
the memory by following the attribute `base` of the array, then the `base` of that object, and so
on.

UNDEFINED BYTES. Memory of `coalesce.empty` is undefined until it is written. `undefined` returns a
mask that is True for each byte that was never written. `Kernel.check` watches the stores of the
kernel, and sets the mask to False for each byte that the kernel writes. A normal launch does not
watch the stores, so it is not known which bytes the kernel wrote. After such a launch, `define`
removes the mask, and all bytes count as written. Memory that was allocated with contents has no
mask.
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
        self.lost = False  # a fault of a kernel destroys a GPU's memory, but never this memory
        self.size = math.prod(shape) * dtype.itemsize
        self._all_undefined = False
        self._mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    def undefine(self) -> None:
        """Mark every byte as undefined."""
        self._all_undefined, self._mask = self.size > 0, None

    def undefined(self, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """Return the mask of a range of bytes, or None if every byte of the memory is defined."""
        if self._mask is None:
            if not self._all_undefined:
                return None
            self._all_undefined, self._mask = False, np.ones(self.size, np.bool_)
        return self._mask[start:stop]

    def define(self, start: int, stop: int) -> None:
        """Mark a range of bytes as defined."""
        if stop - start == self.size:
            self._all_undefined, self._mask = False, None
        elif (mask := self.undefined(start, stop)) is not None:
            mask[:] = False


def memory_of(array: np.ndarray[Any, Any]) -> tuple[SimulatedMemory, int] | None:
    """Return the simulated memory in which a NumPy array lies, and the array's offset there.

    For an array in other memory, return None.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, SimulatedMemory):
        return None
    start = base.bytes().__array_interface__["data"][0]
    return base, array.__array_interface__["data"][0] - start


def undefined(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return a mask with one bool for each byte of a C-contiguous array: True if undefined.

    Return None if all bytes are defined.
    """
    place = memory_of(array)
    return None if place is None else place[0].undefined(place[1], place[1] + array.nbytes)


def define(array: np.ndarray[Any, Any]) -> None:
    """Mark every byte of a C-contiguous array as defined."""
    place = memory_of(array)
    if place is not None:
        place[0].define(place[1], place[1] + array.nbytes)
