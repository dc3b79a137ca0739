"""Clusters of blocks: blocks wait for each other and read each other's shared memory."""

from concurrent.futures import ThreadPoolExecutor

import many_kernels
import numpy as np
import pytest

import coalesce

# Each block of a cluster adds up the values in the other blocks' shared memory.
SUMS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void DIMS k(int *out, const int *x) {
    __shared__ int own[64];
    cg::cluster_group cluster = cg::this_cluster();
    int i = blockIdx.x * 64 + threadIdx.x, sum = 0;
    own[threadIdx.x] = x[i];
    FIRST
    for (int rank = 0; rank < cluster.num_blocks(); ++rank)
        sum += cluster.map_shared_rank(own, rank)[63 - threadIdx.x];
    LAST
    out[i] = sum * 100 + cluster.block_rank();
}
"""


# An atomic or a store reaches the shared memory of another block.
HISTOGRAM = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(8, 1, 1) k(int *out, const int *x, int n) {
    __shared__ int bins[16];
    __shared__ int last;
    auto cluster = cg::this_cluster();
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    cluster.sync();
    for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads())
        atomicAdd(cluster.map_shared_rank(bins, x[i] / 16) + x[i] % 16, 1);
    if (threadIdx.x == 0)
        *cluster.map_shared_rank(&last, (cluster.block_rank() + 1) % 8) = cluster.block_rank();
    cluster.sync();
    if (threadIdx.x < 16) out[blockIdx.x * 16 + threadIdx.x] = bins[threadIdx.x];
    if (threadIdx.x == 0) out[128 + blockIdx.x] = last;
}
"""
APART = """
#include <utility>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int *out) {
    __shared__ int own[96];
    auto cluster = cg::this_cluster();
    int t = threadIdx.x;
    for (int round = 0; round < 5; ++round) {
        own[t] = round * 1000 + blockIdx.x * 100 + t;
        auto token = cluster.barrier_arrive();
        int busy = t * round;
        cluster.barrier_wait(std::move(token));
        out[blockIdx.x * 96 + t] += busy + cluster.map_shared_rank(own, blockIdx.x ^ 1)[95 - t];
        cluster.sync();
    }
}
"""
LATE = """
#include <cooperative_groups.h>
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int *out) {
    __shared__ int own[32];
    auto cluster = cooperative_groups::this_cluster();
    own[threadIdx.x] = 1;
    cluster.sync();
    if (blockIdx.x == 1) return;
    __syncthreads();
    out[threadIdx.x] = cluster.map_shared_rank(own, 1)[threadIdx.x];
}
"""


def sums_of(dims="__cluster_dims__(4, 1, 1)", first="cluster.sync();", last="cluster.sync();"):
    return SUMS.replace("DIMS", dims).replace("FIRST", first).replace("LAST", last)


ALONE = sums_of("")
RACY = sums_of(first="__syncthreads();")
NOT_ARRIVED = sums_of(
    "__cluster_dims__(2, 1, 1)", "if (blockIdx.x == 0) cluster.barrier_wait();", ""
)
KERNELS = many_kernels.together([sums_of(), ALONE, RACY, NOT_ARRIVED, HISTOGRAM, APART, LATE], "k")


def kernel_of(source=None, **how):
    return coalesce.Kernel(*KERNELS[source or sums_of()], **{"device": "sim", **how})


def expected(x: np.ndarray, size: int) -> np.ndarray:
    of_clusters = x.reshape(-1, size, 64)[:, :, ::-1].sum(axis=1, keepdims=True)
    ranks = np.arange(size)[None, :, None]
    return (of_clusters * 100 + ranks).astype(np.int32).reshape(-1)


def test_blocks_read_each_others_shared_memory(device):
    x = np.arange(12 * 64, dtype=np.int32)
    out = np.zeros_like(x)
    kernel_of(device=device)[12, 64](out, x)
    np.testing.assert_array_equal(out, expected(x, 4))


