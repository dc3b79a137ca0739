"""The device memory of the simulator: host memory, and a record of the bytes that were written.

Memory from `coalesce.empty` is undefined until it is written. The method `undefined` returns a mask
that is True for each byte that was never written. A run of a kernel changes the mask:

- `Kernel.check` watches the stores of the kernel. For each byte that the kernel writes, the mask
  becomes False.
- A normal launch does not watch the stores. After the launch, the mask is False for every byte of
  each array that the kernel may write to.

Memory without undefined bytes, such as the memory of `coalesce.zeros`, has no mask.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coalesce._core import sim


class SimulatedMemory(sim.Memory):
    """An allocation in the memory of a simulated GPU. It is freed when no array uses it.

    With `host`, the memory belongs to another owner: `address` is its address on the simulated GPU,
    and `host` is its address in this process.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: str,
        address: int = 0,
        host: int = 0,
    ) -> None:
        super().__init__(shape, dtype.itemsize, str(dtype), address, host)
        self.device = device
        self.lost = False  # a fault of a kernel destroys a GPU's memory, but never this memory
        self.size = math.prod(shape) * dtype.itemsize
        self._all_undefined = False
        self._mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None

    def undefine(self) -> None:
        """Mark every byte as undefined."""
        self._all_undefined, self._mask = self.size > 0, None

    def undefined(self, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """Return a mask for the bytes from `start` to `stop`: True for each undefined byte.

        If every byte of the memory is defined, return None.
        """
        if self._mask is None:
            if not self._all_undefined:
                return None
            self._all_undefined, self._mask = False, np.ones(self.size, np.bool_)
        return self._mask[start:stop]

    def define(self, start: int, stop: int) -> None:
        """Mark the bytes from `start` to `stop` as defined. (`stop` is exclusive.)"""
        if stop - start == self.size:
            self._all_undefined, self._mask = False, None
        elif (mask := self.undefined(start, stop)) is not None:
            mask[:] = False


def memory_of(array: np.ndarray[Any, Any]) -> tuple[SimulatedMemory, int] | None:
    """Return a pair: the simulated memory that contains a NumPy array, and the array's offset.

    The offset is the distance in bytes from the start of the memory. For an array that is not in
    simulated memory, return None.
    """
    # The `base` of a view is the object that it was made from, which may also be a view.
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, SimulatedMemory):
        return None
    start = base.bytes().__array_interface__["data"][0]
    return base, array.__array_interface__["data"][0] - start


def undefined(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return a mask for the bytes of a C-contiguous array: True for each undefined byte.

    If every byte is defined, or if the array is not in the simulator's memory, return None.
    """
    place = memory_of(array)
    return None if place is None else place[0].undefined(place[1], place[1] + array.nbytes)


def define(array: np.ndarray[Any, Any]) -> None:
    """Mark every byte of a C-contiguous array as defined, which means: written at least once."""
    place = memory_of(array)
    if place is not None:
        place[0].define(place[1], place[1] + array.nbytes)
