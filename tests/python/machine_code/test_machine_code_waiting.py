"""Machine code of mbarriers, dependent launches, elected lanes and numbers of warps."""

import numpy as np
import pytest
from both_ways import both_ways, why_ptx

import coalesce
from coalesce.profiling.hardware import exactness

pytestmark = pytest.mark.usefixtures("machine_code")


BARRIER = """
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
"""


WAITING = {
    "a pipeline": """
    auto block = cooperative_groups::this_thread_block();
    __shared__ float s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int i = 0; i < 5; ++i) {
        if (i < 4) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[i % 2], y + 64 * i, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
        if (i == 0) continue;
        pipe.consumer_wait();
        sum += s[(i - 1) % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;""",
    "bytes": """
    __shared__ unsigned long long b;
    const unsigned at = __cvta_generic_to_shared(&b);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    y[threadIdx.x] += 1;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8;" :: "r"(at) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 8;" :: "r"(at) : "memory");
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                 " @!p bra W; }" :: "r"(at) : "memory");
    y[threadIdx.x + 64] = y[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at) : "memory");""",
}


@pytest.mark.parametrize("code", WAITING.values(), ids=list(WAITING))
def test_mbarriers(code):
    source = BARRIER + f'extern "C" __global__ void k(float *y) {{ {code} }}'
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    (y,) = both_ways(kernel, 1, 64, np.arange(256, dtype=np.float32))
    assert (y != np.arange(256)).any()
    profile = kernel.profile(1, 64, y)
    # A warp that waits tests the mbarrier again and again. So the number of instructions varies.
    # Counters of ARRIVES, which the asynchronous copies of two kernels need, were not recorded.
    arrives = any(i.opcode.startswith("ARRIVES") for i in profile.instructions())
    why = exactness.UNRECORDED if arrives else exactness.MBARRIERS
    assert {profile.inexact[total] for total in exactness.TOTALS} == {why}


def test_the_pending_count_of_a_state_is_refused():
    source = """
    extern "C" __global__ void k(unsigned *y) {
        __shared__ unsigned long long b;
        const unsigned at = __cvta_generic_to_shared(&b);
        unsigned long long state;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at));
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(*y) : "l"(state));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    with pytest.raises(coalesce.UnsupportedInstruction, match="pending_count"):
        kernel.profile(1, 1, np.zeros(1, np.uint32))


def test_dependent_launches():
    source = """
    extern "C" __global__ void k(float *y) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        y[threadIdx.x] += 1;
        asm volatile("griddepcontrol.launch_dependents;");
        y[threadIdx.x + 32] += 2;
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim", arch="sm_90")
    assert why_ptx(kernel) == ""
    y = np.zeros(64, np.float32)
    profile = kernel.profile(1, 32, y)
    assert y.tolist() == [1] * 32 + [2] * 32
    assert profile.metrics()["smsp__inst_executed_op_global_st.sum"] == 2
    assert "smsp__inst_executed_op_global_st.sum" in profile.exact


def test_elect():
    """Machine code and PTX elect the same lane, also of some lanes of a warp."""
    kernel = coalesce.Kernel(
        r"""extern "C" __global__ void k(unsigned *y, unsigned members, int first) {
            unsigned elected = 7, lane = 9;
            if ((int)threadIdx.x >= first)
                asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }"
                             : "=r"(lane), "=r"(elected) : "r"(members));
            y[threadIdx.x] = 100 * elected + lane;
        }""",
        "k",
        device="sim",
    )
    lanes = np.arange(32, dtype=np.uint32)
    for first in (0, 1, 13, 31):
        members = np.uint32(0xFFFFFFFF << first & 0xFFFFFFFF)
        wanted = np.where(lanes < first, 709, first + 100 * (lanes == first))
        (y,) = both_ways(kernel, 1, 32, np.zeros(32, np.uint32), members, first)
        np.testing.assert_array_equal(y, wanted)


def test_numbers_of_warps(device):
    """The machine code computes %warpid from SR_VIRTID.

    CUDA does not guarantee the numbers. On a GPU, other work may have the first warps.
    """
    source = """
    extern "C" __global__ void k(unsigned *y) {
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(y[threadIdx.x]));
    }"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    (y,) = both_ways(kernel, 1, 200, np.zeros(200, np.uint32))
    np.testing.assert_array_equal(y, np.arange(200) // 32)
    coalesce.Kernel(kernel.source, "k", device=device)[1, 200](y)
    of_warps = y[::32]
    np.testing.assert_array_equal(y, np.repeat(of_warps, 32)[:200])
    assert len(set(of_warps.tolist())) == 7
