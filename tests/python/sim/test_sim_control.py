"""Geometry, traps and clocks. typed_kernels.py has branches, loops and calls."""

import numpy as np
import pytest
from both_ways import run

import coalesce


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        (5, 70),
        ((3, 2), (8, 5)),
        ((2, 3, 4), (4, 3, 5)),
        ((1, 1, 7), (1, 1, 64)),
        (1, 1024),
        (70000, 1),
    ],
)
def test_geometry(device, grid, block):
    g = grid if isinstance(grid, tuple) else (grid,)
    b = block if isinstance(block, tuple) else (block,)
    gx, gy, gz = (*g, 1, 1)[:3]
    bx, by, bz = (*b, 1, 1)[:3]
    threads = gx * gy * gz * bx * by * bz
    out = np.full((threads, 4), -1, np.int32)
    run(
        device,
        """
        extern "C" __global__ void __launch_bounds__(1024) k(int4 *out) {
            int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
            int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
            int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
            out[at] = make_int4(threadIdx.x + blockIdx.x * 1000, threadIdx.y + blockIdx.y * 1000,
                                threadIdx.z + blockIdx.z * 1000, at + warpSize);
        }""",
        out,
        grid=grid,
        block=block,
    )
    z, y, x, tz, ty, tx = np.unravel_index(np.arange(threads), (gz, gy, gx, bz, by, bx))
    want = np.stack([tx + 1000 * x, ty + 1000 * y, tz + 1000 * z, np.arange(threads) + 32], 1)
    np.testing.assert_array_equal(out, want)


def test_clocks_go_forward(device):
    out = np.zeros((3, 32), np.int64)
    source = """
        extern "C" __global__ void k(long long *out) {
            int i = threadIdx.x;
            long long start = clock64();
            unsigned long long t0, t1;
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
            float s = 0;
            for (int j = 0; j < 5000; ++j) s += sqrtf(s + j);
            __nanosleep(1000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
            out[i] = clock64() - start;
            out[32 + i] = t1 >= t0;
            out[64 + i] = s;
        }"""
    coalesce.Kernel(source, "k", device=device)[1, 32](out)
    assert (out[0] > 0).all()
    assert out[1].all()


def test_launch_bounds_are_kept(on_simulator):
    source = 'extern "C" __global__ void __launch_bounds__(64) k(int *x) { x[threadIdx.x] = 1; }'
    x = np.zeros(128, np.int32)
    run(on_simulator, source, x, block=64)
    with pytest.raises(coalesce.LaunchError):
        run(on_simulator, source, x, block=96)
