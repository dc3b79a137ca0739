"""Machine code of diverged lanes: the uniform registers of a warp belong to all its lanes.

So the simulator may let other lanes of a warp run only where a GPU does.
"""

from __future__ import annotations

import numpy as np
import pytest
from both_ways import both_ways, why_ptx

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")


def result(x: int, factor: int, values: np.ndarray) -> int:
    """Return the result of a loop of the kernels below."""
    for value in values.tolist():
        x = (x * factor + value) & 0xFFFFFFFF
    return x


def test_loops_in_two_branches():
    """Two loops count in the same uniform register, and each needs more than one slice."""
    source = """
    extern "C" __global__ void k(unsigned *y, const unsigned *values, int n, int odd) {
        unsigned x = y[threadIdx.x];
        if (threadIdx.x % 2 == odd) {
            #pragma unroll 1
            for (int i = 0; i < n; ++i) x = x * 3 + values[i];
        } else {
            #pragma unroll 1
            for (int i = 0; i < n; ++i) x = x * 5 + values[i];
        }
        y[threadIdx.x] = x;
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    assert why_ptx(kernel) == ""
    values = np.arange(20_000, dtype=np.uint32)
    y, _ = both_ways(kernel, 1, 32, np.full(32, 7, np.uint32), values, len(values), 1)
    assert y.tolist() == [result(7, 5, values), result(7, 3, values)] * 16
