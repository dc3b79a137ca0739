"""Makes NumPy arrays in pinned memory, which a GPU can read and write without the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import devices
from coalesce.common import dtypes, require
from coalesce.common.errors import LaunchError

if TYPE_CHECKING:
    from coalesce.arrays.devices import Device


def pinned_empty(
    shape: int | Sequence[int], dtype: Any = np.float32, device: str | Device | None = None
) -> np.ndarray[Any, Any]:
    """Make an uninitialised NumPy array in pinned memory.

    The operating system does not move pinned memory. Therefore a GPU can copy from and to it at the
    full speed of the bus. Other arrays are first copied to a pinned buffer, which takes longer.

    Pinning an array takes longer than copying it once, and the system cannot use pinned memory for
    anything else. So make a pinned array once and use it often, for example as the argument `out`.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the array.
    dtype : dtype
        The type of the elements: a boolean, integer, floating or complex type.
    device : str or Device, optional
        The GPU for which the memory is pinned. By default, it is the first GPU. The other GPUs can
        use the array, too. For the simulator, or without a GPU, the result is an ordinary array.

    Returns
    -------
    numpy.ndarray
        An array in C order. Its memory is freed when no array uses it any longer.

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
    dims = require.shape("shape", shape)
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
