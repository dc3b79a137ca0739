"""Machine code and PTX leave the same arrays, for every kernel that counting executes."""

from __future__ import annotations

import counter_cases
import numpy as np
import pytest
from both_ways import both_ways

import coalesce
from coalesce.catalogue.table import OPERATIONS

pytestmark = pytest.mark.usefixtures("machine_code")


def call(operation, variant, dtype, shape, **options):
    m, k, n = shape
    a = counter_cases.case.matrix(1, m, k, dtype=dtype)
    b = counter_cases.case.matrix(2, k, n, dtype=dtype)
    arrays = (a, b) if operation == "matmul" else (a,)
    return OPERATIONS[operation].run(arrays, {"variant": variant}, device="sim", **options)


@pytest.mark.parametrize(
    ("operation", "variant", "dtype"),
    [
        (operation, variant.name, dtype)
        for operation in ("matmul", "transpose", "row_sums", "column_sums")
        for variant in coalesce.variants(operation)
        for dtype in ([variant.dtype] if variant.dtype else ["float32", "float64"])
    ],
)
def test_shipped_kernels(operation, variant, dtype):
    for shape in ((64, 32, 64), (50, 30, 77)):
        plain, _ = call(operation, variant, dtype, shape)
        counted, timing = call(operation, variant, dtype, shape, counts=True)
        assert all(record.counts.machine_code for _, record in timing.records)
        np.testing.assert_array_equal(plain, counted)


# The results of these launches depend on the order of threads or on earlier launches.
IN_ANY_ORDER = {"gather_scatter", "module_variables", "append", "shared_append"}


@pytest.mark.parametrize(
    "entry", sorted({launch[0] for launch in counter_cases.awkward.launches()} - IN_ANY_ORDER)
)
def test_awkward_kernels(entry):
    kernel = counter_cases.case.kernel_of("awkward.cu", entry, "sim")
    for name, grid, block, arguments, shared in counter_cases.awkward.launches():
        if name != entry:
            continue
        # One host thread runs the blocks, because atomics and races depend on the order of blocks.
        both_ways(kernel, grid, block, *arguments, shared_bytes=shared, workers=1)
