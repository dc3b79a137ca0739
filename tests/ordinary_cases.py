"""The launches of tests/kernels/ordinary.cu. Each reads and writes an array of 256 elements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import coalesce

SOURCE = (Path(__file__).parent / "kernels" / "ordinary.cu").read_text()
ELEMENTS = dict(re.findall(r"^KERNEL\((\w+), (\w+)\)", SOURCE, re.MULTILINE))
DTYPES = {"float": "float32", "int": "int32"}


@cache
def _compiled(options: tuple[str, ...]) -> coalesce.Kernel:
    first = next(iter(ELEMENTS))
    return coalesce.Kernel(SOURCE, first, device="sim", options=options)


def kernel(entry: str, *options: str) -> coalesce.Kernel:
    """Return a kernel of the file; all kernels share a module."""
    return _compiled(options).get_function(entry)


def arguments(entry: str) -> tuple[np.ndarray, np.ndarray]:
    """Return 256 elements (floats include NaN and infinity) and 256 zeros."""
    dtype = DTYPES[ELEMENTS[entry]]
    return _numbers(dtype), np.zeros(256, dtype)


def _numbers(dtype: str) -> np.ndarray:
    random = np.random.default_rng(5)
    if dtype.startswith("float"):
        values = (random.random(256) * 4 + 0.1).astype(dtype)
        values[[9, 40]] = np.nan, np.inf
        return values
    values = random.integers(0, 1000, 256).astype(dtype)
    values[::3] = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 86, dtype)
    return values


def launches() -> Iterator[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Yield entry, grid, block and arguments of each kernel."""
    for entry in ELEMENTS:
        yield entry, 1, 64, arguments(entry)
