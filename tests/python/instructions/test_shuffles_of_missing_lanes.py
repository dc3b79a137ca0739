"""A shuffle reads 0 from a lane that does not take part, as an H100 and an H200 do.

CUDA does not define this result. But kernels use it, for example with `__activemask()`. The
expected results are those of an H100 and an H200 (compiler: NVRTC 13.5).
"""

import numpy as np
import pytest
from both_ways import bound

import coalesce
from coalesce.launch.simulated import simulate

_SOURCE = r"""
extern "C" __global__ void read_others(const int* in, int* out, int n) {
    const int lane = threadIdx.x;
    int x = in[lane], y = -1;
    STATEMENT
    out[lane] = y;
}"""
_LANES = np.arange(32)
_VALUES = 100 + _LANES


def reads(by, first, last):
    """Lanes `first` to `last` - 1 read from the lane that is `by` higher."""
    other = _LANES + by
    values = np.where((other >= first) & (other < last), 100 + other, 0)
    return np.where((first <= _LANES) & (last > _LANES), values, -1)


CASES = {
    "waiting": ("if (lane < n) y = __shfl_sync(0xfffu, x, 20);", np.where(_LANES < 12, 0, -1)),
    "down": ("if (lane < n) y = __shfl_down_sync(0xfffu, x, 8);", reads(8, 0, 12)),
    "active mask": ("if (lane < n) y = __shfl_down_sync(__activemask(), x, 8);", reads(8, 0, 12)),
    "up": ("if (lane >= n) y = __shfl_up_sync(__activemask(), x, 4);", reads(-4, 12, 32)),
    "changed later": (
        "if (lane >= n) x = 7; else { y = __shfl_down_sync(0xfffu, x, 8); }",
        reads(8, 0, 12),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_lane_that_does_not_take_part_gives_0(case, device):
    statement, expected = CASES[case]
    kernel = coalesce.Kernel(_SOURCE.replace("STATEMENT", statement), "read_others", device=device)
    out = np.zeros(32, np.int32)
    kernel.launch(1, 32, _VALUES.astype(np.int32), out, np.int32(12))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("case", CASES)
def test_machine_code_gives_0_too(case):
    statement, expected = CASES[case]
    source = _SOURCE.replace("STATEMENT", statement)
    kernel = coalesce.Kernel(source, "read_others", device="sim")
    out = np.zeros(32, np.int32)
    arguments = [_VALUES.astype(np.int32), out, np.int32(12)]
    assert simulate(bound(kernel, 1, 32, arguments, 0), counts=True).counts.machine_code
    np.testing.assert_array_equal(out, expected)
