"""No count is called exact if it depends on how long a thread waits, or if it was not recorded."""

import numpy as np
import pytest

import coalesce
from coalesce.profiling.hardware import exactness

pytestmark = pytest.mark.usefixtures("machine_code")

# Each warp of these kernels waits for other warps. In the simulator, the first test may succeed. On
# a GPU, the number of tests differs from run to run.
LOOPS_THAT_WAIT = {
    "lock": ("shared", "while (atomicCAS(&m, 0, 1)) {} total += 1; __threadfence_block(); m = 0;"),
    "exchange": (
        "shared",
        "while (atomicExch(&m, 1)) {} total += 1; __threadfence_block(); m = 0;",
    ),
    "flag": ("shared", "if (threadIdx.x > 31) while (m == 0) {} else m = 1; total = 1;"),
    "flag with a store": (
        "shared",
        "if (threadIdx.x > 31) for (int n = 0; m == 0; ++n) y[96 + n % 8] = n; else m = 1;",
    ),
    "flag with a store in shared memory": (
        "shared",
        "if (threadIdx.x > 31) while (m == 0) total += 1; else m = 1;",
    ),
    "flag with an atomic": (
        "shared",
        "if (threadIdx.x > 31) while (m == 0) atomicAdd(y + 99, 1); else m = 1;",
    ),
    "lock in global memory": (
        "global",
        "while (atomicCAS(y + 99, 0, 1)) {} total += 1; __threadfence(); atomicExch(y + 99, 0);",
    ),
}


@pytest.mark.parametrize("name", LOOPS_THAT_WAIT)
def test_the_accesses_of_loops_that_wait_are_not_exact(name):
    space, code = LOOPS_THAT_WAIT[name]
    source = f"""
    __shared__ volatile int total, flag;
    extern "C" __global__ void k(int *y) {{
        int &m = const_cast<int &>(flag);
        if (threadIdx.x == 0) flag = total = 0;
        __syncthreads();
        if (threadIdx.x % 32 == 0) {{ {code.replace("m == 0", "flag == 0")} }}
        __syncthreads();
        y[threadIdx.x] = total;
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    profile = kernel.profile(1, 64, np.zeros(128, np.int32))
    kind = "ld" if name.startswith("flag") else "atom"
    for metric in (*exactness.TOTALS, f"smsp__sass_inst_executed_op_{space}_{kind}.sum"):
        assert metric in profile.inexact, metric


def test_loops_over_shared_memory_stay_exact():
    """A search and a sum read shared memory in a loop, but wait for no thread."""
    source = """
    extern "C" __global__ void k(const int *x, int *y) {
        __shared__ int s[64];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        int low = 0, high = 64, sum = 0;
        while (low < high) {
            const int mid = (low + high) / 2;
            if (s[mid] < (int)threadIdx.x * 3) low = mid + 1; else high = mid;
        }
        for (int i = low; i < 64; ++i) sum += s[i] * s[0];
        y[threadIdx.x] = sum;
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    profile = kernel.profile(1, 64, np.arange(64, dtype=np.int32) * 2, np.zeros(64, np.int32))
    assert "smsp__inst_executed_op_shared_ld.sum" not in profile.inexact


@pytest.mark.parametrize(
    "code",
    [
        """unsigned a, b;
        asm volatile("atom.global.add.noftz.v2.f16x2 {%0, %1}, [%2], {%3, %3};"
                     : "=r"(a), "=r"(b) : "l"(y), "r"(0x3c003c00));
        y[9] = a + b;""",
        "atomicAdd((__nv_bfloat162 *)y, __nv_bfloat162(1, 2));",
    ],
)
def test_atomics_that_were_not_recorded_are_not_exact(code):
    source = f'#include <cuda_bf16.h>\nextern "C" __global__ void k(unsigned *y) {{ {code} }}'
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    profile = kernel.profile(1, 32, np.zeros(32, np.uint32))
    assert profile.inexact["smsp__inst_executed.sum"] == exactness.UNRECORDED
