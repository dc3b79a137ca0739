"""Makes NumPy arrays in pinned memory, which a GPU reads and writes without help of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import devices
from coalesce.common import checks, dtypes
from coalesce.common.errors import LaunchError

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device


def pinned_empty(
    shape: int | Sequence[int], dtype: Any = np.float32, device: str | Device | None = None
) -> np.ndarray[Any, Any]:
    """Make an uninitialised NumPy array in pinned memory.

    A GPU copies from and to pinned memory at the full speed of its link, without help of the CPU.
    Other arrays are copied through buffers of pinned memory, which takes longer. Every GPU of the
    process can use a pinned array. Without a GPU, this function returns an ordinary array.

    Pinning memory takes longer than one copy, and pinned memory cannot be swapped out. So make a
    pinned array once and use it often, also as `out`.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype
        A boolean, integer, floating or complex type.
    device : str or Device, optional
        The GPU whose driver pins the memory; by default the first GPU. For the simulator, the
        result is an ordinary array.

    Returns
    -------
    numpy.ndarray
        In C order. Its memory is freed with the last array that uses it.

    Raises
    ------
    LaunchError
        The system cannot pin so much memory.
    DeviceUnavailable
        There is no such GPU.

    Examples
    --------
    >>> a = coalesce.pinned_empty((1024, 1024))
    >>> a.shape, a.dtype
    ((1024, 1024), dtype('float32'))
    >>> a[:] = 1
    >>> coalesce.row_sums(a)[0]
    np.float32(1024.0)
    """
    chosen = devices.resolve(device)
    dims = checks.shape("shape", shape)
    dtype = dtypes.number_type(dtype)
    size = dtypes.bytes_of(dims, dtype)
    if chosen.kind == "sim" or size == 0:
        try:
            return np.empty(dims, dtype)
        except MemoryError as error:
            raise LaunchError(f"out of memory: {error}") from None
    memory = cuda.PinnedMemory(chosen.ordinal, size)
    flat: np.ndarray[Any, Any] = np.frombuffer(memoryview(memory), dtype)
    return flat.reshape(dims)
