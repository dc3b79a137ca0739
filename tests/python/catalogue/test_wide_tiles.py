"""Tiles of cooperative_groups.h that are wider than a warp. Their memory is that of the system."""

import many_kernels
import numpy as np
import pytest
from both_ways import both_ways, same_as_gpu

import coalesce

TILES = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(
    const float* a, float* sums, float* before, float* other, float* reversed) {
    __shared__ cg::block_tile_memory<256> memory;
    __shared__ float s[256];
    auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block(memory));
    const int t = threadIdx.x;
    s[t] = a[t];
    sums[t] = cg::reduce(tile, a[t], cg::plus<float>());
    before[t] = cg::exclusive_scan(tile, a[t]);
    other[t] = tile.shfl(a[t], 40) + tile.any(a[t] > 200) + 1000 * tile.all(a[t] < 128);
    tile.sync();
    reversed[t] = s[tile.meta_group_rank() * SIZE + SIZE - 1 - tile.thread_rank()];
}
"""
TOTAL = """
#include <cooperative_groups.h>
__global__ void k(int* out) {
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()).sync();
    out[threadIdx.x] = s[63 - threadIdx.x];
    if (threadIdx.x == 0) asm("mov.u32 %0, %%total_smem_size;" : "=r"(out[64]));
}
"""

SIZES = (64, 128, 256)
CHANGES = {
    "none": (),
    "without a barrier": (("tile.sync();", ""),),
    "written after the collective operations": (
        ("s[t] = a[t];", ""),
        ("tile.sync();", "s[t] = a[t];"),
    ),
}


def source_of(size: int, change: str = "none") -> str:
    source = TILES.replace("SIZE", str(size))
    for old, new in CHANGES[change]:
        source = source.replace(old, new)
    return source


KERNELS = many_kernels.together(
    [source_of(size) for size in SIZES]
    + [source_of(size, change) for size in (64, 256) for change in list(CHANGES)[1:]],
    "k",
)


def expected(a: np.ndarray, size: int) -> list[np.ndarray]:
    tiles = a.reshape(-1, size)
    scan = np.cumsum(tiles, 1) - tiles
    other = tiles[:, 40] + (tiles > 200).any(1) + 1000 * (tiles < 128).all(1)
    return [
        np.repeat(tiles.sum(1), size),
        scan.ravel(),
        np.repeat(other, size),
        tiles[:, ::-1].ravel(),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_results(size: int, device: str) -> None:
    a, outputs = np.arange(256, dtype=np.float32), np.zeros((4, 256), np.float32)
    coalesce.Kernel(*KERNELS[source_of(size)], device=device)[1, 256](a, *outputs)
    np.testing.assert_array_equal(outputs, expected(a, size))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_results_of_other_architectures(arch: str) -> None:
    """The memory is an array of the kernel on sm_75. From sm_80 on, it is that of the system."""
    a, outputs = np.arange(256, dtype=np.float32), np.zeros((4, 256), np.float32)
    kernel = coalesce.Kernel(source_of(64), device="sim", arch=arch)
    kernel[1, 256](a, *outputs)
    np.testing.assert_array_equal(outputs, expected(a, 64))


@pytest.mark.usefixtures("machine_code")
def test_machine_code() -> None:
    a, outputs = np.arange(256, dtype=np.float32), np.zeros((4, 256), np.float32)
    kernel = coalesce.Kernel(*KERNELS[source_of(128)], device="sim")
    _, *results = both_ways(kernel, 1, 256, a, *outputs)
    np.testing.assert_array_equal(results, expected(a, 128))


@pytest.mark.parametrize("size", [64, 256])
def test_a_check_knows_that_a_tile_synchronizes(size: int) -> None:
    """Accesses to the system's memory, which cooperative_groups.h makes, are not reported."""
    a, outputs = np.arange(256, dtype=np.float32), np.zeros((4, 256), np.float32)
    kernel, unsynchronized, racy = (
        coalesce.Kernel(*KERNELS[source_of(size, change)], device="sim") for change in CHANGES
    )
    assert not kernel.check(1, 256, a, *outputs)
    # The collective operations synchronize, too.
    assert not unsynchronized.check(1, 256, a, *outputs)
    assert "race on s" in str(racy.check(1, 256, a, *outputs))


@pytest.mark.parametrize("counts", [False, True])
def test_the_size_of_shared_memory_does_not_change(counts: bool) -> None:
    out = np.zeros(65, np.int32)
    kernel = coalesce.Kernel(TOTAL, device="sim")
    kernel.launch(1, 64, out, shared_bytes=1000, counts=counts)
    np.testing.assert_array_equal(out, [*range(63, -1, -1), 1000])


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("size", SIZES)
def test_the_order_of_sums(size: int, device: str, random: np.random.Generator) -> None:
    """The sums of random floats show the order in which they are added."""
    a = random.normal(size=256).astype(np.float32) * 300
    source, entry = KERNELS[source_of(size)]
    same_as_gpu(source, device, 1, 256, a, *np.zeros((4, 256), np.float32), entry=entry)
