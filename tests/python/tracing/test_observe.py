"""A function receives all events in order, in batches; an exception in it ends the launch."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from both_ways import bound

import coalesce
from coalesce.simulate import counting

SOURCE = """extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[(i + 1) % n];
}"""
N, GRID, BLOCK = 1000, 11, 96


@pytest.fixture
def kernel(on_simulator):
    return coalesce.Kernel(SOURCE, device=on_simulator)


@pytest.fixture
def arrays():
    return np.arange(N, dtype=np.float32), np.zeros(N, np.float32)


@pytest.mark.parametrize("batch", [1, 7, 64, 65536])
def test_batches_are_the_trace(kernel, arrays, batch):
    seen = []
    count = kernel.observe(GRID, BLOCK, *arrays, N, callback=seen.append, batch=batch)
    trace = kernel.trace(GRID, BLOCK, *arrays, N)
    assert count == len(trace) == sum(map(len, seen))
    assert max(map(len, seen)) <= batch
    for name in ("block", "warp", "step", "execution", "instruction", "mask", "addresses", "index"):
        joined = np.concatenate([getattr(part, name) for part in seen])
        np.testing.assert_array_equal(joined, getattr(trace, name), name)
    x, y = arrays
    np.testing.assert_array_equal(y, x + np.roll(x, -1))


def test_a_tool(kernel, arrays):
    reads = np.zeros(N, int)

    def count(trace):
        index = trace.select(array="x", kind="load").index
        np.add.at(reads, index[index >= 0], 1)

    kernel.observe(GRID, BLOCK, *arrays, N, callback=count, batch=50)
    assert (reads == 2).all()


def test_chosen_events(kernel, arrays):
    seen = []
    kernel.observe(GRID, BLOCK, *arrays, N, callback=seen.append, blocks=[3, 5], warps=1, lines=3)
    assert {tuple(b) for part in seen for b in part.block.tolist()} == {(3, 0, 0), (5, 0, 0)}
    assert {w for part in seen for w in part.warp.tolist()} == {1}
    assert not arrays[1].any()


def test_an_exception_ends_the_launch(kernel, arrays):
    calls = []

    def stop(trace):
        calls.append(len(trace))
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        kernel.observe(GRID, BLOCK, *arrays, N, callback=stop, batch=3)
    assert len(calls) == 1


def test_blocks_that_wait_for_later_ones(on_simulator):
    source = """extern "C" __global__ void k(volatile int* flags, int* out) {
        if (blockIdx.x + 1 < gridDim.x) while (flags[blockIdx.x + 1] == 0);
        out[blockIdx.x] = blockIdx.x;
        __threadfence();
        flags[blockIdx.x] = 1;
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator, instruction_limit=50_000_000)
    out, seen = np.zeros(5, np.int32), []
    kernel.observe(5, 1, np.zeros(5, np.int32), out, callback=seen.append)
    assert out.tolist() == list(range(5))
    stores = [part.select(array="out") for part in seen]
    assert sum(map(len, stores)) == 5


def test_wrong_arguments_are_reported(kernel, arrays):
    with pytest.raises(
        TypeError, match="`callback` must be a function that takes a Trace; got int"
    ):
        kernel.observe(GRID, BLOCK, *arrays, N, callback=3)
    with pytest.raises(ValueError, match="`batch` must be at least 1"):
        kernel.observe(GRID, BLOCK, *arrays, N, callback=print, batch=0)


EXCHANGES = {
    "ticket": (
        "if (atomicAdd(total, 1) == gridDim.x - 1) out[0] = 1;",
        "`atom.global.add.u32` in line 2",
    ),
    "spin": ("while (*(volatile int*)total < 3);", "`ld.volatile.global.u32` in line 2"),
}


@pytest.mark.parametrize("body", EXCHANGES)
def test_blocks_that_communicate_are_not_distributed(body, on_simulator):
    text, message = EXCHANGES[body]
    source = f'extern "C" __global__ void k(int* total, int* out) {{\n{text}\n}}'
    kernel = coalesce.Kernel(source, device=on_simulator)
    arguments = [np.zeros(1, np.int32), np.zeros(1, np.int32)]
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(coalesce.LaunchError, match=message) as caught,
    ):
        counting.count(bound(kernel, 4, 32, arguments), executor=pool)
    assert "leave out `executor`" in str(caught.value)


def test_atomics_whose_result_is_not_used_are_distributed(on_simulator):
    source = """extern "C" __global__ void k(int* total) {
        __shared__ int own;
        if (threadIdx.x == 0) own = 0;
        __syncthreads();
        int n = atomicAdd(&own, 1);
        if (n == 31) atomicAdd(total, own);
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    arguments = [np.zeros(1, np.int32)]
    with ThreadPoolExecutor(1) as pool:
        shared = counting.count(bound(kernel, 100, 32, arguments), executor=pool)
    assert shared.counts == counting.count(bound(kernel, 100, 32, arguments)).counts
