"""Textures and surfaces that are passed to kernels on a GPU.

Without a GPU, the last test runs this file on the simulated driver.
"""

import gc
from typing import Any

import numpy as np
import pytest
import simulated_driver
import texture_cases

import coalesce
from coalesce._core import cuda
from coalesce.launch import gpu_textures

Array = np.ndarray[Any, Any]

SOURCE = """
template <class T> __global__ void fetch2(cudaTextureObject_t t, const float *p, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex2D<T>(t, p[i], p[n + i]);
}
template <class T>
__global__ void copy2(cudaSurfaceObject_t a, cudaSurfaceObject_t b, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    surf2Dwrite(surf2Dread<T>(a, x * sizeof(T), y), b, x * sizeof(T), h - 1 - y);
}
__global__ void increment(cudaSurfaceObject_t s, cudaTextureObject_t t, float *y) {
    float v;
    surf2Dread(&v, s, threadIdx.x * 4, 0);
    surf2Dwrite(v + 1, s, threadIdx.x * 4, 0);
    y[threadIdx.x] = v + tex2D<float>(t, threadIdx.x, 0.0f);
}
struct Picture { cudaTextureObject_t t; float scale; };
__global__ void scaled(Picture p, float *y) {
    y[threadIdx.x] = p.scale * tex2D<float>(p.t, threadIdx.x, 0.0f);
}
__global__ void layers(cudaSurfaceObject_t s, cudaTextureObject_t t, int faces) {
    for (int layer = 0; layer < faces; ++layer)
        surf2DLayeredwrite(tex2DLayered<float>(t, threadIdx.x, threadIdx.y, layer), s,
                           threadIdx.x * 4, threadIdx.y, faces - 1 - layer);
}
"""


@pytest.fixture
def gpu(device):
    if device != "cuda":
        pytest.skip("needs --device cuda")
    return device


def kernel(entry: str, device: str = "cuda") -> coalesce.Kernel:
    return coalesce.Kernel(SOURCE, entry, device=device)


