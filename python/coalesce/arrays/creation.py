"""The functions that make arrays in device memory: `empty`, `zeros`, `asarray` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays import borrowed, copies, devices, foreign
from coalesce.arrays.device_array import DeviceArray
from coalesce.arrays.devices import Device
from coalesce.common import dtypes, require


def empty(
    shape: int | Sequence[int], dtype: Any = np.float32, device: str | Device | None = None
) -> DeviceArray:
    """Make an uninitialised array in device memory.

    On the simulator, every byte has the value 0xFF at first. If a kernel reads a floating-point
    element before it is written, the value is therefore NaN. `Kernel.check` reports such reads.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the array.
    dtype : dtype
        The type of the elements: a boolean, integer, floating or complex type.
    device : str or Device, optional
        The name of the device, such as ``"cuda"``, ``"cuda:1"`` or ``"sim"``. By default, it is the
        first GPU, or the simulator if there is no GPU.

    Returns
    -------
    DeviceArray

    Raises
    ------
    LaunchError
        The device does not have enough free memory.
    DeviceUnavailable
        There is no such GPU.

    Examples
    --------
    >>> coalesce.empty((64, 32), device="sim")
    DeviceArray(shape=(64, 32), dtype=float32, device='sim:h200')
    """
    return DeviceArray.empty(shape, dtype, device)


def zeros(
    shape: int | Sequence[int], dtype: Any = np.float32, device: str | Device | None = None
) -> DeviceArray:
    """Make an array of zeros in device memory.

    The parameters and the exceptions are the same as for `empty`.

    Returns
    -------
    DeviceArray

    Examples
    --------
    >>> coalesce.zeros(3, device="sim").get()
    array([0., 0., 0.], dtype=float32)
    """
    result = DeviceArray.empty(shape, dtype, device)
    if result._simulated:
        result.set(np.broadcast_to(result.dtype.type(0), result.shape))
    else:
        cuda.Device(result._ordinal).fill(result._address, 0, result.nbytes)
    return result


def ones(
    shape: int | Sequence[int], dtype: Any = np.float32, device: str | Device | None = None
) -> DeviceArray:
    """Make an array of ones in device memory.

    The parameters and the exceptions are the same as for `empty`.

    Returns
    -------
    DeviceArray

    Examples
    --------
    >>> coalesce.ones(3, np.int32, device="sim").get()
    array([1, 1, 1], dtype=int32)
    """
    result = DeviceArray.empty(shape, dtype, device)
    result.set(np.broadcast_to(result.dtype.type(1), result.shape))
    return result


def asarray(a: Any, dtype: Any = None, device: str | Device | None = None) -> DeviceArray:
    """Return `a` as an array in device memory. Its data is copied only if necessary.

    Parameters
    ----------
    a : array_like
        The values: a `DeviceArray`, a C-contiguous GPU array of another library, or anything else
        that ``numpy.asarray`` accepts. An array that is already on the right device, with the right
        dtype, is not copied.
    dtype : dtype, optional
        The type of the elements. By default, it is the dtype of `a`.
    device : str or Device, optional
        The device of the result. The default is the device of `a`. For an array that is not on a
        device, such as a NumPy array, the default is the first GPU. Without a GPU, it is the
        simulator.

    Returns
    -------
    DeviceArray

    Raises
    ------
    TypeError
        The dtype of `a` is not possible in device memory, for example because it is a string type.
    ValueError
        `a` is a GPU array that is not C-contiguous.

    Examples
    --------
    >>> x = coalesce.asarray([1, 2, 3], np.float32, device="sim")
    >>> coalesce.asarray(x) is x
    True
    """
    wanted = None if device is None else devices.resolve(device).name
    if dtype is not None:
        dtype = dtypes.number_type(dtype)
    on_device: DeviceArray | None = a if isinstance(a, DeviceArray) else None
    if on_device is None and (on_gpu := foreign.find_gpu_array(a, "a")) is not None:
        on_device = borrowed.as_device_array(on_gpu)
    if on_device is None:
        return to_device(_host_values(a, dtype), device)
    converts = dtype is not None and dtype != on_device.dtype
    if not converts and wanted in (None, on_device.device):
        return on_device
    values = on_device.get()
    return to_device(values.astype(dtype) if converts else values, wanted or on_device.device)


def to_device(a: Any, device: str | Device | None = None) -> DeviceArray:
    """Copy an array to a device.

    Parameters
    ----------
    a : array_like
        A NumPy array in any layout, anything else that ``numpy.asarray`` accepts, or a GPU array of
        any library.
    device : str or Device, optional
        The device of the copy. The default is the GPU that holds `a`. For an array that is not on a
        GPU, such as a NumPy array, the default is the first GPU. Without a GPU, it is the
        simulator.

    Returns
    -------
    DeviceArray
        A new C-contiguous array with the shape and dtype of `a`.

    Raises
    ------
    TypeError
        The dtype of `a` is not possible in device memory, for example because it is a string type.
    DeviceUnavailable
        There is no such GPU.
    LaunchError
        The device does not have enough free memory.

    Examples
    --------
    >>> coalesce.to_device(np.zeros((2, 3))).shape
    (2, 3)
    """
    on_gpu = foreign.find_gpu_array(a, "a")
    if on_gpu is not None:
        result = DeviceArray.empty(on_gpu.shape, on_gpu.code, device or f"cuda:{on_gpu.ordinal}")
        if result._simulated:
            result.set(borrowed.as_device_array(on_gpu).get())
        else:
            copies.copy(a, result)
        return result
    values = _host_values(a)
    result = DeviceArray.empty(values.shape, values.dtype, device)
    result.set(values)
    return result


def _host_values(a: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Return ``numpy.asarray(a)``. Raises TypeError if the elements are not numbers."""
    with require.reading("a", a):
        values = np.asarray(a)
    own = values.dtype
    if own.kind not in "biufc" or (dtype is None and not (own.isnative and own.itemsize <= 16)):
        raise TypeError(
            "`a` must hold numbers of at most 16 bytes, in this machine's byte order; "
            f"got dtype {own}"
        )
    return values if dtype is None else values.astype(dtype)