def test_without_clusters_each_block_is_a_cluster(device):
    x = np.arange(6 * 64, dtype=np.int32)
    out = np.zeros_like(x)
    kernel_of(ALONE, device=device)[6, 64](out, x)
    np.testing.assert_array_equal(out, expected(x, 1))


@pytest.mark.parametrize("of_ptx", [False, True])
def test_it_is_counted(of_ptx, monkeypatch):
    if of_ptx:
        monkeypatch.setenv("COALESCE_COUNT_PTX", "1")
    x = np.arange(12 * 64, dtype=np.int32)
    out = np.zeros_like(x)
    record = kernel_of().launch(12, 64, out, x, counts=True)
    np.testing.assert_array_equal(out, expected(x, 4))
    assert record.counts.machine_code == (not of_ptx)
    profile = kernel_of().profile(12, 64, out, x)
    np.testing.assert_array_equal(out, expected(x, 4))
    if not of_ptx:
        assert "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" in profile.exact
        assert "smsp__inst_executed.sum" in profile.exact


PLACES = """
extern "C" __global__ void __cluster_dims__(2, 2, 2) places(int *out) {
    unsigned v[14];
    asm volatile("mov.u32 %0, %cluster_ctaid.x;" : "=r"(v[0]));
    asm volatile("mov.u32 %0, %cluster_ctaid.y;" : "=r"(v[1]));
    asm volatile("mov.u32 %0, %cluster_ctaid.z;" : "=r"(v[2]));
    asm volatile("mov.u32 %0, %cluster_nctaid.x;" : "=r"(v[3]));
    asm volatile("mov.u32 %0, %cluster_nctaid.y;" : "=r"(v[4]));
    asm volatile("mov.u32 %0, %cluster_nctaid.z;" : "=r"(v[5]));
    asm volatile("mov.u32 %0, %clusterid.x;" : "=r"(v[6]));
    asm volatile("mov.u32 %0, %clusterid.y;" : "=r"(v[7]));
    asm volatile("mov.u32 %0, %clusterid.z;" : "=r"(v[8]));
    asm volatile("mov.u32 %0, %nclusterid.x;" : "=r"(v[9]));
    asm volatile("mov.u32 %0, %nclusterid.y;" : "=r"(v[10]));
    asm volatile("mov.u32 %0, %nclusterid.z;" : "=r"(v[11]));
    asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(v[12]));
    asm volatile("{.reg .pred p; mov.pred p, %is_explicit_cluster; selp.u32 %0, 1, 0, p;}"
                 : "=r"(v[13]));
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    for (int i = 0; i < 14; ++i) out[14 * block + i] = v[i];
}
"""


