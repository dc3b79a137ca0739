"""Ordinary CUDA C++ (tests/kernels/ordinary.cu) is executed as machine code, and as its PTX is."""

from __future__ import annotations

import functools
import re

import counter_cases
import numpy as np
import pytest

import coalesce
from coalesce.arrays import devices
from coalesce.simulate import counting

SOURCE = (counter_cases.KERNELS / "ordinary.cu").read_text()
ELEMENTS = dict(re.findall(r"^KERNEL\((\w+), (\w+)\)", SOURCE, re.MULTILINE))
DTYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned": "uint32",
    "s64": "int64",
    "u64": "uint64",
    "__half": "float16",
    "__nv_bfloat16": "uint16",
}
# Where the assembler makes several instructions of an approximation, its last bits are others.
APPROXIMATE = {"rounding", "fast_functions", "more_functions_of_doubles"}


pytestmark = pytest.mark.usefixtures("machine_code")


@functools.cache
def compiled(fast: bool) -> coalesce.Kernel:
    """Return a kernel of the file, whose others share its module."""
    options = ("-device-int128", *(["-use_fast_math"] if fast else []))
    return coalesce.Kernel(SOURCE, next(iter(ELEMENTS)), device="sim", options=options)


def numbers(dtype: str) -> np.ndarray:
    """Return 256 elements, NaN and infinity among those of floating types."""
    random = np.random.default_rng(5)
    if dtype.startswith("float"):
        values = (random.random(256) * 4 + 0.1).astype(dtype)
        values[[9, 40]] = np.nan, np.inf
        return values
    if dtype == "uint16":  # bfloat16: the upper half of a float
        return ((random.random(256) * 4).astype(np.float32).view(np.uint32) >> 16).astype(dtype)
    values = random.integers(0, 1000, 256).astype(dtype)
    values[::3] = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 86, dtype)
    return values


def results(entry: str, fast: bool = False) -> list[np.ndarray]:
    """Return what the PTX leaves and what the machine code leaves."""
    kernel = compiled(fast).get_function(entry)
    assert kernel._program(devices.resolve("sim")).why_ptx(entry) == ""
    left = []
    for counts in (False, True):
        dtype = DTYPES[ELEMENTS[entry]]
        a, o = numbers(dtype), np.zeros(256, dtype)
        counting.prepare(kernel, 1, 64, [a, o]).run(counts=counts, workers=1)
        left.append(o)
    return left


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("entry", ELEMENTS)
def test_ordinary_kernels_run_as_machine_code(entry):
    plain, counted = results(entry)
    assert plain.any()
    if entry in APPROXIMATE:
        np.testing.assert_allclose(plain, counted, rtol=1e-4 if plain.itemsize == 4 else 1e-14)
    else:
        np.testing.assert_array_equal(plain, counted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "entry", [entry for entry, element in ELEMENTS.items() if element == "float"]
)
def test_ordinary_kernels_with_fast_functions(entry):
    np.testing.assert_allclose(*results(entry, fast=True), rtol=1e-4)
