"""Makes a `DeviceArray` of another library's GPU array. The two arrays share memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import foreign
from coalesce.arrays.device_array import DeviceArray
from coalesce.arrays.gpu_array import GpuArray


def adopted(array: GpuArray) -> DeviceArray:
    """Return a `DeviceArray` that shares the memory of another library's GPU array."""
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
    """Memory of another library. This object keeps the owner of the memory alive."""

    def __init__(self, array: GpuArray, device: Any):
        self.address = array.address
        self.ordinal = array.ordinal
        self._owner = array.owner
        self._device = device
        self._generation = device.generation

    @property
    def lost(self) -> bool:
        """Whether a kernel faulted on this GPU, which destroyed its memory."""
        return bool(self._device.generation != self._generation)
