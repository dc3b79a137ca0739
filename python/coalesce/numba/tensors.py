"""Makes arguments of kernels from tensors of PyTorch on the CPU.

Numba copies a NumPy array to the simulated GPU and back. Most tensors become the NumPy array with
the same memory, so the same happens. Numba itself does not copy arrays that are not contiguous, and
arrays of bfloat16. These become device arrays here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import cuda


@contextmanager
def as_arrays(arguments: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Replace each tensor on the CPU by an array. At the end, copy the results to the tensors."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield tuple(arguments)
        return
    finish: list[Callable[[], object]] = []
    values: list[Any] = []
    for value in arguments:
        if isinstance(value, torch.Tensor) and value.is_cpu:
            half = value.dtype is torch.bfloat16  # NumPy has no such type, so copy the bits
            array = (value.detach().view(torch.int16) if half else value.detach()).numpy()
            if not half and (array.flags.c_contiguous or array.flags.f_contiguous):
                values.append(array)
                continue
            copy = cuda.to_device(np.ascontiguousarray(array))
            values.append(copy.view(_bfloat16()) if half else copy)
            finish.append(functools.partial(_write_back, array, copy))
        else:
            values.append(value)
    yield tuple(values)
    for write_back in finish:
        write_back()


def _write_back(array: np.ndarray[Any, Any], copy: Any) -> None:
    array[...] = copy.copy_to_host()


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            "a tensor of type bfloat16 needs the package ml_dtypes: pip install ml_dtypes"
        ) from None
    return np.dtype(ml_dtypes.bfloat16)
