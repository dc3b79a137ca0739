"""Cooperative launches: blocks that wait for each other with grid.sync()."""

import counter_cases
import many_kernels
import numpy as np
import pytest

import coalesce

SUM = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void k(const float *x, float *partial, float *out, int n) {
    cg::grid_group grid = cg::this_grid();
    __shared__ float sums[128];
    float sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) sum += x[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int width = 64; width > 0; width /= 2) {
        if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
    grid.sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float all = 0;
        for (int b = 0; b < gridDim.x; ++b) all += partial[b];
        *out = all;
    }
}
"""

# In each iteration, a block reads values that other blocks wrote in the previous iteration.
ROUNDS = """
#include <cooperative_groups.h>
extern "C" __global__ void k(int *a, int *b, int n, int rounds) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    for (int r = 0; r < rounds; ++r) {
        if (i < n) b[i] = a[(i + 37) % n] + a[i];
        SYNC
        if (i < n) a[i] = b[(i + n - 91) % n];
        SYNC
    }
}
"""


ARRIVALS = """
#include <cooperative_groups.h>
extern "C" __global__ void k(int *x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    cooperative_groups::this_grid().sync();
}
"""


# VALUE is what a thread reports about its grid group.
RANKS = """
#include <cooperative_groups.h>
extern "C" __global__ void k(int *out) {
    auto grid = cooperative_groups::this_grid();
    out[grid.thread_rank()] = int(VALUE);
}
"""
SYNCS = ("grid.sync();", "__syncthreads();", "if (blockIdx.x != 2) grid.sync();")
FULL = ROUNDS.replace("SYNC", SYNCS[0]).replace(
    "__global__", "__global__ __launch_bounds__(1024, 2)"
)
VALUES = ("grid.num_threads()", "grid.is_valid()")
KERNELS = many_kernels.together(
    [SUM, ARRIVALS, FULL]
    + [ROUNDS.replace("SYNC", sync) for sync in SYNCS]
    + [RANKS.replace("VALUE", value) for value in VALUES],
    "k",
)


def kernel_of(source: str, device: str) -> coalesce.Kernel:
    return coalesce.Kernel(*KERNELS[source], device=device)


def rounds_of(sync: str = SYNCS[0], *, device: str) -> coalesce.Kernel:
    return kernel_of(ROUNDS.replace("SYNC", sync), device)


def expected(a: np.ndarray, rounds: int) -> np.ndarray:
    for _ in range(rounds):
        a = np.roll(np.roll(a, -37) + a, 91)
    return a


def sums(device: str) -> tuple[coalesce.Kernel, list[np.ndarray], float]:
    x = np.arange(5000, dtype=np.float32) % 7
    arrays = [x, np.zeros(20, np.float32), np.zeros(1, np.float32)]
    return kernel_of(SUM, device), arrays, float(x.sum())


def test_blocks_wait_for_each_other(device):
    kernel, arrays, right = sums(device)
    kernel.launch(20, 128, *arrays, 5000, cooperative=True)
    assert arrays[2][0] == right


@pytest.mark.usefixtures("on_simulator")
def test_blocks_end_while_others_still_wait():
    """Blocks that end soon after the last grid.sync() are not taken for blocks that never came.

    The mistake depends on when host threads are interrupted: 1 launch in 300 failed.
    """
    kernel = kernel_of(ARRIVALS, "sim")
    x = np.zeros(264 * 32, np.int32)
    for _ in range(2000):
        kernel.launch(264, 32, x, cooperative=True)


def test_many_rounds(device):
    a = np.arange(3000, dtype=np.int32)
    want = expected(a, 9)
    rounds_of(device=device).launch(
        24, 128, a, np.zeros_like(a), a.size, 9, cooperative=True, runs=None
    )
    np.testing.assert_array_equal(a, want)


def test_every_block_that_fits_participates():
    """The grid has three dimensions and as many blocks as an H200 can hold at once."""
    blocks = 132 * 2
    a = np.arange(blocks * 1024, dtype=np.int32)
    want = expected(a, 1)
    kernel = kernel_of(FULL, "sim")
    kernel.launch((11, 4, 6), (32, 4, 8), a, np.zeros_like(a), a.size, 1, cooperative=True)
    np.testing.assert_array_equal(a, want)


def test_a_grid_that_does_not_fit_is_refused():
    a = np.zeros(32, np.int32)
    with pytest.raises(
        coalesce.LaunchError,
        match=r"The grid has 265 blocks, but the NVIDIA H200 SXM can hold only 264: 132 "
        r"multiprocessors with 2 blocks each, limited by warps",
    ):
        rounds_of(device="sim").launch(265, 1024, a, a.copy(), 32, 1, cooperative=True)


def test_without_the_launch_there_is_no_grid_sync(device):
    """The launch is refused. A trap on a GPU would make the GPU unusable for the process."""
    a = np.arange(256, dtype=np.int32)
    with pytest.raises(coalesce.LaunchError, match="cooperative=True"):
        rounds_of(device=device)[2, 128](a, a.copy(), 256, 1)


def ranks(value, device):
    """Return what a thread reports about its grid group in an ordinary launch of 2 blocks of 32."""
    out = np.zeros(64, np.int32)
    kernel_of(RANKS.replace("VALUE", value), device)[2, 32](out)
    return out


def test_the_size_of_the_grid_needs_no_cooperative_launch(device):
    assert (ranks(VALUES[0], device) == 64).all()


def test_the_grid_group_of_an_ordinary_launch_is_not_valid():
    """An H200 called it valid in processes with an earlier cooperative launch."""
    assert (ranks(VALUES[1], "sim") == 0).all()


@pytest.mark.parametrize("of_ptx", [False, True])
def test_it_is_profiled(of_ptx, monkeypatch):
    if of_ptx:
        monkeypatch.setenv("COALESCE_COUNT_PTX", "1")
    kernel, arrays, right = sums("sim")
    profile = kernel.profile(20, 128, *arrays, 5000, cooperative=True)
    assert arrays[2][0] == right
    # 5000 elements in 157 warps; each block stores once, and the sum is stored once.
    metrics = profile.metrics()
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == 21
    # The number of reads while a block waits differs from run to run.
    if not of_ptx:
        assert "from run to run" in profile.inexact["smsp__inst_executed.sum"]
    # The number of reads decides the time, too.
    assert profile.modelled is None
    assert "until other blocks" in profile.not_modelled


def test_the_machine_code_is_counted():
    kernel, arrays, _ = sums("sim")
    record = kernel.launch(20, 128, *arrays, 5000, cooperative=True, counts=True)
    assert record.counts.machine_code


def test_checks_know_that_the_barrier_orders_blocks():
    a = np.arange(600, dtype=np.int32)
    arguments = (a, np.zeros_like(a), a.size, 2)
    assert not rounds_of(device="sim").check(5, 128, *arguments, cooperative=True)
    findings = rounds_of(SYNCS[1], device="sim").check(5, 128, *arguments, cooperative=True)
    assert {finding.kind for finding in findings} == {"race"}


def test_traces_may_keep_some_blocks():
    a = np.arange(600, dtype=np.int32)
    want = expected(a, 1)
    kernel, b = rounds_of(device="sim"), np.zeros_like(a)
    trace = kernel.trace(5, 128, a, b, a.size, 1, cooperative=True)
    np.testing.assert_array_equal(a, want)
    stores = trace.select(array="b", kind="store")
    assert len(stores) == 19  # 19 warps have elements
    a = np.arange(600, dtype=np.int32)
    some = kernel.trace(5, 128, a, b, a.size, 1, cooperative=True, blocks=[1, 4])
    assert set(map(tuple, some.block)) == {(1, 0, 0), (4, 0, 0)}
    assert len(some.select(array="b", kind="store")) == 4 + 3
    # only chosen blocks run, on copies of the arrays
    np.testing.assert_array_equal(a, np.arange(600))

    seen = []
    count = kernel.observe(5, 128, a, b, a.size, 1, cooperative=True, callback=seen.append)
    assert sum(map(len, seen)) == count > len(stores)


def test_a_block_is_stepped_while_the_others_run():
    a = np.arange(600, dtype=np.int32)
    want = expected(a, 3)
    kernel = rounds_of(device="sim")
    for block in (0, 4):
        with kernel.step(
            5, 128, a, np.zeros_like(a), a.size, 3, cooperative=True, of_block=block
        ) as stepper:
            stepper.finish()
            mine = slice(128 * block, min(128 * block + 128, 600))
            np.testing.assert_array_equal(stepper.arrays["a"][mine], want[mine])


def test_a_block_that_skips_the_barrier():
    kernel = rounds_of(SYNCS[2], device="sim")
    a = np.zeros(512, np.int32)
    message = "grid.sync\\(\\) would wait forever: 1 block has ended without calling grid.sync"
    with pytest.raises(coalesce.LaunchError, match=message):
        kernel.launch(4, 128, a, a.copy(), 512, 1, cooperative=True)
    findings = kernel.check(4, 128, a, a.copy(), 512, 1, cooperative=True)
    assert any(f.kind == "stopped" and "grid.sync()" in f.title for f in findings)


FLAGS = """
// Each block adds what the blocks before it have, in the order of the blocks: a chained scan.
__device__ volatile int ready[4096];
__device__ volatile int prefix[4096];
extern "C" __global__ void scan(const int *x, int *out, int n) {
    __shared__ int before;
    int i = blockIdx.x * blockDim.x + threadIdx.x, own = i < n ? x[i] : 0;
    for (int width = 1; width < 32; width *= 2) {
        int other = __shfl_up_sync(~0u, own, width);
        if (threadIdx.x >= width) own += other;
    }
    if (threadIdx.x == 31) {
        int sum = 0;
        if (blockIdx.x > 0) {
            while (!ready[blockIdx.x - 1]) {}
            sum = prefix[blockIdx.x - 1];
        }
        prefix[blockIdx.x] = sum + own;
        __threadfence();
        ready[blockIdx.x] = 1;
        before = sum;
    }
    __syncwarp();
    if (i < n) out[i] = before + own;
}
"""


@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_that_wait_for_flags(backwards):
    """Blocks wait as in a decoupled look-back, also if the awaited block starts last."""
    source = FLAGS
    if backwards:
        source = source.replace("blockIdx.x", "(gridDim.x - 1 - blockIdx.x)")
    kernel = coalesce.Kernel(source, device="sim", instruction_limit=20_000_000)
    x = np.arange(600 * 32, dtype=np.int32) % 11
    out = np.zeros_like(x)
    kernel[600, 32](x, out, x.size)
    np.testing.assert_array_equal(out, np.cumsum(x, dtype=np.int32))


TOGETHER = [pytest.param(launch, id=launch[0]) for launch in counter_cases.cooperative.launches()]


@pytest.mark.parametrize("launch", TOGETHER)
def test_all_devices_and_codes_agree(launch, device):
    """The kernels of cooperative.cu give equal results on a GPU, as PTX and as machine code."""
    entry, grid, block, (words, empty) = launch
    source = (counter_cases.case.KERNELS / "cooperative.cu").read_text()
    cooperative = entry.startswith("grid")
    results = []
    for where, counts in ((device, False), ("sim", False), ("sim", True)):
        out = empty.copy()
        kernel = coalesce.Kernel(source, entry, device=where)
        record = kernel.launch(grid, block, words, out, counts=counts, cooperative=cooperative)
        assert not counts or record.counts.machine_code
        results.append(out & ~np.uint32(1) if entry == "heap_edges" else out)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[1], results[2])
    assert entry == "heap_edges" or len(set(results[0])) > 5 or entry == "grid_sum"
    kernel = coalesce.Kernel(source, entry, device="sim")
    assert not kernel.check(grid, block, words, empty.copy(), cooperative=cooperative)
