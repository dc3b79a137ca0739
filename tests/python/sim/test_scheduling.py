"""Threads that wait for each other make progress: lanes, warps of a block, blocks of a grid."""

import os
import subprocess
import sys

import numpy as np
import pytest

import coalesce


def kernel(source, device):
    # The limit ends a simulated run that hangs. These kernels need far fewer instructions.
    return coalesce.Kernel(source, device=device, instruction_limit=500_000_000)


def test_a_warp_waits_for_another(device):
    source = """__global__ void hand_over(int *out) {
        __shared__ volatile int ready, value;
        if (threadIdx.x == 0) ready = 0;
        __syncthreads();
        if (threadIdx.x == 32) { while (ready == 0); out[0] = value; }
        if (threadIdx.x == 0) {
            for (int i = 0; i < 1000; ++i) value = i;
            __threadfence_block();
            ready = 1;
        }
    }"""
    out = np.zeros(1, np.int32)
    kernel(source, device)[1, 64](out)
    assert out[0] == 999


def test_blocks_wait_for_all_others(device):
    """All blocks wait at a barrier of the grid; all are resident, as in a cooperative launch."""
    source = """__global__ void together(volatile int *arrived, int *seen) {
        if (threadIdx.x == 0) {
            atomicAdd((int *)arrived, 1);
            while (*arrived < gridDim.x);
        }
        __syncthreads();
        seen[blockIdx.x * blockDim.x + threadIdx.x] = *arrived;
    }"""
    seen = np.zeros((16, 64), np.int32)
    kernel(source, device)[16, 64](np.zeros(1, np.int32), seen)
    assert (seen == 16).all()


def test_a_block_waits_for_the_previous_block(device, random):
    source = """__global__ void scan(const float *a, float *out, volatile float *sums,
                                     volatile int *ready, int n) {
        __shared__ float s[256];
        __shared__ float before;
        int t = threadIdx.x, i = blockIdx.x * 256 + t;
        s[t] = i < n ? a[i] : 0;
        __syncthreads();
        for (int d = 1; d < 256; d *= 2) {
            float v = t >= d ? s[t - d] : 0;
            __syncthreads();
            s[t] += v;
            __syncthreads();
        }
        if (t == 0) {
            before = 0;
            if (blockIdx.x > 0) {
                while (ready[blockIdx.x - 1] == 0);
                __threadfence();
                before = sums[blockIdx.x - 1];
            }
            sums[blockIdx.x] = before + s[255];
            __threadfence();
            ready[blockIdx.x] = 1;
        }
        __syncthreads();
        if (i < n) out[i] = s[t] + before;
    }"""
    n, blocks = 20_000, 79
    a = random.integers(0, 5, n).astype(np.float32)
    out = np.zeros_like(a)
    kernel(source, device)[blocks, 256](
        a, out, np.zeros(blocks, np.float32), np.zeros(blocks, np.int32), n
    )
    np.testing.assert_array_equal(out, a.cumsum())


def test_named_barriers_of_some_warps(device):
    """bar.sync with a thread count: two warps wait for each other and the third does not."""
    source = """__global__ void pairs(int *out) {
        __shared__ int s[64];
        int t = threadIdx.x;
        if (t < 64) {
            s[t] = t;
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[t] = s[t ^ 32];
        } else {
            out[t] = -t;
        }
    }"""
    out = np.zeros(96, np.int32)
    kernel(source, device)[1, 96](out)
    t = np.arange(96)
    np.testing.assert_array_equal(out, np.where(t < 64, t ^ 32, -t))


