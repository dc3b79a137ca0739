"""This package and other libraries exchange GPU arrays. Most of these tests need a GPU."""

from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.array import DeviceArray, to_device
from coalesce.arrays import foreign
from coalesce.errors import DeviceUnavailable, LaunchError

SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}"""


class Interface:
    """An array of another library that has only the CUDA array interface."""

    def __init__(self, array: DeviceArray, **changes: Any) -> None:
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


class Pretended:
    """An interface without memory, for calls that must be refused before they access memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (4,), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3}


class Exchange:
    """An array of another library that has only DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.__dlpack_device__()
        return device


@pytest.fixture
def gpu(device: str) -> str:
    """Skip the test if no GPU is under test."""
    if device != "cuda":
        pytest.skip("needs --device cuda")
    return device


@pytest.fixture
def scale(gpu: str) -> coalesce.Kernel:
    return coalesce.Kernel(SCALE, device=gpu)


def test_a_gpu_array_on_the_simulator_is_refused() -> None:
    kernel = coalesce.Kernel(SCALE, device="sim")
    with pytest.raises(
        ValueError, match=r"`x` \(float \*\) is a GPU array, but the kernel runs on sim:h200"
    ):
        kernel[1, 32](Pretended(), 1.0, 4)


def test_without_a_gpu_device_arrays_say_why() -> None:
    if coalesce.gpu_status():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceUnavailable):
        to_device(np.zeros(3), "cuda")


def test_host_arrays_of_other_libraries_through_dlpack() -> None:
    x = np.arange(4, dtype=np.float32)
    view = foreign.find_host_array(Exchange(x))
    assert view is not None
    assert np.shares_memory(view, x)


def test_copies_to_the_device_and_back(gpu: str) -> None:
    for dtype in ("f4", "f8", "i1", "u2", "i8", "b1", "c8", "f2"):
        x = (np.arange(24) % 2).astype(dtype).reshape(2, 3, 4)
        d = to_device(x, gpu)
        assert (d.shape, d.dtype, d.ndim, d.size, d.nbytes, len(d)) == (
            x.shape, x.dtype, 3, 24, x.nbytes, 2,
        )  # fmt: skip
        np.testing.assert_array_equal(d.get(), x)
        np.testing.assert_array_equal(np.asarray(d), x)
    assert repr(d) == "DeviceArray(shape=(2, 3, 4), dtype=float16, device='cuda:0')"


@pytest.mark.usefixtures("gpu")
def test_layouts_and_sizes() -> None:
    for x in (
        np.arange(12.0).reshape(3, 4).T,
        np.zeros((0, 3)),
        np.float64(3),
        np.arange(10)[::-2],
    ):
        np.testing.assert_array_equal(to_device(x).get(), x)
    big = np.random.default_rng(1).random(9_000_001)
    out = np.empty_like(big)
    assert to_device(big).get(out) is out
    np.testing.assert_array_equal(out, big)
    d = to_device(np.arange(6.0))
    np.testing.assert_array_equal(d.reshape(2, -1).get(), np.arange(6.0).reshape(2, 3))
    with pytest.raises(ValueError, match=r"cannot be reshaped to \(4,\)"):
        d.reshape(4)
    with pytest.raises(ValueError, match="`out` must be C-contiguous"):
        d.get(np.empty(6, np.float32))
    with pytest.raises(
        TypeError, match="must hold numbers of at most 16 bytes, in this machine's byte order"
    ):
        to_device(np.zeros(3, object))


@pytest.mark.usefixtures("gpu")
def test_out_of_memory_says_how_much() -> None:
    with pytest.raises(
        LaunchError, match=r"out of GPU memory: .* needs \d+ MiB; cuda:0 .* free of"
    ):
        DeviceArray.empty(2**46, np.float32)
    assert to_device(np.ones(3)).get().tolist() == [1, 1, 1]


def test_launches_use_gpu_memory_in_place(scale: coalesce.Kernel) -> None:
    d = to_device(np.ones(100, np.float32))
    for wrapped in (d, Interface(d), Interface(d, stream=None), Exchange(d)):
        assert scale[1, 128](wrapped, 3.0, 100) is None
    assert (d.get() == 81).all()
    host = np.ones(4, np.float32)
    scale[1, 32](host, 2.0, 4)
    assert host.tolist() == [2] * 4


def test_gpu_arrays_that_do_not_fit(scale: coalesce.Kernel) -> None:
    with pytest.raises(
        TypeError, match=r"`x` \(float \*\) needs .* float32; got a GPU array of float64"
    ):
        scale[1, 32](to_device(np.zeros(3)), 1.0, 3)
    d = to_device(np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="not C-contiguous"):
        scale[1, 32](Interface(d, strides=(4, 12)), 1.0, 3)
    with pytest.raises(ValueError, match="'stream' is 0"):
        scale[1, 32](Interface(d, stream=0), 1.0, 3)
    with pytest.raises(ValueError, match="read-only GPU array"):
        scale[1, 32](Interface(d, data=(d.__cuda_array_interface__["data"][0], True)), 1.0, 3)


def test_cupy(scale: coalesce.Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.ones(1000, cupy.float32)
    scale[8, 128](x, cupy.float32(2), np.int32(1000))
    assert (x == 2).all()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        y = cupy.zeros(1 << 20, cupy.float32)
        y += 1
        scale[4096, 256](y, 5.0, y.size)
        y += 1
        stream.synchronize()
        assert float(y.min()) == float(y.max()) == 6
        both = to_device(np.ones(4, np.float32))
        scale[1, 32](both, 2.0, 4)
    with pytest.raises(ValueError, match="not C-contiguous"):
        scale[1, 32](cupy.zeros((4, 4), cupy.float32).T, 1.0, 4)
    with pytest.raises(TypeError, match="got a GPU array of float64"):
        scale[1, 32](cupy.zeros(4), 1.0, 4)
    d = to_device(np.arange(5, dtype=np.float32))
    assert cupy.asarray(d).data.ptr == d.__cuda_array_interface__["data"][0]
    assert cupy.from_dlpack(d).sum() == 10
    np.testing.assert_array_equal(to_device(x).get(), np.full(1000, 2))


def test_torch(scale: coalesce.Kernel) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(1000, device="cuda")
    scale[8, 128](x, 2.0, 1000)
    assert bool((x == 2).all())
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = torch.zeros(1 << 20, device="cuda")
        y += 1
        scale[4096, 256](y, 5.0, y.numel())
        y += 1
    stream.synchronize()
    assert float(y.min()) == float(y.max()) == 6
    with pytest.raises(ValueError, match="not C-contiguous"):
        scale[1, 32](torch.zeros(4, 4, device="cuda").t(), 1.0, 4)
    with pytest.raises(TypeError, match="got a GPU array of bfloat16"):
        scale[1, 32](torch.zeros(4, device="cuda", dtype=torch.bfloat16), 1.0, 4)
    d = to_device(np.arange(5, dtype=np.float32))
    shared = torch.from_dlpack(d)
    assert shared.data_ptr() == d.__cuda_array_interface__["data"][0]
    shared += 1
    torch.cuda.synchronize()
    assert d.get().tolist() == [1, 2, 3, 4, 5]
    host = torch.ones(6)
    scale[1, 32](host, 3.0, 6)
    assert host.tolist() == [3] * 6


def test_several_libraries_in_one_launch(gpu: str) -> None:
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    add = coalesce.Kernel(
        'extern "C" __global__ void add(const float *a, const float *b, float *out, int n) {'
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = a[i] + b[i]; }",
        device=gpu,
    )
    n = 1 << 16
    with cupy.cuda.Stream(non_blocking=True):
        a = cupy.full(n, 2, cupy.float32)
        b = torch.full((n,), 3.0, device="cuda")
        out = to_device(np.zeros(n, np.float32))
        add[n // 256, 256](a, b, out, n)
        assert (out.get() == 5).all()
        mixed = np.zeros(n, np.float32)
        add[n // 256, 256](a, b, mixed, n)
    assert (mixed == 5).all()
