"""Programs of Numba on the simulator: what they compute, and the host functions that they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
import numba_kernels as kernels
from numba import types, vectorize

from coalesce.numba import cuda, simulated

pytestmark = [
    pytest.mark.usefixtures("on_simulator"),
    pytest.mark.skipif(not simulated, reason="Numba uses the GPU of this machine"),
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
]
X = np.arange(100, dtype=np.float32)


def test_numpy_arrays_and_device_arrays_are_arguments() -> None:
    y = np.ones(100, np.float32)
    kernels.saxpy[4, 32](100, 2.0, X, y)
    np.testing.assert_array_equal(y, 2 * X + 1)
    on_device = cuda.to_device(y)
    kernels.saxpy[4, 32](100, 1.0, cuda.to_device(X), on_device)
    np.testing.assert_array_equal(on_device.copy_to_host(), 3 * X + 1)
    np.testing.assert_array_equal(y, 2 * X + 1)
    kernels.saxpy.forall(100)(100, -3.0, X, on_device)
    np.testing.assert_array_equal(on_device.copy_to_host(), np.ones(100))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.complex64, np.complex128])
def test_each_combination_of_types_is_compiled_when_it_is_launched(dtype: type) -> None:
    x, y = X.astype(dtype), np.ones(100, dtype)
    kernels.saxpy[1, 128](100, dtype(1), x, y)
    np.testing.assert_array_equal(y, x + dtype(1))


@pytest.mark.parametrize(
    "change",
    [
        lambda a: cuda.to_device(a),
        lambda a: cuda.to_device(np.asfortranarray(a)),
        lambda a: cuda.to_device(a)[:, ::2],
        lambda a: cuda.to_device(a).T[5:].T,
        lambda a: np.asfortranarray(a),
    ],
    ids=["C", "F", "strided", "transposed", "host F"],
)
def test_matrices_of_any_layout(change: Callable[[Any], Any], random: np.random.Generator) -> None:
    a, b = random.random((40, 60), np.float32), random.random((60, 33), np.float32)
    a, c = change(a), np.zeros((40, 33), np.float32)
    b = b[: a.shape[1]].copy()
    kernels.matmul[(3, 3), (16, 16)](a, b, c)
    np.testing.assert_allclose(c, np.asarray(a) @ b, rtol=1e-4)


def test_parts_of_device_arrays() -> None:
    y = cuda.to_device(np.zeros((10, 10), np.float32))
    kernels.saxpy[1, 32](10, 1.0, X[:10], y[3])
    kernels.saxpy[1, 32](10, 1.0, X[:10], y[:, 4])
    y[0] = 7
    expected = np.zeros((10, 10), np.float32)
    expected[3] += X[:10]
    expected[:, 4] += X[:10]
    expected[0] = 7
    np.testing.assert_array_equal(y.copy_to_host(), expected)


def test_streams_events_and_pinned_memory_keep_the_order() -> None:
    stream, start, end = cuda.stream(), cuda.event(), cuda.event()
    pinned = cuda.pinned_array(100, np.float32)
    pinned[:] = X
    with stream.auto_synchronize():
        start.record(stream)
        x = cuda.to_device(pinned, stream=stream)
        y = cuda.device_array_like(x, stream=stream)
        y.copy_to_device(np.ones(100, np.float32), stream=stream)
        kernels.saxpy[1, 128, stream](100, 2.0, x, y)
        y.copy_to_host(pinned, stream=stream)
        end.record(stream)
    end.synchronize()
    assert cuda.event_elapsed_time(start, end) >= 0
    np.testing.assert_array_equal(pinned, 2 * X + 1)
    own = X.copy()
    with cuda.pinned(own), cuda.defer_cleanup():
        np.testing.assert_array_equal(cuda.to_device(own, stream).copy_to_host(), own)


@pytest.mark.parametrize("make", ["mapped_array", "managed_array"])
def test_memory_of_host_and_device(make: str) -> None:
    y = getattr(cuda, make)(100, np.float32)
    y[:] = 1
    kernels.saxpy[1, 128](100, 2.0, X, y)
    cuda.synchronize()
    np.testing.assert_array_equal(np.asarray(y), 2 * X + 1)
    mapped = np.ones(100, np.float32)
    with cuda.mapped(mapped) as on_device:
        kernels.saxpy[1, 128](100, 2.0, X, on_device)
    np.testing.assert_array_equal(mapped, 2 * X + 1)


def test_functions_of_the_device() -> None:
    counts = np.zeros(7, np.int32)
    values = np.arange(1000, dtype=np.int32) % 7
    kernels.histogram[2, 64](values, counts)
    np.testing.assert_array_equal(counts, np.bincount(values))
    out = np.zeros(100, np.float32)
    kernels.hypotenuses[1, 128](X, X, out)
    np.testing.assert_allclose(out, np.hypot(X, X), rtol=1e-6)
    sums = np.zeros(3, np.float32)
    kernels.warp_sums[1, 96](X[:96], sums)
    np.testing.assert_array_equal(sums, X[:96].reshape(3, 32).sum(axis=1))


def test_dynamic_shared_memory_and_cooperative_launches() -> None:
    x = np.arange(50, dtype=np.int32)
    kernels.dynamic_reverse[1, 50, 0, 200](x)
    np.testing.assert_array_equal(x, np.arange(50)[::-1])
    expected = x.copy()
    for _ in range(3):
        expected[1:] += expected[:-1].copy()
    kernels.grid_steps[5, 10](x)
    np.testing.assert_array_equal(x, expected)


def test_reductions_and_universal_functions() -> None:
    add = cuda.reduce(lambda a, b: a + b)
    assert add(X) == X.sum()

    @vectorize(["float32(float32, float32)"], target="cuda")
    def difference(a: float, b: float) -> float:
        return a - b

    np.testing.assert_array_equal(difference(X, 2 * X), -X)


def test_records_tuples_and_constants() -> None:
    point = np.dtype([("x", np.float32), ("id", np.int32)], align=True)
    table = np.array([1.5, 2.5, 4], np.float32)

    @cuda.jit
    def change(points: Any, one: Any, pair: Any) -> None:
        constant = cuda.const.array_like(table)
        scratch = cuda.local.array(3, types.int32)
        i = cuda.threadIdx.x
        scratch[i % 3] = one["id"]
        points[i].x = constant[i % 3] + pair[1][i]
        points[i].id = scratch[i % 3] + pair[0]

    points = np.zeros(3, point)
    change[1, 3](points, np.array((0.5, 40), point)[()], (2, X))
    assert points.tolist() == [(1.5, 42), (3.5, 42), (6, 42)]


def test_output_and_exceptions_of_kernels(capfd: pytest.CaptureFixture[str]) -> None:
    @cuda.jit
    def hello(x: Any) -> None:
        print("thread", cuda.threadIdx.x, x[0])

    hello[1, 2](X)
    cuda.synchronize()
    assert capfd.readouterr().out == "thread 0 0.000000\nthread 1 0.000000\n"

    @cuda.jit(debug=True, opt=False)
    def wrong(x: Any) -> None:
        if cuda.threadIdx.x == 3:
            raise ValueError("not this thread")
        x[cuda.threadIdx.x] = 1

    with pytest.raises(ValueError, match=r"tid=\[0, 0, 3\].*not this thread"):
        wrong[1, 4](X.copy())
    wrong[1, 3](X.copy())


def test_files_in_cuda_cpp_are_linked(tmp_path: Any) -> None:
    file = tmp_path / "twice.cu"
    file.write_text(
        'extern "C" __device__ int twice(float *result, float x) { *result = 2 * x; return 0; }'
    )
    twice = cuda.declare_device("twice", "float32(float32)", link=str(file))

    @cuda.jit
    def double(x: Any) -> None:
        x[cuda.threadIdx.x] = twice(x[cuda.threadIdx.x])

    x = X[:32].copy()
    double[1, 32](x)
    np.testing.assert_array_equal(x, 2 * X[:32])


def test_random_numbers() -> None:
    from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    states = create_xoroshiro128p_states(64, seed=1)

    @cuda.jit
    def draw(states: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

    out = np.zeros(64, np.float32)
    draw[2, 32](states, out)
    assert len(set(out.tolist())) == 64
    assert 0 <= out.min() < out.max() < 1


def test_kernels_with_debug_information_call_functions() -> None:
    x = X[:32].copy()
    kernels.debugged[1, 32](x)
    np.testing.assert_array_equal(x, 2 * X[:32] + 1)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int64", "bool", "complex64"])
def test_tensors_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = torch.arange(100).to(getattr(torch, name))
    y = torch.zeros_like(x)
    kernels.copy[4, 32](x, y)
    assert torch.equal(x, y)


def test_tensors_of_torch_in_any_layout() -> None:
    torch = pytest.importorskip("torch")
    base = torch.zeros(8, 8)
    for part in (base, base.t(), base[1:5, ::2], base[2].expand(4, 8)[:1]):
        part += 1
        kernels.double_matrix[1, (8, 8)](part)
        assert (part == 2).all()
        part[...] = 0
        assert not base.any()
    one = torch.ones(5, requires_grad=True)
    kernels.copy[1, 32](torch.full((5,), 3.0), one)
    assert one.tolist() == [3.0] * 5
    scalar = torch.tensor(4.0)
    kernels.double_scalar[1, 1](scalar)
    assert scalar == 8
