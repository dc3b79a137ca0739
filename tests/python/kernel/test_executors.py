"""Counting in other threads, processes and on a Dask cluster gives the same counts."""

import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import coalesce

SCATTER = """\
__device__ int offset = 3;
extern "C" __global__ void scatter(float* x, const int* index, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x * 5 % 64] = i < n ? x[(index[i] + offset) % n] : 0;
    __syncthreads();
    if (i < n && blockIdx.x % 3 == 0) atomicAdd(&x[i], tile[threadIdx.x]);
}
"""


def profile(**options):
    random = np.random.default_rng(3)
    x, index = np.ones(5000, np.float32), random.integers(0, 5000, 5000).astype(np.int32)
    kernel = coalesce.Kernel(SCATTER, "scatter", device="sim")
    p = kernel.profile(79, 64, x, index, 5000, **options)
    return p, x


class Immediate:
    """An executor that runs each job at once, so that a test can see every job."""

    def __init__(self):
        self.jobs = 0

    def submit(self, call, *arguments):
        self.jobs += 1
        future = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


def assert_same_counts(p, exact):
    assert [i.executed for i in p.instructions()] == [i.executed for i in exact.instructions()]
    metrics = exact.metrics()
    for name in [name for name, why in exact.inexact.items() if why == "modelled"]:
        metrics.pop(name)
    assert p.metrics() == metrics
    assert [a.name for a in p.accesses()] == [a.name for a in exact.accesses()]
    assert all(a.example is not None for a in p.accesses())
    assert [line.sentence != "" for line in p.lines()] == [x.sentence != "" for x in exact.lines()]


def test_jobs_add_up_to_the_same_counts():
    exact, changed = profile()
    executor, seen = Immediate(), []
    p, x = profile(executor=executor, progress=lambda done, total: seen.append((done, total)))
    assert_same_counts(p, exact)
    assert executor.jobs > 1
    assert seen[-1] == (79, 79)
    assert len(seen) == executor.jobs
    assert changed.sum() > 5000
    assert x.sum() == 5000  # The arrays are unchanged.
    assert p.modelled_ms is None


def test_threads():
    with ThreadPoolExecutor(3) as executor:
        assert_same_counts(profile(executor=executor)[0], profile()[0])


def test_processes():
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        assert_same_counts(profile(executor=executor)[0], profile()[0])


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_dask(processes):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=processes, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert_same_counts(profile(executor=client.get_executor())[0], profile()[0])


def test_operations():
    a, b = np.ones((2, 128, 128), np.float32)
    p = coalesce.profile("matmul", a, b, variant="corner_turned", executor=Immediate())
    exact = coalesce.profile("matmul", a, b, variant="corner_turned")
    assert_same_counts(p, exact)


def test_faults_are_raised_in_the_calling_process():
    kernel = coalesce.Kernel(SCATTER, "scatter", device="sim")
    x, index = np.ones(100, np.float32), np.zeros(100, np.int32)
    with pytest.raises(coalesce.MemoryFault, match="index"):
        kernel.profile(79, 64, x, index, 5000, executor=Immediate())


def test_no_executor():
    with pytest.raises(TypeError, match="must be a concurrent"):
        profile(executor=4)
