"""Kernels, traces and errors can be sent to other processes. Needs no GPU."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from jobs import launched

import coalesce
from coalesce.launch.launch import Launch
from coalesce.launch.run import run

SOURCE = """
#include "offset.h"
__device__ int calls = 0;
extern "C" __global__ void add(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += OFFSET * SCALE;
    if (i == 0) ++calls;
}
extern "C" __global__ void tell(int* out) { *out = calls; }
"""


@pytest.fixture
def kernel() -> coalesce.Kernel:
    return coalesce.Kernel(
        SOURCE,
        "add",
        options=["-DSCALE=10"],
        arch=80,
        device="sim",
        instruction_limit=10_000,
        headers={"offset.h": "#define OFFSET 2"},
        filename="add.cu",
    )


def test_everything_a_kernel_was_created_from_is_kept(kernel: coalesce.Kernel) -> None:
    again = pickle.loads(pickle.dumps(kernel))
    assert type(again) is coalesce.Kernel
    assert repr(again) == repr(kernel)
    for name in ("source", "options", "headers", "entry", "entries", "ptx", "instruction_limit"):
        assert getattr(again, name) == getattr(kernel, name), name
    assert '"add.cu"' in again.ptx
    np.testing.assert_array_equal(launched(again, np.zeros(100, np.float32)), np.full(100, 20.0))


def test_an_instantiation_of_a_template() -> None:
    source = "template <class T, int N> __global__ void fill(T* x) { x[threadIdx.x] = N; }"
    kernel = coalesce.Kernel(source, "fill<short, 7>", device="sim")
    again = pickle.loads(pickle.dumps(kernel))
    assert str(again.signature) == str(kernel.signature) == "fill<short, 7>(short *x)"
    x = np.zeros(4, np.int16)
    again[1, 4](x)
    assert x.tolist() == [7, 7, 7, 7]


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "five.h").write_text("#define FIVE 5")
    path = tmp_path / "five.cu"
    path.write_text('#include "five.h"\nextern "C" __global__ void five(int* x) { *x = FIVE; }')
    again = pickle.loads(pickle.dumps(coalesce.Kernel(path, device="sim")))
    x = np.zeros(1, np.int32)
    again[1, 1](x)
    assert x[0] == 5


def test_ptx(kernel: coalesce.Kernel) -> None:
    from_ptx = coalesce.Kernel(kernel.ptx, "add", device="sim")
    again = pickle.loads(pickle.dumps(from_ptx))
    np.testing.assert_array_equal(launched(again, np.zeros(3, np.float32)), [20, 20, 20])


def test_kernels_that_share_variables_share_them_again(kernel: coalesce.Kernel) -> None:
    kernel.globals["calls"] = 40
    add, tell = pickle.loads(pickle.dumps((kernel, kernel.get_function("tell"))))
    launched(add, np.zeros(3, np.float32))
    out = np.zeros(1, np.int32)
    tell[1, 1](out)
    assert out[0] == 1, "a variable has its first value"
    assert kernel.globals["calls"] == 40


def test_copies(kernel: coalesce.Kernel) -> None:
    kernel.globals["calls"] = 40
    assert copy.copy(kernel).globals["calls"] == 40, "a copy is a kernel of the same source"
    assert copy.deepcopy(kernel).globals["calls"] == 0


def test_a_device_that_was_left_open_is_chosen_again(
    kernel: coalesce.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COALESCE_DEVICE", "sim:a100")
    content = pickle.dumps((coalesce.Kernel('extern "C" __global__ void k() {}'), kernel))
    monkeypatch.setenv("COALESCE_DEVICE", "sim:t4")
    chosen, named = pickle.loads(content)
    assert chosen.device.name == "sim:t4"
    assert named.device == kernel.device


def test_launches(kernel: coalesce.Kernel) -> None:
    """Nsight Compute runs a launch again in another process."""
    x = np.zeros(32, np.float32)
    launch = Launch.of(kernel, 2, 16, cooperative=True).bind([x, 20])
    again = pickle.loads(pickle.dumps(launch))
    assert again.kernel.entry == "add"
    assert (again.grid, again.block, again.cooperative) == ((2, 1, 1), (16, 1, 1), True)
    run(again.bind(again.passed))
    assert not x.any()
    assert again.passed[0].tolist() == 20 * [20] + 12 * [0]


def test_a_pool_of_processes(kernel: coalesce.Kernel) -> None:
    spawn = multiprocessing.get_context("spawn")
    inputs = [np.full(100, i, np.float32) for i in range(4)]
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        results = list(executor.map(launched, [kernel] * 4, inputs))
    np.testing.assert_array_equal(results, [x + 20 for x in inputs])


def test_cloudpickle(kernel: coalesce.Kernel) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    job = cloudpickle.loads(cloudpickle.dumps(lambda x: launched(kernel, x)))
    np.testing.assert_array_equal(job(np.zeros(3, np.float32)), [20, 20, 20])


def test_dask(kernel: coalesce.Kernel) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        result = client.submit(launched, kernel, np.zeros(3, np.float32)).result(timeout=120)
    np.testing.assert_array_equal(result, [20, 20, 20])


def test_traces(kernel: coalesce.Kernel) -> None:
    whole = kernel.trace(1, 64, np.zeros(64, np.float32), 64)
    for trace in (whole, whole.select(kind="store"), whole[:1]):
        for again in (pickle.loads(pickle.dumps(trace)), copy.deepcopy(trace)):
            assert str(again) == str(trace)
            assert again.line.tolist() == trace.line.tolist()
    again = pickle.loads(pickle.dumps(whole))
    assert str(again.select(kind="store")) == str(whole.select(kind="store"))


def test_errors_keep_their_type_and_message(kernel: coalesce.Kernel) -> None:
    def error_of(call: object) -> Exception:
        with pytest.raises(coalesce.CoalesceError) as caught:
            call()  # type: ignore[operator]
        return caught.value

    races = 'extern "C" __global__ void k(int* x) { x[0] = threadIdx.x; }'
    x, few = np.zeros(1, np.int32), np.zeros(3, np.float32)
    findings = coalesce.Kernel(races, device="sim").check(1, 64, x)
    for error in (
        error_of(lambda: kernel[1, 64](few, 64)),
        error_of(lambda: coalesce.Kernel("not C++")),
        coalesce.CheckError(str(findings), findings),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
    assert str(again.findings) == str(findings)
