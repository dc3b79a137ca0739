"""Copies one GPU array to another, and allocates NumPy arrays for results from a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import foreign
from coalesce.arrays.waiting import until_done
from coalesce.common import dtypes


def copy(source: Any, target: Any) -> None:
    """Copy the values of one GPU array to another. The arrays may be of any library.

    Both arrays must have the same shape and dtype, be C-contiguous, and be on the same GPU.
    """
    a, b = foreign.require_gpu_array(source, "source"), foreign.require_gpu_array(target, "target")
    if a.shape != b.shape or a.code != b.code:
        raise ValueError(
            f"source has shape {a.shape}, {dtypes.dtype_name(a.code)}; "
            f"target has shape {b.shape}, {dtypes.dtype_name(b.code)}. Both must have the same "
            "shape and dtype"
        )
    if not a.contiguous or not b.contiguous:
        which = "target" if a.contiguous else "source"
        raise ValueError(f"{which} is not C-contiguous; both arrays must be C-contiguous")
    if a.ordinal != b.ordinal:
        raise ValueError(
            f"source is on cuda:{a.ordinal} and target is on cuda:{b.ordinal}; both arrays must be "
            "on the same GPU"
        )
    device = cuda.Device(a.ordinal)
    others = {s for s in (a.stream, b.stream) if s not in (None, foreign.LEGACY_STREAM)}
    for stream in others:
        until_done(device, stream)
    copy_bytes(a.ordinal, b.address, a.address, a.bytes)
    if others:
        until_done(device)


def copy_bytes(ordinal: int, target: int, source: int, size: int) -> None:
    """Copy bytes from address to address on a GPU."""
    cuda.Device(ordinal).copy(target, source, size)


def byte_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view of the bytes of a C-contiguous array of any dtype."""
    return array.reshape(-1).view(np.uint8)


_REUSED_FROM = 32 << 20  # bytes; the C library itself reuses the memory of smaller arrays


def empty_on_host(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialised NumPy array for a copy from the GPU.

    For a large array, this function reuses the memory of earlier arrays that no longer exist. New
    memory would take longer than the copy, because the system provides it page by page.
    """
    count = math.prod(shape)
    if count * dtype.itemsize < _REUSED_FROM:
        return np.empty(shape, dtype)
    memory = memoryview(cuda.HostMemory(count * dtype.itemsize))
    array: np.ndarray[Any, Any] = np.frombuffer(memory, dtype, count)
    return array.reshape(shape)
