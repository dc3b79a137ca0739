"""Views of GPU arrays for the operations, and results for the operands' libraries.

`foreign` describes a GPU array of any library. A `GpuView` is such an array with its axes reversed
or with another element type; a kernel accepts it again. No array library is imported here. A result
goes through DLPack to the library of its operands, which is loaded by then.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from coalesce.arrays import foreign


@dataclass(frozen=True)
class GpuView:
    """Memory on a GPU with a shape and strides (bytes); keeps its owner alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    ordinal: int
    stream: int | None
    readonly: bool
    owner: Any

    @property
    def T(self) -> GpuView:  # noqa: N802 - NumPy's name
        """The same memory with the axes reversed."""
        return replace(self, shape=self.shape[::-1], strides=self.strides[::-1])

    def flat(self, dtype: np.dtype[Any]) -> GpuView:
        """Return contiguous memory as one row of elements of another type."""
        count = math.prod(self.shape) * self.dtype.itemsize // dtype.itemsize
        return replace(self, shape=(count,), strides=(dtype.itemsize,), dtype=dtype)

    @property
    def device(self) -> Any:
        """The GPU, under the name that CuPy's arrays use."""
        return SimpleNamespace(id=self.ordinal)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, self.readonly),
            "strides": None if is_contiguous(self) else self.strides,
            "version": 3,
            "stream": self.stream,
        }


def view(value: Any, name: str = "the array") -> GpuView | None:
    """Describe a GPU array; None for anything else. Errors call it `name`."""
    found = foreign.look(value, name)
    if found is None:
        return None
    dtype = np.dtype(found.code)
    return GpuView(
        pointer=found.address,
        shape=found.shape,
        strides=found.strides or _c_strides(found.shape, dtype.itemsize),
        dtype=dtype,
        ordinal=found.ordinal,
        stream=found.stream,
        readonly=found.read_only,
        owner=found.owner,
    )


def is_contiguous(array: GpuView) -> bool:
    """Whether the elements lie row by row without gaps."""
    wanted = _c_strides(array.shape, array.dtype.itemsize)
    return 0 in array.shape or all(
        extent == 1 or stride == step
        for extent, stride, step in zip(array.shape, array.strides, wanted, strict=True)
    )


def span(array: GpuView) -> tuple[int, int]:
    """Return the first byte of the memory an array touches and the byte past its last."""
    if 0 in array.shape:
        return array.pointer, array.pointer
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = array.pointer + sum(r for r in reach if r < 0)
    high = array.pointer + sum(r for r in reach if r > 0) + array.dtype.itemsize
    return low, high


def whole(array: GpuView) -> GpuView:
    """Return all memory from the first to the last element, as one row of elements."""
    low, high = span(array)
    count = (high - low) // array.dtype.itemsize
    return replace(array, pointer=low, shape=(count,), strides=(array.dtype.itemsize,))


def like(result: Any, model: Any) -> Any:
    """Convert a device array to the library of `model`; unchanged if that is not possible."""
    name = type(model).__module__.split(".")[0]
    library = sys.modules.get("jax.dlpack" if name in ("jax", "jaxlib") else name)
    adopt = getattr(library, "from_dlpack", None)
    return result if adopt is None else adopt(result)


def _c_strides(shape: tuple[int, ...], item_size: int) -> tuple[int, ...]:
    strides: list[int] = []
    step = item_size
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