PINNED = """
import os, threading, time
import numpy as np
import coalesce
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
source = '''__global__ void k(float *x, int n) {
    for (int i = 0; i < n; ++i) x[blockIdx.x] = x[blockIdx.x] * 0.5f + 1; }'''
kernel = coalesce.Kernel(source, device="sim")
x = np.zeros(16, np.float32)
kernel[16, 32](x, 1)
threads, done = set(), threading.Event()
def watch():
    while not done.wait(0.001):
        threads.add(len(os.listdir("/proc/self/task")))
watcher = threading.Thread(target=watch)
watcher.start()
time.sleep(0.05)
before = max(threads)
kernel[16, 32](x, 100_000)
done.set()
watcher.join()
print(max(threads) - before)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_process_on_one_core_starts_no_threads():
    done = subprocess.run(
        [sys.executable, "-c", PINNED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "0\n", done.stderr


def run(kernel, grid, block, *arguments):
    kernel[grid, block](*arguments)


def check(kernel, grid, block, *arguments):
    assert not kernel.check(grid, block, *arguments)


def profile(kernel, grid, block, *arguments):
    kernel.profile(grid, block, *arguments)


@pytest.mark.parametrize("call", [run, check, profile])
@pytest.mark.parametrize(
    "waits",
    [
        "while (atomicAdd(x, 0) < gridDim.x);",
        "while (atomicOr(x, 0) < gridDim.x) __nanosleep(100);",
        "while (atomicCAS(x, 0, 0) < gridDim.x);",
        # Each block waits until it can replace the number of the next one by its own.
        "while (atomicCAS(x + 1, last - b, last - b + 1) != last - b);",
    ],
)
def test_blocks_that_poll_with_atomics(call, waits):
    source = f"""__global__ void k(int *x, int *out) {{
        int b = blockIdx.x, last = gridDim.x - 1;
        if (threadIdx.x == 0) {{
            atomicAdd(x, 1);
            {waits}
        }}
        __syncthreads();
        out[b * blockDim.x + threadIdx.x] = 1;
    }}"""
    out = np.zeros(9 * 64, np.int32)
    call(coalesce.Kernel(source, device="sim"), 9, 64, np.zeros(2, np.int32), out)
    assert call is profile or out.all()


@pytest.mark.parametrize("call", [run, check, profile])
def test_blocks_that_search_for_work_until_no_block_has_any(call):
    """A loop with atomics and barriers, which ends when the last block has done its work."""
    source = """__global__ void k(int *next, int *out) {
        __shared__ bool done;
        for (;;) {
            if (threadIdx.x == 0) {
                int mine = gridDim.x - 1 - blockIdx.x;
                if (atomicCAS(next, mine, mine + 1) == mine) out[blockIdx.x] = 1;
                done = atomicAdd(next, 0) == gridDim.x;
            }
            __syncthreads();
            if (done) break;
            __syncthreads();
        }
    }"""
    out = np.zeros(5, np.int32)
    call(coalesce.Kernel(source, device="sim"), 5, 64, np.zeros(1, np.int32), out)
    assert call is profile or out.all()


@pytest.mark.parametrize(
    ("blocks", "polls"),
    [
        (2112, "while (*(volatile int *)&arrived < gridDim.x);"),
        (3000, "while (*(volatile int *)&arrived < gridDim.x);"),
        (3000, "while (atomicAdd(&arrived, 0) < gridDim.x) __nanosleep(100);"),
    ],
)
def test_blocks_that_wait_for_blocks_that_cannot_start(blocks, polls):
    """An H200 can hold 2,112 blocks of 128 threads."""
    source = f"""__device__ int arrived;
    __global__ void all(int *out) {{
        if (threadIdx.x == 0) {{
            atomicAdd(&arrived, 1);
            {polls}
            out[blockIdx.x] = 1;
        }}
    }}"""
    out = np.zeros(blocks, np.int32)
    waits = coalesce.Kernel(source, device="sim:h200")
    if blocks == 2112:
        waits[blocks, 128](out)
        assert out.all()
        return
    said = r"the running blocks wait for blocks that cannot start\n.* 3000 blocks, and at most 2112"
    with pytest.raises(coalesce.LaunchError, match=said):
        waits[blocks, 128](out)
