"""Arrays in the memory of a GPU or of a simulated GPU.

A `DeviceArray` owns its memory. Other libraries can use this memory without a copy. On a GPU, CuPy,
PyTorch and Numba do this through `__cuda_array_interface__` or DLPack, two standard interfaces. On
the simulator, NumPy does this through DLPack. A `DeviceArray` has no arithmetic operators, because
kernels do the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from coalesce._core import cuda as _cuda
from coalesce.arrays import copies, devices, foreign, indexing
from coalesce.arrays.devices import Device
from coalesce.arrays.simulated_memory import SimulatedMemory
from coalesce.arrays.waiting import until_done
from coalesce.common import dtypes, require
from coalesce.common.errors import LaunchError
from coalesce.common.words import plural


@cache
def _code_of(dtype: np.dtype[Any]) -> int:
    """Return the number that C++ has for the element type."""
    code: int = _cuda.scalar_code(dtypes.code_of(dtype))
    return code


class DeviceArray:
    """A C-contiguous array in the memory of a GPU or of a simulated GPU.

    The functions `empty`, `zeros`, `ones`, `asarray` and `to_device` make such arrays. The method
    `get`, or ``numpy.asarray``, copies an array to NumPy. You can pass a `DeviceArray` to kernels
    and operations that run on its device.

    An index selects a contiguous part of the array, such as ``x[2]`` or ``x[2, 3:5]``. The index
    consists of integers, and may end with one slice without a step. The selected part shares memory
    with the array. The result of `reshape` also shares memory with the array. An assignment such as
    ``x[2] = values`` copies the values into the array.

    All work on these arrays runs in the order of the calls, as on CUDA's default stream. `get`
    waits for earlier work. If a launch uses another stream, later work on the default stream waits
    for this launch.

    Attributes
    ----------
    shape : tuple of int
        The extents of the array.
    dtype : numpy.dtype
        The type of the elements.
    device : str
        The name of the device, such as ``"cuda:0"`` or ``"sim:h200"``.

    Examples
    --------
    >>> x = coalesce.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), device="sim")
    >>> x
    DeviceArray(shape=(2, 3), dtype=float32, device='sim:h200')
    >>> x[1].get()
    array([3., 4., 5.], dtype=float32)
    >>> x[0, 1:] = 7
    >>> x.get()
    array([[0., 7., 7.],
           [3., 4., 5.]], dtype=float32)
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

    def __init__(
        self,
        memory: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        generation: int,
        address: int | None = None,
    ):
        # This method is not for users. `empty`, `asarray` and similar functions call it.
        self._memory = memory
        self._address = memory.address if address is None else address
        self._ordinal = -1 if isinstance(memory, SimulatedMemory) else memory.ordinal
        # How many kernels had faulted on this GPU when the array was made. (A fault destroys the
        # memory.) On the simulator, it is 0.
        self._generation = generation
        self._code = _code_of(dtype)
        self.shape = shape
        self.dtype = dtype

    @classmethod
    def empty(
        cls,
        shape: int | Sequence[int],
        dtype: Any = np.float32,
        device: str | Device | None = None,
    ) -> DeviceArray:
        """Make an uninitialised array, as `coalesce.empty` does."""
        return cls.maker(shape, dtype, device)()

    @classmethod
    def maker(
        cls, shape: int | Sequence[int], dtype: Any, device: str | Device | None
    ) -> Callable[[], DeviceArray]:
        """Return a function that makes uninitialised arrays. The arguments are checked here."""
        chosen = devices.resolve(device)
        dims = require.shape("shape", shape)
        dtype = dtypes.number_type(dtype)
        size = dtypes.bytes_of(dims, dtype)
        if chosen.kind == "sim":

            def simulated() -> DeviceArray:
                memory = SimulatedMemory(dims, dtype, chosen.name)
                memory.undefine()
                return cls(memory, dims, dtype, 0)

            return simulated
        opened, what = _cuda.Device(chosen.ordinal), f"an array of shape {dims}, {dtype}"
        return lambda: cls(opened.allocate(size, what), dims, dtype, opened.generation)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return self.size * int(self.dtype.itemsize)

    @property
    def device(self) -> str:
        """The name of the device, such as "cuda:0". Functions take it as the argument `device`."""
        return self._memory.device if self._simulated else f"cuda:{self._ordinal}"

    def get(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Copy the array to a NumPy array. The copy waits for earlier work on this array.

        Parameters
        ----------
        out : numpy.ndarray, optional
            The array to copy to: C-contiguous, and of the same shape and dtype. By default, a new
            array is made.

        Returns
        -------
        numpy.ndarray
            `out`, or the new array.

        Raises
        ------
        TypeError, ValueError
            `out` is not a NumPy array, or it has another shape, dtype or layout.
        LaunchError
            The memory is lost, because a kernel faulted on this GPU.

        Examples
        --------
        >>> coalesce.asarray([1.0, 2.0], device="sim").get()
        array([1., 2.])
        """
        self._alive()
        if out is None:
            allocate = np.empty if self._simulated else copies.empty_on_host
            out = allocate(self.shape, self.dtype)
        elif not isinstance(out, np.ndarray):
            raise TypeError(f"`out` must be a NumPy array; got {require.shown(out)}")
        elif out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"`out` must be C-contiguous, with shape {self.shape} and dtype {self.dtype}; "
                f"got shape {out.shape} and dtype {out.dtype}"
                + ("" if out.flags.c_contiguous else ", not C-contiguous")
            )
        if self._simulated:
            out[...] = self._host()
        elif self.size:
            gpu = _cuda.Device(self._ordinal)
            until_done(gpu, what="copying from the GPU")
            gpu.to_host(copies.byte_view(out), self._address)
        return out

    def set(self, values: np.ndarray[Any, Any]) -> None:
        """Copy the values of a NumPy array into this array.

        Parameters
        ----------
        values : numpy.ndarray
            An array of the same shape and dtype. It need not be contiguous.

        Raises
        ------
        TypeError, ValueError
            `values` is not a NumPy array, or it has another shape or dtype.
        LaunchError
            The memory is lost, because a kernel faulted on this GPU.

        Examples
        --------
        >>> x = coalesce.zeros(3, np.float32, device="sim")
        >>> x.set(np.arange(3, dtype=np.float32))
        >>> x.get()
        array([0., 1., 2.], dtype=float32)
        """
        self._alive()
        if not isinstance(values, np.ndarray):
            raise TypeError(f"`values` must be a NumPy array; got {require.shown(values)}")
        if values.shape != self.shape or values.dtype != self.dtype:
            raise ValueError(
                f"`values` must have shape {self.shape} and dtype {self.dtype}; "
                f"got shape {values.shape} and dtype {values.dtype}"
            )
        if self._simulated:
            self._host()[...] = values
            self._define()
        elif self.size:
            raw = copies.byte_view(np.ascontiguousarray(values))
            _cuda.Device(self._ordinal).to_device(self._address, raw)

    def copy(self) -> DeviceArray:
        """Return a copy on the same device.

        Returns
        -------
        DeviceArray
            A C-contiguous array of the same shape and dtype.

        Raises
        ------
        LaunchError
            The memory is lost, because a kernel faulted on this GPU.
        """
        self._alive()
        result = DeviceArray.empty(self.shape, self.dtype, self.device)
        if self._simulated:
            result.set(self._host())
        else:
            copies.copy_bytes(self._ordinal, result._address, self._address, self.nbytes)
        return result

    def item(self) -> Any:
        """Return the value of an array with one element, as a Python number.

        Returns
        -------
        bool, int, float or complex

        Raises
        ------
        ValueError
            The array does not have exactly one element.

        Examples
        --------
        >>> coalesce.asarray([2.5], device="sim").item()
        2.5
        """
        return self.get().item()

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return an array that has another shape, and shares memory with this array.

        Parameters
        ----------
        *shape : int
            The new extents, as several arguments or as a tuple. One extent may be -1. Then it is
            computed from the number of elements and the other extents.

        Returns
        -------
        DeviceArray
            The same elements in the same order, with the new shape.

        Raises
        ------
        TypeError, ValueError
            An extent is not an integer, or the new shape has more or fewer elements than the array.

        Examples
        --------
        >>> coalesce.zeros(6, device="sim").reshape(2, -1).shape
        (2, 3)
        """
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        dims = [require.integer("shape", n) for n in wanted]
        if dims.count(-1) == 1:
            rest = math.prod(n for n in dims if n != -1)
            dims[dims.index(-1)] = self.size // rest if rest else 0
        if any(n < 0 for n in dims) or math.prod(dims) != self.size:
            raise ValueError(
                f"an array of shape {self.shape} has {plural(self.size, 'element')}, so it cannot "
                f"be reshaped to {tuple(dims)}"
            )
        return self._part(tuple(dims), self._address)

    def __getitem__(self, index: Any) -> DeviceArray:
        shape, offset = indexing.part(self.shape, self.dtype, index)
        return self._part(shape, self._address + offset)

    def __setitem__(self, index: Any, value: Any) -> None:
        part = self[index]
        if foreign.find_gpu_array(value) is not None and not self._simulated:
            copies.copy(value, part)
            return
        values = value.get() if isinstance(value, DeviceArray) else np.asarray(value)
        if not np.can_cast(values.dtype, self.dtype, "same_kind") and not (
            values.ndim == 0 and np.can_cast(np.min_scalar_type(values), self.dtype, "same_kind")
        ):
            raise TypeError(
                f"cannot assign values of dtype {values.dtype} to an array of dtype {self.dtype}; "
                f"convert the values: values.astype(numpy.{self.dtype})"
            )
        try:
            part.set(np.broadcast_to(values.astype(self.dtype), part.shape))
        except ValueError:
            raise ValueError(
                f"cannot assign an array of shape {values.shape}; the selected elements have shape "
                f"{part.shape}"
            ) from None

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no len()")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(
                "an array in a device's memory cannot become a NumPy array without a copy; "
                "call get()"
            )
        values = self.get()
        return values if dtype is None else values.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._simulated:
            raise AttributeError(
                "this DeviceArray has no __cuda_array_interface__, because it is not in a GPU's "
                "memory"
            )
        self._alive()
        self._lend()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address if self.size else 0, False),
            "strides": None,
            "version": 3,
            "stream": foreign.LEGACY_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        cpu, cuda = 1, 2  # kDLCPU, kDLCUDA
        return (cpu, 0) if self._simulated else (cuda, self._ordinal)

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
            raise BufferError(
                f"this DeviceArray is on {self.device}, not on the device that `dl_device` names; "
                "call get() to copy the array to the host"
            )
        exported = self.copy() if copy else self
        if self._simulated:
            exported._define()  # the other library may write to the memory unnoticed
            return exported._host().__dlpack__()
        if stream not in (-1, None, 1):
            # Work of this package is on the default stream; other streams may not wait for it.
            until_done(_cuda.Device(self._ordinal))
        if stream not in (None, 1):
            exported._lend()
        versioned = max_version is not None and max_version[0] >= 1
        code = dtypes.code_of(self.dtype)
        return _cuda.to_dlpack(
            exported, exported._address, list(self.shape), code, self._ordinal, versioned
        )

    @property
    def _simulated(self) -> bool:
        return self._ordinal < 0

    def _part(self, shape: tuple[int, ...], address: int) -> DeviceArray:
        return DeviceArray(self._memory, shape, self.dtype, self._generation, address)

    def _lend(self) -> None:
        """Record that another library may use the memory on its own stream."""
        if isinstance(self._memory, _cuda.Memory):
            self._memory.used_elsewhere()

    def _host(self) -> np.ndarray[Any, Any]:
        """Return a NumPy view of the memory of a simulated array."""
        start = self._address - self._memory.address
        memory: np.ndarray[Any, Any] = self._memory.bytes()[start : start + self.nbytes]
        return memory.view(self.dtype).reshape(self.shape)

    def _define(self) -> None:
        start = self._address - self._memory.address
        self._memory.define(start, start + self.nbytes)

    def _alive(self) -> None:
        if self._memory.lost:
            raise LaunchError(
                "this DeviceArray's memory is lost, because a kernel caused a fault on this GPU "
                "after the array was created; create the array again"
            )


_cuda.register_device_array(DeviceArray)