@pytest.mark.parametrize("counts", [False, True])
def test_special_registers(counts):
    out = np.zeros((4, 4, 6, 14), np.int32)  # z, y, x
    coalesce.Kernel(PLACES, device="sim").launch((6, 4, 4), 1, out, counts=counts)
    z, y, x = np.indices((4, 4, 6))
    in_cluster, of_cluster = [x % 2, y % 2, z % 2], [x // 2, y // 2, z // 2]
    rank = x % 2 + 2 * (y % 2) + 4 * (z % 2)
    for column, want in enumerate([*in_cluster, 2, 2, 2, *of_cluster, 3, 2, 2, rank, 1]):
        np.testing.assert_array_equal(out[..., column], np.broadcast_to(want, x.shape))


def test_atomics_and_stores_reach_other_blocks(device):
    x = np.random.default_rng(1).integers(0, 128, 5000).astype(np.int32)
    out = np.zeros(136, np.int32)
    kernel_of(HISTOGRAM, device=device)[8, 96](out, x, x.size)
    np.testing.assert_array_equal(out[:128], np.bincount(x, minlength=128))
    np.testing.assert_array_equal(out[128:], (np.arange(8) - 1) % 8)


def test_arriving_and_waiting_apart(device):
    out = np.zeros((2, 96), np.int32)
    kernel_of(APART, device=device)[2, 96](out)
    t, block = np.arange(96), np.arange(2)[:, None]
    np.testing.assert_array_equal(out, 10 * t + 10000 + 5 * ((block ^ 1) * 100 + 95 - t))


def test_threads_that_have_left_are_not_awaited(device):
    source = """
    extern "C" __global__ void __cluster_dims__(2, 1, 1) some(int *out) {
        if (blockIdx.x == 1 && threadIdx.x >= 40) return;
        asm volatile("barrier.cluster.arrive;\\nbarrier.cluster.wait;" ::: "memory");
        out[blockIdx.x * 64 + threadIdx.x] = 1;
    }"""
    out = np.zeros(128, np.int32)
    coalesce.Kernel(source, device=device)[2, 64](out)
    assert out.sum() == 104


def test_checks_know_the_barrier_of_the_cluster():
    x = np.arange(8 * 64, dtype=np.int32)
    out = np.zeros_like(x)
    assert not kernel_of().check(8, 64, out, x)
    findings = kernel_of(RACY).check(8, 64, out, x)
    assert {f.kind for f in findings} >= {"race"}
    assert any(f.space == "shared" for f in findings)


def test_a_block_that_has_ended_has_no_shared_memory():
    with pytest.raises(coalesce.LaunchError, match="has ended; let the blocks of the cluster wait"):
        kernel_of(LATE)[2, 32](np.zeros(32, np.int32))


def test_wrong_launches():
    x = np.zeros(64 * 12, np.int32)
    with pytest.raises(coalesce.LaunchError, match=r"grid of \(6, 1, 1\) blocks is not a multiple"):
        kernel_of()[6, 64](x, x.copy())
    with pytest.raises(coalesce.LaunchError, match=r"compute capability 9\.0"):
        kernel_of(device="sim:a100", arch=90)[12, 64](x, x.copy())
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(
            coalesce.LaunchError,
            match=r"communicate, with the instruction `(barrier\.cluster|mapa)",
        ),
    ):
        kernel_of().profile(12, 64, x, x.copy(), executor=pool)
    with pytest.raises(coalesce.LaunchError, match="without having arrived there"):
        kernel_of(NOT_ARRIVED)[2, 64](x, x.copy())


def test_chosen_blocks_run_with_their_clusters():
    x = np.arange(12 * 64, dtype=np.int32)
    out = np.zeros_like(x)
    trace = kernel_of().trace(12, 64, out, x, blocks=[5])
    stores = trace.select(array="out", kind="store")
    assert set(map(tuple, trace.block)) == {(5, 0, 0)}
    assert len(stores) == 2
    seen = []
    kernel_of().observe(12, 64, out, x, callback=seen.append)
    np.testing.assert_array_equal(out, expected(x, 4))


def test_a_block_of_a_cluster_is_stepped():
    x = np.arange(8 * 64, dtype=np.int32)
    want = expected(x, 4)
    with kernel_of().step(8, 64, np.zeros_like(x), x, of_block=6) as stepper:
        stepper.finish()
        np.testing.assert_array_equal(stepper.arrays["out"][6 * 64 : 7 * 64], want[384:448])


@pytest.mark.parametrize("rank", [2, 7, 254, 255, 256, 257, 2**31, 2**32 - 1])
def test_a_rank_that_no_block_of_the_cluster_has(rank):
    source = """extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int *out, unsigned rank) {
        __shared__ int own[4];
        own[0] = 5;
        unsigned from = __cvta_generic_to_shared(own), there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(from), "r"(rank));
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(out[blockIdx.x]) : "r"(there));
    }"""
    with pytest.raises(coalesce.LaunchError, match="cluster"):
        coalesce.Kernel(source, "k", device="sim")[2, 1](np.zeros(2, np.int32), rank)
