"""Checks the array arguments of an operation.

A checked argument becomes an `Operand`, which refers to the caller's array. Nothing is copied here.
If an argument is wrong, the error message names the argument, what was passed, and what is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coalesce._core import ops
from coalesce.arrays import foreign, simulated_memory
from coalesce.common import memory, require
from coalesce.common.dtypes import code_of

REAL = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Operand:
    """A checked array argument of an operation. It refers to the caller's array, without a copy."""

    name: str
    passed: Any  # what the caller passed
    array: Any  # the memory of `passed`, as a plain ndarray or a GpuArray
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    on_gpu: bool

    def transposed(self) -> Operand:
        """Return the transposed array: the same memory, with the axes in reverse order."""
        return replace(self, array=self.array.T, shape=self.shape[::-1])

    @property
    def lies_in_columns(self) -> bool:
        """Whether a GPU array has two dimensions, and columns are less spread than rows."""
        if not self.on_gpu or len(self.shape) != 2:
            return False
        row_stride, col_stride = map(abs, self.array.strides)
        return bool(row_stride < col_stride)

    def usable_as_is(self, alignment: int = 1) -> bool:
        """Return whether a kernel can use the array itself. If not, the kernel needs a copy.

        The array must be in C order without gaps. On the host, its elements must be aligned and in
        this machine's byte order. On a device, its address must be a multiple of `alignment` bytes.
        """
        if self.on_gpu:
            return bool(self.array.contiguous and self.array.address % alignment == 0)
        flags = self.array.flags
        place = simulated_memory.memory_of(self.array)
        return bool(
            flags.c_contiguous
            and flags.aligned
            and self.array.dtype.isnative
            and (place is None or place[1] % alignment == 0)
        )


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is bfloat16. (NumPy does not have it; the package ml_dtypes does.)"""
    return code_of(dtype) == "V2"


def array(
    name: str,
    value: Any,
    axes: str,
    operation: str,
    dtypes: Sequence[Any] = REAL,
    bfloat16: bool = False,
) -> Operand:
    """Check the dtype and the number of dimensions of an array argument.

    Return the argument as an `Operand`.

    Parameters
    ----------
    name : str
        The name of the argument in messages.
    value
        What the caller passed.
    axes : str
        The names of the dimensions, such as "(M, K)". The array must have one dimension for
        each name.
    operation : str
        The name of the operation in messages.
    dtypes : sequence of dtype
        The accepted dtypes. If it is empty, every dtype is accepted.
    bfloat16 : bool
        Whether bfloat16 is accepted, too.
    """
    checked = operand(name, value)
    if dtypes and checked.dtype not in dtypes and not (bfloat16 and is_bfloat16(checked.dtype)):
        wanted = " or ".join(np.dtype(d).name for d in dtypes)
        raise TypeError(
            f"`{name}` has dtype {checked.dtype}; {operation}() takes {wanted}. "
            f"Convert it, for example with {name}.astype(np.{np.dtype(dtypes[0]).name})"
        )
    ndim = axes.count(",") + 1 if "," in axes and not axes.endswith(",)") else 1
    if len(checked.shape) != ndim:
        raise ValueError(
            f"`{name}` must have {ndim} dimension{'s' * (ndim > 1)} {axes}; got shape "
            f"{checked.shape}"
        )
    too_long = [n for n in checked.shape if n > ops.max_extent]
    if too_long and ndim > 1:
        raise ValueError(
            f"`{name}` has shape {checked.shape}; a matrix has at most {ops.max_extent} "
            "rows and columns"
        )
    return checked


def as_bits(operand: Operand) -> Operand:
    """Return an operand of dtype uint16 that shares the memory of a bfloat16 operand."""
    array, bits = operand.array, np.dtype(np.uint16)
    same = replace(array, code="u2") if operand.on_gpu else array.view(bits)
    return replace(operand, array=same, dtype=bits)


def same_dtype(*operands: Operand) -> np.dtype[Any]:
    """Check that all operands have the same dtype, and return this dtype."""
    first = operands[0]
    for other in operands[1:]:
        if other.dtype != first.dtype:
            raise TypeError(
                f"`{first.name}` has dtype {first.dtype} and `{other.name}` has dtype "
                f"{other.dtype}; both must have the same dtype: convert one of them with .astype"
            )
    return first.dtype


def tile_of(entry: ops.Variant, tile: Any) -> int:
    """Check the option `tile` of a call, and return the tile to use.

    If `tile` is None, return the default tile of the variant `entry`. If the variant has no tile,
    return 0.
    """
    if tile is None:
        return entry.tiles[-1] if entry.tiles else 0
    if not entry.tiles:
        raise ValueError(
            f"variant {entry.name!r} of {entry.operation} has no option `tile`; "
            f"got tile={require.shown(tile)}. Leave out `tile`"
        )
    wanted = require.integer("tile", tile)
    if wanted not in entry.tiles:
        choices = ", ".join(str(t) for t in entry.tiles)
        raise ValueError(f"`tile` must be one of {choices}; got {wanted}")
    return wanted


def output(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], axes: str, bfloat16: bool = False
) -> Operand | None:
    """Check the argument `out`: it must have the shape and the dtype of the result.

    Return `out` as an `Operand`, or None if `out` is None. `axes` has the names of the dimensions
    for error messages, such as "(M, N)", or is empty. With `bfloat16`, the dtype bfloat16 is
    accepted, too.
    """
    if out is None:
        return None
    checked = operand("out", out)
    if checked.dtype != dtype and not (bfloat16 and is_bfloat16(checked.dtype)):
        either = " or bfloat16" if bfloat16 else ""
        raise TypeError(f"`out` has dtype {checked.dtype}; it must have dtype {dtype}{either}")
    if checked.shape != shape:
        raise ValueError(
            f"`out` has shape {checked.shape}; it must have the shape of the result, "
            f"{f'{axes} = ' if axes else ''}{shape}"
        )
    if checked.on_gpu:
        if not checked.usable_as_is():
            raise ValueError("`out` must be C-contiguous if it is a GPU array")
    elif not isinstance(out, np.ndarray) and not foreign.is_device_array(out):
        raise TypeError(f"`out` must be a NumPy array or a GPU array; got {type(out).__name__}")
    elif not checked.array.flags.writeable:
        raise ValueError("`out` is read-only; it must be writeable")
    elif memory.elements_overlap(checked.array):
        raise ValueError(
            f"`out` has strides {checked.array.strides}, so its elements share memory; pass an "
            "array whose elements do not overlap"
        )
    return checked


def operand(name: str, value: Any) -> Operand:
    """Return a NumPy array or a GPU array as an `Operand`. Any other value raises TypeError.

    `name` is the name of the argument in error messages.
    """
    on_gpu = foreign.find_gpu_array(value, name)
    if on_gpu is not None:
        return Operand(name, value, on_gpu, on_gpu.shape, on_gpu.dtype, True)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"`{name}` is a masked array; fill it first: {name}.filled(0)")
    plain = (
        np.asarray(value) if isinstance(value, np.ndarray) else foreign.find_host_array(value, name)
    )
    if plain is None:
        raise TypeError(
            f"`{name}` must be a NumPy array or a GPU array; got {type(value).__name__}"
        )
    return Operand(name, value, plain, plain.shape, plain.dtype.newbyteorder("="), False)
