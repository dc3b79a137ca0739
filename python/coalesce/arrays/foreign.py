"""Reads what a kernel needs to know about a GPU array of any library: its address, dtype and so on.

Most libraries describe their GPU arrays through `__cuda_array_interface__` or DLPack. Therefore
this module does not need to import these libraries. PyTorch tensors are read through their own
attributes, because `__cuda_array_interface__` has no name for some of their element types, such as
bfloat16.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from coalesce._core import cuda
from coalesce.arrays.gpu_array import GpuArray, c_strides
from coalesce.arrays.pointer import Pointer
from coalesce.common import require
from coalesce.common.errors import LaunchError

_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_MANAGED = 1, 2, 13
# Frequent arguments of kernels that are never GPU arrays.
_ON_HOST = (np.ndarray, np.generic, int, float, type, Pointer)
LEGACY_STREAM = 1  # a handle of the default stream. The handle 0 means the same stream.


def require_gpu_array(value: Any, name: str = "the array") -> GpuArray:
    """Return the address, dtype, layout and stream of a GPU array, as a `GpuArray`.

    Any other value raises TypeError. `name` is the name of the value in error messages.
    """
    array = find_gpu_array(value, name)
    if array is None:
        raise TypeError(
            f"{require.quoted(name)} must be an array in a GPU's memory; got {type(value).__name__}"
        )
    return array


def find_gpu_array(value: Any, name: str = "the array") -> GpuArray | None:
    """Return the address, dtype, layout and stream of a GPU array, as a `GpuArray`.

    For any other value, return None. `name` is the name of the value in error messages.
    """
    if isinstance(value, _ON_HOST):
        return None
    if isinstance(value, GpuArray):
        return value
    if is_device_array(value):
        return None if value._simulated else _device_array(value, name)
    if is_torch(value):
        return _torch(value) if value.is_cuda else None
    with require.reading(name, value):
        interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _interface(value, interface, name)
    with require.reading(name, value):
        kind, ordinal = map(int, _dlpack_device(value))
    if kind in (_DLPACK_CUDA, _DLPACK_CUDA_MANAGED):
        return _dlpack(value, ordinal, name)
    return None


def _dlpack_device(value: Any) -> Any:
    """Return the kind and the number of an object's DLPack device, or (0, 0) if it has none."""
    return value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (0, 0)


def find_host_array(value: Any, name: str = "the array") -> np.ndarray[Any, Any] | None:
    """Return an array of another library as a NumPy array. The two arrays share memory.

    This works for an array in the host's memory, such as a PyTorch tensor on the CPU, and for a
    `DeviceArray` of the simulator. For any other value, return None. `name` is the name of the
    value in error messages.
    """
    array: np.ndarray[Any, Any]
    if is_device_array(value):
        if not value._simulated:
            return None
        array = value._host()
        return array
    if is_torch(value):
        array = value.detach().numpy()
        return array
    if isinstance(value, np.generic | type):
        return None
    with require.reading(name, value):
        kind, _ = map(int, _dlpack_device(value))
        return np.from_dlpack(value) if kind == _DLPACK_CPU else None


def is_device_array(value: Any) -> bool:
    """Return whether a value is a `DeviceArray`.

    This function compares the names of classes, because this module cannot import `DeviceArray`:
    the module of `DeviceArray` imports this module.
    """
    return type(value).__name__ == "DeviceArray" and hasattr(value, "_memory")


def is_torch(value: Any) -> bool:
    """Return whether a value is a PyTorch tensor.

    This function compares the names of classes, because PyTorch may not be installed.
    """
    return any(
        base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(value).__mro__
    )


def _device_array(value: Any, name: str) -> GpuArray:
    if value._memory.lost:
        raise LaunchError(
            f"{require.quoted(name)}: this DeviceArray's memory is lost, because a kernel caused a "
            "fault on this GPU after the array was created; create the array again"
        )
    strides = c_strides(value.shape, value.dtype.itemsize)
    code, ordinal = value.dtype.str[1:], value._ordinal
    return GpuArray(value._address, value.shape, strides, code, ordinal, None, False, value)


def _torch(tensor: Any) -> GpuArray:
    name = str(tensor.dtype).partition(".")[2]
    code = "V2" if name == "bfloat16" else np.dtype(name).str[1:]
    item = int(code[1:])
    stream = None
    torch = sys.modules.get("torch")
    if torch is not None:
        stream = torch.cuda.current_stream(tensor.get_device()).cuda_stream
    return GpuArray(
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(item * step for step in tensor.stride()),
        code,
        tensor.get_device(),
        stream or LEGACY_STREAM,
        False,
        tensor,
    )


