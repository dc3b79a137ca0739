"""Arrays in a GPU's memory.

A `DeviceArray` owns its memory and exchanges it with CuPy, PyTorch, Numba and others without a
copy, through `__cuda_array_interface__` and DLPack. It does no arithmetic: kernels do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from coalesce import _arrays, _core, _devices
from coalesce._devices import Device
from coalesce.errors import DeviceUnavailable, LaunchError


class DeviceArray:
    """A C-contiguous array in a GPU's memory.

    Made by `to_device` and `DeviceArray.empty`; `get` or ``numpy.asarray`` copies it back.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    device : str
        ``"cuda:0"``.

    Examples
    --------
    >>> x = coalesce.to_device(np.arange(4, dtype=np.float32))
    >>> x
    DeviceArray(shape=(4,), dtype=float32, device='cuda:0')
    >>> x.get()
    array([0., 1., 2., 3.], dtype=float32)
    """

    __slots__ = (
        "__weakref__",
        "_address",
        "_code",
        "_generation",
        "_memory",
        "_ordinal",
        "dtype",
        "shape",
    )

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any], generation: int):
        # Not for users: `empty` and `to_device` make arrays.
        self._memory = memory
        self._address = memory.address
        self._ordinal = memory.ordinal
        self._generation = generation
        self._code = _core.cuda.scalar_code(_arrays.code_of(dtype))
        self.shape = shape
        self.dtype = dtype

    @classmethod
    def empty(
        cls,
        shape: int | Sequence[int],
        dtype: Any = np.float32,
        device: str | Device | None = None,
    ) -> DeviceArray:
        """Make an array with whatever its memory holds.

        Parameters
        ----------
        shape : int or sequence of int
        dtype : dtype
            A boolean, integer, floating or complex type.
        device : str or Device, optional
            The GPU; the first by default.

        Raises
        ------
        LaunchError
            The GPU has not that much free memory.
        DeviceUnavailable
            There is no such GPU.
        """
        gpu = _gpu(device)
        extents = (shape,) if isinstance(shape, int | np.integer) else shape
        dims = tuple(operator.index(n) for n in extents)
        if any(n < 0 for n in dims):
            raise ValueError(f"shape must not have negative extents; got {dims}")
        dtype = np.dtype(dtype)
        if dtype.kind not in "biufc" or not dtype.isnative or dtype.itemsize > 16:
            raise TypeError(f"dtype must be a native number type; got {dtype!r}")
        opened = _core.cuda.Device(gpu.ordinal)
        size = math.prod(dims) * dtype.itemsize
        memory = opened.allocate(size, f"an array of shape {dims}, {dtype}")
        return cls(memory, dims, dtype, opened.generation)

    @property
    def ndim(self) -> int:
        """How many dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes."""
        return self.size * int(self.dtype.itemsize)

    @property
    def device(self) -> str:
        """The GPU's name, as `device=` takes it."""
        return f"cuda:{self._ordinal}"

    def get(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Copy the array to NumPy, after all work that was enqueued before.

        Parameters
        ----------
        out : numpy.ndarray, optional
            C-contiguous, of the same shape and dtype; a new array otherwise.
        """
        self._alive()
        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be C-contiguous of shape {self.shape}, {self.dtype}; "
                f"got shape {out.shape}, {out.dtype}"
            )
        if self.size:
            _core.cuda.Device(self._ordinal).to_host(byte_view(out), self._address)
        return out

    def set(self, values: np.ndarray[Any, Any]) -> None:
        """Copy a NumPy array of the same shape and dtype into this one."""
        self._alive()
        if values.shape != self.shape or values.dtype != self.dtype:
            raise ValueError(
                f"values must have shape {self.shape}, {self.dtype}; "
                f"got shape {values.shape}, {values.dtype}"
            )
        if self.size:
            source = byte_view(np.ascontiguousarray(values))
            _core.cuda.Device(self._ordinal).to_device(self._address, source)

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return the same memory with another shape; one extent may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        dims = [operator.index(n) for n in wanted]
        if dims.count(-1) == 1:
            rest = math.prod(n for n in dims if n != -1)
            dims[dims.index(-1)] = self.size // rest if rest else 0
        if any(n < 0 for n in dims) or math.prod(dims) != self.size:
            raise ValueError(f"cannot reshape an array of shape {self.shape} to {tuple(wanted)}")
        return DeviceArray(self._memory, tuple(dims), self.dtype, self._generation)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(
                "an array in a GPU's memory cannot become a NumPy array without a copy"
            )
        found = self.get()
        return found if dtype is None else found.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._alive()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address if self.size else 0, False),
            "strides": None,
            "version": 3,
            "stream": _arrays.LEGACY_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._ordinal  # kDLCUDA

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._alive()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("a DeviceArray is exported only where it lies")
        source: DeviceArray = self
        if copy:
            source = DeviceArray.empty(self.shape, self.dtype, self.device)
            _copy_bytes(self._ordinal, source._address, self._address, self.nbytes)
        if stream not in (-1, None, 1):
            # Work here is on the default stream; another one may not wait for it by itself.
            _core.cuda.Device(self._ordinal).synchronize()
        versioned = max_version is not None and max_version[0] >= 1
        code = _arrays.code_of(self.dtype)
        return _core.cuda.to_dlpack(
            source, source._address, list(self.shape), code, self._ordinal, versioned
        )

    def _alive(self) -> None:
        if self._memory.lost:
            raise LaunchError(
                "this DeviceArray's memory is lost: a kernel faulted since it was made"
            )


def to_device(a: Any, device: str | Device | None = None) -> DeviceArray:
    """Copy an array to a GPU.

    Parameters
    ----------
    a : array_like
        A NumPy array (any layout) or what ``numpy.asarray`` takes, or a GPU array of any library.
    device : str or Device, optional
        The GPU; the first by default.

    Returns
    -------
    DeviceArray
        C-contiguous, with the shape and dtype of `a`.

    Raises
    ------
    TypeError
        `a` has a dtype that kernels have no type for.
    DeviceUnavailable
        There is no such GPU.
    LaunchError
        The GPU has not that much free memory.

    Examples
    --------
    >>> coalesce.to_device(np.zeros((2, 3))).shape
    (2, 3)
    """
    found = _arrays.look(a)
    if found is not None:
        result = DeviceArray.empty(found.shape, found.code, device or f"cuda:{found.ordinal}")
        copy(a, result)
        return result
    values = np.asarray(a)
    result = DeviceArray.empty(values.shape, values.dtype, device)
    result.set(values)
    return result


def from_dlpack(value: Any) -> Any:
    """Return a GPU array of any library as an object with `__cuda_array_interface__`, uncopied."""
    return _Borrowed(_arrays.seen(value))


def copy(source: Any, target: Any) -> None:
    """Copy between two GPU arrays of the same shape and dtype, of any library, on one GPU."""
    a, b = _arrays.seen(source), _arrays.seen(target)
    if a.shape != b.shape or a.code != b.code:
        raise ValueError(
            f"source has shape {a.shape}, {_arrays.dtype_name(a.code)}; "
            f"target has shape {b.shape}, {_arrays.dtype_name(b.code)}"
        )
    if not a.contiguous or not b.contiguous:
        raise ValueError("both arrays must be C-contiguous")
    if a.ordinal != b.ordinal:
        raise ValueError(f"source is on cuda:{a.ordinal}, target on cuda:{b.ordinal}")
    device = _core.cuda.Device(a.ordinal)
    others = {s for s in (a.stream, b.stream) if s not in (None, _arrays.LEGACY_STREAM)}
    for stream in others:
        device.synchronize(stream)
    _copy_bytes(a.ordinal, b.address, a.address, a.bytes)
    if others:
        device.synchronize()


def byte_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bytes of a C-contiguous array of any dtype, uncopied."""
    return array.reshape(-1).view(np.uint8)


def _copy_bytes(ordinal: int, target: int, source: int, size: int) -> None:
    _core.cuda.Device(ordinal).copy(target, source, size)


def _gpu(device: str | Device | None) -> Device:
    if device is None:
        device = "cuda"
    found = _devices.resolve(device)
    if found.kind != "cuda":
        raise DeviceUnavailable(
            f"{found.name} has no GPU memory; NumPy arrays are used there as they are"
        )
    return found


class _Borrowed:
    """Another library's GPU array, kept alive."""

    def __init__(self, array: _arrays.GpuArray):
        self._array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        a = self._array
        return {
            "shape": a.shape,
            "typestr": "|" + a.code if a.item_bytes == 1 else "<" + a.code,
            "data": (a.address, a.read_only),
            "strides": a.strides,
            "version": 3,
            "stream": a.stream,
        }


_core.cuda.register_device_array(DeviceArray)