def texels_of(dtype: str, *shape: int) -> Array:
    made = np.random.default_rng(5)
    if dtype.startswith("float"):
        return made.uniform(-9, 9, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return made.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("family", texture_cases.families())
@pytest.mark.usefixtures("gpu")
def test_results_are_those_of_the_simulator(family):
    for case in texture_cases.cases():
        if case.name.split()[0] == family and case.name != "shape tex2D of a slice":
            texture_cases.assert_same(case, case.run("cuda"), case.run("sim"))


def increment_arguments() -> tuple[Array, Array, list[Any]]:
    s, y = np.arange(8, dtype=np.float32).reshape(1, 8), np.zeros(8, np.float32)
    t = np.full((1, 8), 100, np.float32)
    return s, y, [coalesce.surface(s), coalesce.texture(t), y]


@pytest.mark.parametrize("runs", [None, 1, 5, "auto"])
@pytest.mark.parametrize("stream", [None, 2])
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.usefixtures("gpu")
def test_launches_have_the_result_of_one_run(runs, stream, cooperative):
    s, y, arguments = increment_arguments()
    k = kernel("increment")
    record = k.launch(1, 8, *arguments, runs=runs, stream=stream, cooperative=cooperative)
    assert s.tolist() == [list(range(1, 9))]
    assert y.tolist() == list(range(100, 108))
    assert runs is None or (
        record.runs >= 1 and (simulated_driver.SIMULATED or record.kernel_ms > 0)
    )


@pytest.mark.usefixtures("gpu")
def test_write_only_surfaces():
    s, b = texels_of("float32", 6, 10), np.full((6, 10), 7, np.float32)
    k = kernel("copy2<float>")
    k.launch((2, 1), (8, 8), coalesce.surface(s), coalesce.surface(b), 10, 6, write_only=["b"])
    np.testing.assert_array_equal(b, s[::-1])


@pytest.mark.usefixtures("gpu")
def test_a_texture_in_a_structure():
    y = np.zeros(8, np.float32)
    t = coalesce.texture(np.arange(8, dtype=np.float32).reshape(1, 8))
    kernel("scaled")[1, 8]({"t": t, "scale": 3.0}, y)
    assert y.tolist() == [3.0 * i for i in range(8)]


@pytest.mark.usefixtures("gpu")
def test_linear_memory_shares_memory_with_other_arguments():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    source = """__global__ void shifted(cudaTextureObject_t t, float *x, float *y) {
        y[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x) + x[31 - threadIdx.x];
    }"""
    k = coalesce.Kernel(source, device="cuda")
    k[1, 32](coalesce.texture(x, linear_memory=True), x, y)
    assert (y == 31).all()
    with pytest.raises(coalesce.LaunchError, match="argument `t` shares memory"):
        k[1, 32](coalesce.texture(x[1:], linear_memory=True), x, y)


@pytest.mark.usefixtures("gpu")
def test_a_cuda_array_shares_no_memory():
    s, y, (surface, texture, _) = increment_arguments()
    with pytest.raises(ValueError, match=r"`s` is a surface .* argument `t`.*Pass a copy"):
        kernel("increment")[1, 8](surface, coalesce.texture(s), y)
    with pytest.raises(ValueError, match=r"`s` is a surface .* argument `y`"):
        kernel("increment")[1, 8](surface, texture, s)
    shared = texture.array
    with pytest.raises(ValueError, match=r"`t` is a texture .* argument `y`"):
        kernel("increment")[1, 8](surface, texture, shared)
    # If the kernel only reads, the same array may be passed twice.
    points = texels_of("float32", 2, 16)
    out = np.zeros(16, np.float32)
    kernel("fetch2<float>")[1, 32](coalesce.texture(points), points, out, 16)
    assert out.any()


@pytest.mark.usefixtures("gpu")
def test_too_large_textures_are_refused_by_name():
    if simulated_driver.SIMULATED:
        pytest.skip("the simulated driver has the limits of coalesce.texture")
    y = np.zeros(8, np.float32)
    points = np.zeros((2, 8), np.float32)
    with pytest.raises(coalesce.LaunchError, match=r"argument `t` .*height 131000, .*allows"):
        kernel("fetch2<float>")[1, 32](coalesce.texture(np.zeros((2, 131000, 2), np.float32)),
                                      points, y, 8)  # fmt: skip
    with pytest.raises(coalesce.LaunchError, match=r"argument `s` .*allows"):
        kernel("layers")[1, 1](
            coalesce.surface(np.zeros((4000, 1, 1), np.float32), layered=True),
            coalesce.texture(np.zeros((1, 1, 1), np.float32), layered=True), 1,
        )  # fmt: skip


@pytest.mark.usefixtures("gpu")
def test_failed_launches_leave_nothing_behind(monkeypatch):
    alive = []

    class Watched:
        def __init__(self, *given):
            self._made = cuda_texture(*given)
            alive.append(self)

        def __getattr__(self, name):
            if name == "destroy":
                alive.remove(self)
            return getattr(self._made, name)

    cuda_texture = cuda.Texture
    monkeypatch.setattr(cuda, "Texture", Watched)
    s, y, arguments = increment_arguments()
    k = kernel("increment")
    k[1, 8](*arguments)
    assert not alive
    with pytest.raises(ValueError, match="would not share memory"):
        k[1, 8](arguments[0], coalesce.texture(s), y)
    assert not alive
    monkeypatch.setattr(cuda, "launch", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        k[1, 8](*arguments)
    assert not alive

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cuda, "launch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        k[1, 8](*arguments)
    assert len(alive) == 2
    monkeypatch.undo()
    k[1, 8](*arguments)
    assert not alive
    assert not gpu_textures._in_use


@pytest.mark.usefixtures("gpu")
def test_a_launch_frees_its_memory_at_once():
    """The memory is in no cycle of references, which only the garbage collector would free."""
    y, points = np.zeros((8, 4), np.float32), np.zeros((2, 8), np.float32)
    texture = coalesce.texture(np.zeros((64, 64, 4), np.float32), channels=4)
    gc.collect()
    gc.disable()
    try:
        in_use, _ = cuda.Device(0).usage()
        for _ in range(3):
            kernel("fetch2<float4>")[1, 32](texture, points, y, 8)
            assert cuda.Device(0).usage()[0] == in_use
    finally:
        gc.enable()


@pytest.mark.usefixtures("gpu")
def test_many_launches_keep_the_memory_of_the_gpu():
    if simulated_driver.SIMULATED:
        pytest.skip("the simulated driver has no limit that this test could reach")
    big = np.zeros((4096, 4096, 4), np.float32)  # 256 MiB
    y, points = np.zeros((8, 4), np.float32), np.zeros((2, 8), np.float32)
    for _ in range(3):
        kernel("fetch2<float4>")[1, 32](coalesce.texture(big, channels=4), points, y, 8)
    first = cuda.Device(0).usage()
    for _ in range(3):
        kernel("fetch2<float4>")[1, 32](coalesce.texture(big, channels=4), points, y, 8)
    assert cuda.Device(0).usage() == first


def test_wrong_levels():
    image = np.zeros((8, 4), np.float32)
    with pytest.raises(ValueError, match=r"level 1 .* this level must have 4 x 2 texels"):
        coalesce.texture(image, levels=[np.zeros((4, 4), np.float32)], normalized=True)
    with pytest.raises(ValueError, match=r"level 1 .*uint8"):
        coalesce.texture(image, levels=[np.zeros((4, 2), np.uint8)], normalized=True)
    with pytest.raises(ValueError, match="normalized coordinates"):
        coalesce.texture(image, levels=[np.zeros((4, 2), np.float32)])
    with pytest.raises(ValueError, match="has no smaller levels"):
        coalesce.texture(image[:, 0].copy(), levels=[image], linear_memory=True)
    with pytest.raises(TypeError, match="must be a NumPy array"):
        coalesce.texture(image, levels=[1], normalized=True)


@pytest.mark.usefixtures("on_simulator")
def test_on_the_simulated_driver():
    simulated_driver.run_tests(__file__)