def _interface(value: Any, interface: Any, name: str) -> GpuArray:
    """Return the description of an array, from its `__cuda_array_interface__`. Check each field."""
    name = require.quoted(name)
    where = f"in the __cuda_array_interface__ of {name},"
    if not isinstance(interface, Mapping):
        raise TypeError(
            f"the __cuda_array_interface__ of {name} must be a dict; got {require.shown(interface)}"
        )
    missing = [repr(key) for key in ("shape", "typestr", "data") if key not in interface]
    if missing:
        raise TypeError(
            f"the __cuda_array_interface__ of {name} has no {' and no '.join(missing)}; it must "
            "have 'shape', 'typestr' and 'data'"
        )
    typestr = interface["typestr"]
    try:
        dtype = np.dtype(require.text("typestr", typestr))
    except TypeError:
        raise TypeError(
            f"{where} 'typestr' must name a type, such as '<f4'; got {require.shown(typestr)}"
        ) from None
    if typestr[:1] == ">" or interface.get("mask") is not None:
        which = (
            "a mask; fill the masked elements, and pass an array without a mask"
            if interface.get("mask") is not None
            else f"big-endian elements (typestr {typestr!r}); convert the array to little-endian"
        )
        raise TypeError(f"{name} is a GPU array with {which}")
    shape = _extents(f"{where} 'shape'", interface["shape"], least=0)
    data = interface["data"]
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(
            f"{where} 'data' must be a tuple of an address and a bool; got {require.shown(data)}"
        )
    strides = interface.get("strides")
    if strides is not None:
        strides = _extents(f"{where} 'strides'", strides, least=-(2**63))
        if len(strides) != len(shape):
            raise ValueError(
                f"{where} 'strides' has {len(strides)} numbers, but 'shape' has {len(shape)}; "
                "both must have the same length"
            )
    stream = interface.get("stream")
    if stream == 0:
        raise ValueError(
            f"{where} 'stream' is 0, which is not allowed; it must be 1 or 2 for a default stream, "
            "or the handle of a stream"
        )
    if stream is not None:
        stream = require.whole(f"{where} 'stream'", stream, 1, 2**64 - 1)
    return GpuArray(
        require.whole(f"{where} 'data'", data[0], 0, 2**64 - 1),
        shape,
        c_strides(shape, dtype.itemsize) if strides is None else strides,
        typestr[1:] if typestr[0] in "<|=" else dtype.str[1:],
        _ordinal(value),
        stream,
        bool(data[1]),
        value,
    )


def _extents(name: str, value: Any, least: int) -> tuple[int, ...]:
    items = require.several(name, value, "a tuple of integers")
    return tuple(require.whole(name, item, least, 2**63 - 1) for item in items)


def _dlpack(value: Any, ordinal: int, name: str) -> GpuArray:
    # The argument `stream` names the stream that will use the array. The other library makes this
    # stream wait for the library's own work on the array.
    with require.reading(name, value):
        try:
            capsule = value.__dlpack__(stream=LEGACY_STREAM, max_version=(1, 1))
        except TypeError:
            capsule = value.__dlpack__(stream=LEGACY_STREAM)
        described = cuda.from_dlpack(capsule)
    if not described["dtype"]:
        raise TypeError(
            f"{require.quoted(name)} is a GPU array with an element type that NumPy does not have; "
            "convert it to a type of NumPy, such as float32"
        )
    shape, code = tuple(described["shape"]), described["dtype"]
    return GpuArray(
        described["address"],
        shape,
        described["strides"] or c_strides(shape, int(code[1:])),
        code,
        ordinal,
        None,
        described["read_only"],
        (value, capsule),  # the capsule keeps the memory alive
    )


def _ordinal(value: Any) -> int:
    """Return the number of the GPU that holds an array, or 0 if the array does not report it."""
    device = getattr(value, "device", None)
    number = getattr(device, "id", None)
    return number if isinstance(number, int) else 0


def to_library_of(model: Any, result: Any) -> Any:
    """Convert the device array `result` to an array of the same library as `model`.

    For example, if `model` is a CuPy array, the function returns a CuPy array. This array shares
    memory with `result` (through DLPack). If the library does not support DLPack, the function
    returns `result` unchanged.
    """
    # The program has already imported the library, because it has the array `model`.
    name = type(model).__module__.split(".")[0]
    library = sys.modules.get("jax.dlpack" if name in ("jax", "jaxlib") else name)
    adopt = getattr(library, "from_dlpack", None)
    return result if adopt is None else adopt(result)
