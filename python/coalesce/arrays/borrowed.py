"""Wraps a GPU array of another library, such as CuPy, in a `DeviceArray`. No data is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import foreign
from coalesce.arrays.device_array import DeviceArray
from coalesce.arrays.gpu_array import GpuArray


def as_device_array(array: GpuArray) -> DeviceArray:
    """Return a `DeviceArray` that shares memory with `array`, a GPU array of any library.

    Raises ValueError if the GPU array is not C-contiguous.
    """
    owner = array.owner
    # If `array` is the whole memory of a DeviceArray, and not only a part of it, return this
    # DeviceArray.
    if isinstance(owner, DeviceArray) and array == foreign.find_gpu_array(owner):
        return owner
    if not array.contiguous:
        raise ValueError(
            f"the GPU array of shape {array.shape} is not C-contiguous; copy it first, for "
            "example with cupy.ascontiguousarray or tensor.contiguous()"
        )
    device = cuda.Device(array.ordinal)
    if array.stream not in (None, foreign.LEGACY_STREAM):
        device.order(array.stream, 0)
    memory = _BorrowedMemory(array, device)
    return DeviceArray(memory, array.shape, np.dtype(array.code), device.generation)


class _BorrowedMemory:
    """Memory of another library. It is not freed as long as this object exists."""

    def __init__(self, array: GpuArray, device: Any):
        self.address = array.address
        self.ordinal = array.ordinal
        self._owner = array.owner
        self._device = device
        self._generation = device.generation

    @property
    def lost(self) -> bool:
        """Whether the memory is lost, because a kernel faulted on this GPU."""
        return bool(self._device.generation != self._generation)
