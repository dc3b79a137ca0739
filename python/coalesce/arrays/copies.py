"""Copies GPU arrays, and allocates NumPy arrays for results that come from a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import foreign
from coalesce.arrays.waiting import until_done
from coalesce.common import dtypes


def copy(source: Any, target: Any) -> None:
    """Copy the values of GPU array `source` into GPU array `target`.

    Each array may belong to any library. Both must have the same shape and dtype, be C-contiguous,
    and be on the same GPU. Otherwise a ValueError is raised.
    """
    a, b = (
        foreign.require_gpu_array(source, "the source"),
        foreign.require_gpu_array(target, "the target"),
    )
    if a.shape != b.shape or a.code != b.code:
        raise ValueError(
            f"the source has shape {a.shape} and dtype {dtypes.dtype_name(a.code)}; "
            f"the target has shape {b.shape} and dtype {dtypes.dtype_name(b.code)}. Both must have "
            "the same shape and dtype"
        )
    if not a.contiguous or not b.contiguous:
        which = "the target" if a.contiguous else "the source"
        raise ValueError(f"{which} is not C-contiguous; both arrays must be C-contiguous")
    if a.ordinal != b.ordinal:
        raise ValueError(
            f"the source is on cuda:{a.ordinal}, and the target is on cuda:{b.ordinal}; both "
            "arrays must be on the same GPU"
        )
    device = cuda.Device(a.ordinal)
    others = {s for s in (a.stream, b.stream) if s not in (None, foreign.LEGACY_STREAM)}
    for stream in others:
        until_done(device, stream)
    copy_bytes(a.ordinal, b.address, a.address, a.bytes)
    if others:
        until_done(device)


def copy_bytes(ordinal: int, target: int, source: int, size: int) -> None:
    """Copy `size` bytes on GPU `ordinal` from address `source` to address `target`."""
    cuda.Device(ordinal).copy(target, source, size)


def byte_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the memory of a C-contiguous array as an array of uint8. No data is copied."""
    return array.reshape(-1).view(np.uint8)


_REUSED_FROM = 32 << 20  # bytes; the C library itself reuses the memory of smaller arrays


def empty_on_host(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialised NumPy array, to which data of a GPU will be copied.

    A large array (32 MiB or more) reuses the memory of an earlier array that was freed. This saves
    time: the operating system provides new memory page by page, which takes longer than the copy
    from the GPU.
    """
    count = math.prod(shape)
    if count * dtype.itemsize < _REUSED_FROM:
        return np.empty(shape, dtype)
    memory = memoryview(cuda.HostMemory(count * dtype.itemsize))
    array: np.ndarray[Any, Any] = np.frombuffer(memory, dtype, count)
    return array.reshape(shape)
