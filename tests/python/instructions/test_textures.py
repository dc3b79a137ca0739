"""Texture fetches and surface accesses on the simulator, against a reference in NumPy.

The reference follows the formulas of the CUDA C++ Programming Guide ("Texture Fetching"). It
computes indices with integers, one point after the other; the simulator folds coordinates first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from both_ways import bound, why_ptx

import coalesce
from coalesce.launch.simulated import simulate

Array = np.ndarray[Any, Any]

SOURCE = """
template <class T> __global__ void fetch1(cudaTextureObject_t t, const float *p, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1D<T>(t, p[i]);
}
template <class T> __global__ void fetch2(cudaTextureObject_t t, const float *p, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex2D<T>(t, p[i], p[n + i]);
}
template <class T> __global__ void fetch3(cudaTextureObject_t t, const float *p, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex3D<T>(t, p[i], p[n + i], p[2 * n + i]);
}
template <class T> __global__ void element(cudaTextureObject_t t, const int *p, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1Dfetch<T>(t, p[i]);
}
__global__ void layer1(cudaTextureObject_t t, const float *p, const int *l, float *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = tex1DLayered<float>(t, p[i], l[i]);
}
__global__ void layer2(cudaTextureObject_t t, const float *p, const int *l, float *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = tex2DLayered<float>(t, p[i], p[n + i], l[i]);
}
__global__ void cube(cudaTextureObject_t t, const float *p, float *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = texCubemap<float>(t, p[i], p[n + i], p[2 * n + i]);
}
__global__ void cubes(cudaTextureObject_t t, const float *p, const int *l, float *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = texCubemapLayered<float>(t, p[i], p[n + i], p[2 * n + i], l[i]);
}
template <int c> __global__ void gather(cudaTextureObject_t t, const float *p, float4 *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = tex2Dgather<float4>(t, p[i], p[n + i], c);
}
__global__ void with_level(cudaTextureObject_t t, float *y) {
    bool resident = false;
    y[0] = tex2DLod<float>(t, 1.5f, 0.5f, 3.0f);
    y[1] = tex2DGrad<float>(t, 1.5f, 0.5f, make_float2(1, 0), make_float2(0, 1));
    y[2] = tex2D<float>(t, 1.5f, 0.5f, &resident);
    y[3] = resident;
}
__global__ void ask(cudaTextureObject_t t, cudaSurfaceObject_t s, int *y) {
    asm("txq.width.b32 %0, [%1];" : "=r"(y[0]) : "l"(t));
    asm("txq.height.b32 %0, [%1];" : "=r"(y[1]) : "l"(t));
    asm("txq.depth.b32 %0, [%1];" : "=r"(y[2]) : "l"(t));
    asm("txq.channel_data_type.b32 %0, [%1];" : "=r"(y[3]) : "l"(t));
    asm("txq.channel_order.b32 %0, [%1];" : "=r"(y[4]) : "l"(t));
    asm("txq.normalized_coords.b32 %0, [%1];" : "=r"(y[5]) : "l"(t));
    asm("suq.width.b32 %0, [%1];" : "=r"(y[6]) : "l"(s));
    asm("suq.array_size.b32 %0, [%1];" : "=r"(y[7]) : "l"(s));
}
__global__ void whole(cudaTextureObject_t t, float *y) {
    y[threadIdx.x] = tex2D<float>(t, threadIdx.x, 0.0f);
}
"""


def kernel(entry: str) -> coalesce.Kernel:
    return coalesce.Kernel(SOURCE, entry, device="sim")


def folded(i: int, n: int, mode: str) -> int | None:
    """Return the texel that an index stands for; None for the border."""
    if 0 <= i < n:
        return i
    if mode == "border":
        return None
    if mode == "wrap":
        return i % n
    if mode == "mirror":
        return i % (2 * n) if i % (2 * n) < n else 2 * n - 1 - i % (2 * n)
    return min(max(i, 0), n - 1)


def corner_weights(parts: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Return the weights of the texels around a point, which add up to 256, as a GPU rounds them.

    `parts` are the weights of the second texels of x, y and z. The keys have one number for each of
    these dimensions: 0 for the first texel, 1 for the second.
    """

    def rounded(share: int, part: int) -> int:
        return (share * part + 128) // 256

    x, y, z = (*parts, 0, 0)[:3]
    weights = {}
    for k, share in enumerate((256 - z, z)):
        right = rounded(share, x)
        lower_right = rounded(right, y)
        upper_left = rounded(share - right, 256 - y)
        weights |= {
            (0, 0, k): upper_left,
            (0, 1, k): share - right - upper_left,
            (1, 0, k): right - lower_right,
            (1, 1, k): lower_right,
        }
    return weights


def reference(
    texels: Array,
    points: Array,
    modes: Sequence[str],
    *,
    linear: bool = False,
    normalized: bool = False,
    border: float = 0.0,
) -> Array:
    """Return the fetched values; `points` has a row for each of x, y, z, the axes are z, y, x."""
    # A filter treats a line of texels like a picture with one row, and fetches at y = 0.
    if linear and texels.ndim == 1:
        texels, points = texels[None], np.stack([points[0], np.zeros_like(points[0])])
        modes = (*modes, modes[0])
    extents = texels.shape[::-1]
    values = []
    for point in points.T:
        texel: list[tuple[int | None, int | None]] = []
        parts = []
        for x, n, mode in zip(point, extents, modes, strict=False):
            # Normalized coordinates are rounded down to multiples of 2**-21.
            at = math.floor(float(x) * 2**21) * n / 2**21 if normalized else float(x)
            kind = mode if normalized or mode == "border" else "clamp"
            if linear:
                low, part = divmod(math.floor((at - 0.5) * 256 + 0.5), 256)
            else:
                low, part = math.floor(at), 0
            both = folded(low, n, kind), folded(low + 1, n, kind)
            texel.append(both)
            parts.append(0 if kind == "clamp" and both[0] == both[1] else part)
        total = 0.0
        for corner, weight in corner_weights(parts).items():
            if weight:
                index = tuple(i[second] for i, second in zip(texel, corner, strict=False))[::-1]
                total += weight / 256 * (border if None in index else float(texels[index]))
        values.append(total)
    return np.array(values)


def points_of(seed: int, extents: Sequence[int], normalized: bool, count: int = 200) -> Array:
    """Return coordinates inside and well outside the array."""
    made = np.random.default_rng(seed)
    points = np.array([made.uniform(-1.4 * n, 2.4 * n, count) for n in extents])
    if normalized:
        points /= np.array(extents)[:, None]
    return points.astype(np.float32)


SHAPES = {1: (13,), 2: (5, 9), 3: (3, 4, 6)}


@pytest.mark.parametrize("dimensions", SHAPES)
@pytest.mark.parametrize("linear", [False, True])
def test_fetches_follow_the_formulas(dimensions: int, linear: bool) -> None:
    run = kernel(f"fetch{dimensions}<float>")
    texels = np.random.default_rng(7).uniform(-8, 8, SHAPES[dimensions]).astype(np.float32)
    for seed, (mode, normalized) in enumerate(
        itertools.product(("clamp", "border", "wrap", "mirror"), (False, True))
    ):
        points = points_of(seed, texels.shape[::-1], normalized)
        t = coalesce.texture(
            texels,
            filter="linear" if linear else "point",
            address=mode,
            normalized=normalized,
            border=2.5,
        )
        out = np.zeros(points.shape[1], np.float32)
        run[7, 32](t, points, out, out.size)
        wanted = reference(
            texels, points, [mode] * 3, linear=linear, normalized=normalized, border=2.5
        )
        np.testing.assert_allclose(out, wanted, rtol=0, atol=2e-6, err_msg=f"{mode} {normalized}")
        if not linear:
            assert (out == wanted.astype(np.float32)).all()


def test_each_axis_has_its_own_address_mode() -> None:
    texels = np.arange(20, dtype=np.float32).reshape(4, 5)
    points = points_of(3, (5, 4), True)
    out = np.zeros(points.shape[1], np.float32)
    t = coalesce.texture(texels, address=("mirror", "border"), normalized=True, border=-1)
    kernel("fetch2<float>")[7, 32](t, points, out, out.size)
    assert (
        out == reference(texels, points, ("mirror", "border"), normalized=True, border=-1)
    ).all()


@pytest.mark.parametrize(
    ("dtype", "type_"),
    [
        ("uint8", "unsigned char"),
        ("int8", "signed char"),
        ("uint16", "unsigned short"),
        ("int16", "short"),
        ("int32", "int"),
        ("uint32", "unsigned"),
    ],
)
def test_integers_are_read_as_they_are(dtype: str, type_: str) -> None:
    limits = np.iinfo(dtype)
    texels = np.array([[limits.min, limits.max, 3, 5], [7, limits.max - 1, 1, 0]], dtype)
    points = np.float32([[0, 1, 2, 3, 0, 1, 9, -4], [0, 0, 0, 0, 1, 1, 1, 0]])
    out = np.zeros(8, dtype)
    kernel(f"fetch2<{type_}>")[1, 32](coalesce.texture(texels), points, out, 8)
    assert (out == texels[points[1].astype(int), [0, 1, 2, 3, 0, 1, 3, 0]]).all()


@pytest.mark.parametrize(
    ("dtype", "type_", "border"),
    [("uint8", "unsigned char", 200), ("int16", "short", -300), ("int32", "int", -1)],
)
def test_a_border_of_integers_has_their_value(dtype: str, type_: str, border: int) -> None:
    t = coalesce.texture(np.ones((2, 2), dtype), address="border", border=border)
    points, out = np.float32([[0, -1], [0, 0]]), np.zeros(2, dtype)
    kernel(f"fetch2<{type_}>")[1, 32](t, points, out, 2)
    assert out.tolist() == [1, border]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("linear", [False, True])
def test_integers_are_read_as_normalized_floats(dtype: str, linear: bool) -> None:
    limits = np.iinfo(dtype)
    texels = np.random.default_rng(5).integers(limits.min, limits.max + 1, (4, 8)).astype(dtype)
    texels[0, :2] = limits.min, limits.max
    points = points_of(9, (8, 4), False)
    out = np.zeros(points.shape[1], np.float32)
    t = coalesce.texture(texels, read="normalized", filter="linear" if linear else "point")
    kernel("fetch2<float>")[7, 32](t, points, out, out.size)
    wanted = reference(texels / limits.max, points, ("clamp", "clamp"), linear=linear)
    # A filter rounds the result to 16 bits. test_recorded_textures.py compares every bit.
    step = 1 / (65535 if limits.min == 0 else 32767) if linear else 2e-7
    np.testing.assert_allclose(out, np.maximum(wanted, -1), rtol=0, atol=step)
    assert out.min() >= -1


def test_texels_have_several_channels() -> None:
    texels = np.random.default_rng(2).uniform(0, 1, (4, 6, 4)).astype(np.float32)
    points = points_of(4, (6, 4), False)
    out = np.zeros((points.shape[1], 4), np.float32)
    t = coalesce.texture(texels, filter="linear", channels=4, address="border", border=(1, 2, 3, 4))
    kernel("fetch2<float4>")[7, 32](t, points, out, out.shape[0])
    for c in range(4):
        wanted = reference(
            texels[:, :, c], points, ("border", "border"), linear=True, border=c + 1.0
        )
        np.testing.assert_allclose(out[:, c], wanted, rtol=0, atol=1e-6)


def test_halves_are_read_as_floats() -> None:
    texels = np.array([[0.5, -2, 65504, 2**-24]], np.float16)
    points = np.float32([[0, 1, 2, 3], [0, 0, 0, 0]])
    out = np.zeros(4, np.float32)
    kernel("fetch2<float>")[1, 32](coalesce.texture(texels), points, out, 4)
    assert (out == texels[0].astype(np.float32)).all()


def test_linear_memory_is_read_by_index() -> None:
    texels = np.arange(40, dtype=np.float32) + 1
    places = np.array([0, 39, 17, 40, -1, 2**31 - 1, -(2**31)], np.int32)
    out = np.full(7, -1, np.float32)
    kernel("element<float>")[1, 32](coalesce.texture(texels, linear_memory=True), places, out, 7)
    assert out.tolist() == [1, 40, 18, 0, 0, 0, 0]


def test_layers_are_clamped_and_not_filtered() -> None:
    texels = np.random.default_rng(1).uniform(0, 9, (3, 4, 5)).astype(np.float32)
    points = points_of(8, (5, 4), False, count=32)
    layers = np.random.default_rng(3).integers(0, 3, 32).astype(np.int32)
    out = np.zeros(32, np.float32)
    t = coalesce.texture(texels, filter="linear", layered=True)
    kernel("layer2")[1, 32](t, points, layers, out, 32)
    for i, layer in enumerate(layers):
        wanted = reference(texels[layer], points[:, i : i + 1], ("clamp", "clamp"), linear=True)
        assert out[i] == pytest.approx(wanted[0], abs=2e-6)
    last = np.full(32, 9, np.int32)
    t = (
        coalesce.texture(texels[:, 0], layered=True)
        if texels[:, 0].flags.c_contiguous
        else (coalesce.texture(texels[:, 0].copy(), layered=True))
    )
    kernel("layer1")[1, 32](t, points, last, out, 32)
    assert (out == reference(texels[2, 0], points[:1], ("clamp",))).all()


# The faces of a cube (CUDA C++ Programming Guide, "Cubemap Textures"): face, m, s, t.
FACES = [
    (0, lambda x, y, z: (x, -z, -y)),
    (1, lambda x, y, z: (-x, z, -y)),
    (2, lambda x, y, z: (y, x, z)),
    (3, lambda x, y, z: (-y, x, -z)),
    (4, lambda x, y, z: (z, x, -y)),
    (5, lambda x, y, z: (-z, -x, -y)),
]


@pytest.mark.parametrize("linear", [False, True])
def test_cube_maps_select_a_face(linear: bool) -> None:
    texels = np.random.default_rng(1).uniform(0, 9, (12, 4, 4)).astype(np.float32)
    points = np.random.default_rng(2).uniform(-2, 2, (3, 256)).astype(np.float32)
    wanted = []
    for point in points.T.astype(np.float64):
        axis = int(np.abs(point).argmax())
        face, chart = FACES[2 * axis + (point[axis] < 0)]
        m, s, t = chart(*point)
        at = np.array([[(s / m + 1) / 2], [(t / m + 1) / 2]])
        wanted.append(
            reference(texels[face], at, ("clamp", "clamp"), linear=linear, normalized=True)[0]
        )
    out = np.zeros(256, np.float32)
    options: dict[str, Any] = {"filter": "linear" if linear else "point", "cube": True}
    kernel("cube")[1, 256](coalesce.texture(texels[:6], **options), points, out, 256)
    # Where rounding decides between two weights, the results differ by a 256th.
    close = np.isclose(out, wanted, rtol=0, atol=9 / 256 if linear else 0)
    assert close.all()
    layers = np.ones(256, np.int32)
    shifted = np.concatenate([texels[6:], texels[:6]])
    again = np.zeros(256, np.float32)
    kernel("cubes")[1, 256](
        coalesce.texture(shifted, layered=True, **options), points, layers, again, 256
    )
    assert (again == out).all()


def test_gather_returns_one_channel_of_four_texels() -> None:
    texels = np.arange(48, dtype=np.float32).reshape(3, 4, 4)
    points = np.float32([[1.0, 2.0, 2.49805], [1.0, 2.0, 1.0]])
    out = np.zeros((3, 4), np.float32)
    t = coalesce.texture(texels, channels=4)
    for c in (0, 2):
        kernel(f"gather<{c}>")[1, 32](t, points, out, 3)
        # In the last point, the x coordinate minus 0.5 is 1.99805, which is rounded to 2 (CUDA C++
        # Programming Guide, "Texture Gather"). So the four texels begin at x = 2, not at x = 1.
        for i, (x, y) in enumerate([(0, 0), (1, 1), (2, 0)]):
            wanted = [texels[y + 1, x, c], texels[y + 1, x + 1, c]]
            wanted += [texels[y, x + 1, c], texels[y, x, c]]
            assert out[i].tolist() == wanted


def test_an_array_without_levels_ignores_the_level() -> None:
    out = np.zeros(4, np.float32)
    kernel("with_level")[1, 1](coalesce.texture(np.float32([[4, 5, 6]])), out)
    assert out.tolist() == [5, 5, 5, 1]


def test_queries() -> None:
    out = np.zeros(8, np.int32)
    t = coalesce.texture(np.zeros((3, 5, 7, 2), np.uint16), channels=2, normalized=True)
    s = coalesce.surface(np.zeros((4, 6, 9), np.float32), layered=True)
    kernel("ask")[1, 1](t, s, out)
    # The numbers of the type and of the order are those of OpenCL: UNSIGNED_INT16, RG.
    assert out.tolist() == [7, 5, 3, 0x10DB, 0x10B2, 1, 9, 4]


SURFACES = """
template <class T>
__global__ void copy2(cudaSurfaceObject_t a, cudaSurfaceObject_t b, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    surf2Dwrite(surf2Dread<T>(a, x * sizeof(T), y), b, x * sizeof(T), h - 1 - y);
}
__global__ void write3(cudaSurfaceObject_t s) {
    surf3Dwrite(int(threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z), s, threadIdx.x * 4,
                threadIdx.y, threadIdx.z);
}
__global__ void write1(cudaSurfaceObject_t s) {
    surf1Dwrite(short(threadIdx.x), s, threadIdx.x * 2);
}
__global__ void layers(cudaSurfaceObject_t s) {
    float v = surf2DLayeredread<float>(s, threadIdx.x * 4, 1, 0);
    surf2DLayeredwrite(v + 1, s, threadIdx.x * 4, 0, 2);
    surf1DLayeredwrite(v, s, 0, 0);
}
__global__ void layers_of_2(cudaSurfaceObject_t s) {
    float v = surf2DLayeredread<float>(s, threadIdx.x * 4, 1, 0);
    surf2DLayeredwrite(v + 1, s, threadIdx.x * 4, 0, 2);
}
__global__ void outside(cudaSurfaceObject_t s, float *y, int x, int row) {
    y[0] = surf2Dread<float>(s, x, row, cudaBoundaryModeClamp);
    y[1] = surf2Dread<float>(s, x, row, cudaBoundaryModeZero);
    surf2Dwrite(99.0f, s, x, row, cudaBoundaryModeZero);
}
__global__ void trapped(cudaSurfaceObject_t s, int x, int row) {
    surf2Dwrite(1.0f, s, x, row);
}
__global__ void trapped_read(cudaSurfaceObject_t s, float *y, int x, int row) {
    y[0] = surf2Dread<float>(s, x, row);
}
__global__ void race(cudaSurfaceObject_t s, float *y) {
    surf2Dwrite(float(threadIdx.x), s, threadIdx.x * 4, 0);
    y[threadIdx.x] = surf2Dread<float>(s, (threadIdx.x + 40) % 64 * 4, 0);
}
__global__ void stale(float *x, cudaTextureObject_t t) {
    x[threadIdx.x] = 1;
    x[threadIdx.x] += tex1Dfetch<float>(t, threadIdx.x);
}
"""


def surfaces(entry: str) -> coalesce.Kernel:
    return coalesce.Kernel(SURFACES, entry, device="sim")


@pytest.mark.parametrize(
    ("dtype", "channels", "type_"),
    [("float32", 1, "float"), ("uint8", 4, "uchar4"), ("int16", 2, "short2"),
     ("uint8", 1, "unsigned char"), ("float32", 4, "float4"), ("float32", 2, "float2")],
)  # fmt: skip
def test_surfaces_are_read_and_written(dtype: str, channels: int, type_: str) -> None:
    shape = (6, 10) if channels == 1 else (6, 10, channels)
    a = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    b = np.zeros_like(a)
    surfaces(f"copy2<{type_}>")[(2, 1), (8, 8)](
        coalesce.surface(a, channels=channels), coalesce.surface(b, channels=channels), 10, 6
    )
    assert (b == a[::-1]).all()


def test_surfaces_of_other_dimensions() -> None:
    line, box = np.zeros(16, np.int16), np.zeros((2, 3, 4), np.int32)
    surfaces("write1")[1, 16](coalesce.surface(line))
    assert line.tolist() == list(range(16))
    surfaces("write3")[1, (4, 3, 2)](coalesce.surface(box))
    z, y, x = np.indices(box.shape)
    assert (box == x + 100 * y + 10000 * z).all()
    stack = np.arange(3 * 2 * 4, dtype=np.float32).reshape(3, 2, 4)
    before = stack.copy()
    surfaces("layers_of_2")[1, 4](coalesce.surface(stack, layered=True))
    assert (stack[2, 0] == before[0, 1] + 1).all()
    with pytest.raises(coalesce.LaunchError, match="a layered array of 2 dimensions"):
        surfaces("layers")[1, 4](coalesce.surface(stack, layered=True))


@pytest.mark.usefixtures("machine_code")
def test_machine_code_accesses_surfaces() -> None:
    rows: list[tuple[str, tuple[int, ...], str, int, dict[str, Any]]] = [
        ("write1", (16,), "int16", 1, {}),
        ("write3", (2, 3, 4), "int32", 1, {}),
        ("layers_of_2", (3, 2, 4), "float32", 1, {"layered": True}),
        ("copy2<float>", (6, 10), "float32", 1, {}),
        ("copy2<uchar4>", (6, 10, 4), "uint8", 4, {}),
        ("copy2<short2>", (6, 10, 2), "int16", 2, {}),
        ("copy2<float4>", (6, 10, 4), "float32", 4, {}),
    ]
    for entry, shape, dtype, channels, options in rows:
        k = surfaces(entry)
        assert why_ptx(k) == ""
        block = {"write1": 16, "write3": (4, 3, 2), "layers_of_2": 4}.get(entry, (8, 8))
        results = []
        for counts in (False, True):
            a = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
            given: list[Any] = [coalesce.surface(a, channels=channels, **options)]
            if entry.startswith("copy2"):
                a = np.zeros_like(a)
                given += [coalesce.surface(a, channels=channels), 10, 6]
            grid = (2, 1) if len(given) > 1 else 1
            simulate(bound(k, grid, block, given, 0), counts=counts)
            results.append(a)
        assert results[0].any()
        np.testing.assert_array_equal(*results)
    for x, row in ((16, 1), (-4, 2), (4, 7), (0, -1)):
        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        both_ways(
            surfaces("outside"),
            1,
            lambda p=(a, x, row): [coalesce.surface(p[0]), np.zeros(2, "f4"), *p[1:]],
        )


def test_outside_a_surface() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    before = a.copy()
    y = np.full(2, -1, np.float32)
    for x, row, nearest in ((16, 1, a[1, 3]), (-4, 2, a[2, 0]), (4, 7, a[2, 1]), (0, -1, a[0, 0])):
        surfaces("outside")[1, 1](coalesce.surface(a), y, x, row)
        assert y.tolist() == [nearest, 0]
        assert (a == before).all()


@pytest.mark.parametrize(("x", "row", "why"), [
    (16, 0, "x = 16 bytes, y = 0, but the surface has 16 bytes x 3"),
    (0, 3, "x = 0 bytes, y = 3"),
    (-4, 0, "x = -4 bytes"),
    (2, 0, "not a multiple of 4"),
])  # fmt: skip
def test_a_trap_outside_a_surface_is_a_fault(x: int, row: int, why: str) -> None:
    a = np.zeros((3, 4), np.float32)
    with pytest.raises(coalesce.MemoryFault, match=why) as raised:
        surfaces("trapped")[1, 1](coalesce.surface(a), x, row)
    assert "surface write of 4 bytes" in str(raised.value)
    assert "`s`" in str(raised.value)
    assert "surf2Dwrite(1.0f" in str(raised.value)
    with pytest.raises(coalesce.MemoryFault, match="surface read of 4 bytes"):
        surfaces("trapped_read")[1, 1](coalesce.surface(a), np.zeros(1, np.float32), x, row)
    findings = surfaces("trapped").check(1, 32, coalesce.surface(a), x, row)
    assert [f.kind for f in findings] == ["misaligned" if x == 2 else "out_of_bounds"]
    assert findings[0].count == 32
    assert "surface write" in findings[0].title


def test_the_checker_knows_surfaces_and_textures() -> None:
    a = np.zeros((1, 64), np.float32)
    y = np.zeros(64, np.float32)
    findings = surfaces("race").check(1, 64, coalesce.surface(a), y)
    assert "race" in [f.kind for f in findings]
    x = np.zeros(32, np.float32)
    findings = surfaces("stale").check(1, 32, x, coalesce.texture(x, linear_memory=True))
    assert [f.kind for f in findings] == ["stale_read"]
    findings = kernel("whole").check(1, 32, coalesce.texture(np.zeros((2, 32), np.float32)), y)
    assert not findings


def test_textures_are_not_counted() -> None:
    y = np.zeros(32, np.float32)
    profile = kernel("whole").profile(1, 32, coalesce.texture(np.zeros((2, 32), np.float32)), y)
    assert not profile.exact
    assert profile.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 0
    assert profile.metrics()["smsp__inst_executed_op_global_ld.sum"] == 0  # as on an H100
    assert profile.metrics()["smsp__inst_executed_op_global_st.sum"] == 1
    reasons = " ".join(profile.inexact.values())
    assert "textures and surfaces are executed and not counted" in reasons


def both_ways(k: coalesce.Kernel, threads: int, make: Callable[[], list[Any]]) -> list[Any]:
    """Run a kernel as PTX and as machine code; compare the arrays, and return them."""
    assert why_ptx(k) == ""
    plain, counted = make(), make()
    k[1, threads](*plain)
    simulate(bound(k, 1, threads, counted, 0), counts=True)
    for one, other in zip(plain, counted, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return plain


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("linear", [False, True])
def test_machine_code_fetches_the_same_values(linear: bool) -> None:
    texels = np.random.default_rng(3).uniform(-8, 8, (12, 6, 6)).astype(np.float32)
    points = np.random.default_rng(4).uniform(-1.5, 1.5, (3, 96)).astype(np.float32)
    layers = (np.arange(96) % 3).astype(np.int32)
    options = {"filter": "linear" if linear else "point", "normalized": True, "address": "mirror"}
    cubes = {**options, "address": "clamp"}

    def at_points(picture: Array, *more: Any, width: int = 1, **changed: Any) -> list[Any]:
        out = np.zeros((96, width), np.float32)
        return [coalesce.texture(picture, **{**options, **changed}), points, *more, out, 96]

    rows: list[tuple[str, Callable[[], list[Any]]]] = [
        ("fetch1<float>", lambda: at_points(texels[0, 0].copy())),
        ("fetch2<float>", lambda: at_points(texels[0].copy())),
        ("fetch2<float4>", lambda: at_points(texels[:, :, :4].copy(), channels=4, width=4)),
        ("fetch3<float>", lambda: at_points(texels)),
        ("layer1", lambda: at_points(texels[0, :3].copy(), layers, layered=True)),
        ("layer2", lambda: at_points(texels[:3].copy(), layers, layered=True)),
        ("cube", lambda: at_points(texels[:6].copy(), cube=True, **cubes)),
        ("cubes", lambda: at_points(texels, layers % 2, cube=True, layered=True, **cubes)),
        ("gather<2>", lambda: at_points(texels[:, :, :4].copy(), channels=4, width=4)),
    ]
    for entry, make in rows:
        assert both_ways(kernel(entry), 96, make)[-2].any()
    levels = np.float32([[4, 5, 6]])
    out = both_ways(kernel("with_level"), 1, lambda: [coalesce.texture(levels), np.zeros(4, "f4")])
    assert out[1].tolist() == [5, 5, 5, 1]


@pytest.mark.usefixtures("machine_code")
def test_machine_code_reads_integers_and_linear_memory() -> None:
    texels = np.arange(-20, 20, dtype=np.int32)
    places = np.arange(-2, 30, dtype=np.int32)
    both_ways(
        kernel("element<int>"),
        32,
        lambda: [
            coalesce.texture(texels, linear_memory=True),
            places,
            np.zeros(32, np.int32),
            32,
        ],
    )
    bytes_ = np.arange(64, dtype=np.uint8).reshape(4, 16)
    points = np.float32([[1.5, 3.5] * 16, [2.5, 0.5] * 16])
    both_ways(
        kernel("fetch2<unsigned char>"),
        32,
        lambda: [coalesce.texture(bytes_), points, np.zeros(32, np.uint8), 32],
    )


@pytest.mark.usefixtures("machine_code")
def test_machine_code_that_is_not_lifted() -> None:
    """Queries that read the object itself."""
    assert why_ptx(kernel("ask"))


@pytest.mark.usefixtures("machine_code")
def test_handles_that_differ_between_lanes() -> None:
    source = """
    __global__ void many(cudaTextureObject_t a, cudaTextureObject_t b, float *y) {
        const cudaTextureObject_t t = threadIdx.x % 3 ? a : b;
        y[threadIdx.x] = tex2D<float>(t, 0.5f, 0.5f);
    }"""
    *_, y = both_ways(
        coalesce.Kernel(source, device="sim"),
        32,
        lambda: [
            coalesce.texture(np.float32([[1]])),
            coalesce.texture(np.float32([[2]])),
            np.zeros(32, np.float32),
        ],
    )
    np.testing.assert_array_equal(y, np.where(np.arange(32) % 3, 1, 2))


def test_handles_that_are_none() -> None:
    run = kernel("whole")
    y = np.zeros(32, np.float32)
    with pytest.raises(coalesce.LaunchError, match="no texture or surface object with the handle"):
        run[1, 32](12345, y)
    with pytest.raises(coalesce.LaunchError, match="it was not set"):
        run[1, 32](0, y)
    x = np.zeros(64, np.float32)
    with pytest.raises(coalesce.LaunchError, match="only tex1Dfetch"):
        run[1, 32](coalesce.texture(x, linear_memory=True), y)
    with pytest.raises(coalesce.LaunchError, match="a layered array of 2 dimensions"):
        run[1, 32](coalesce.texture(x.reshape(2, 4, 8), layered=True), y)
    with pytest.raises(coalesce.LaunchError, match="an array of 3 dimensions"):
        run[1, 32](coalesce.texture(x.reshape(2, 4, 8)), y)
    findings = run.check(1, 32, 12345, y)
    assert [f.kind for f in findings] == ["stopped"]


def test_arguments_are_checked() -> None:
    run, y = kernel("whole"), np.zeros(32, np.float32)
    with pytest.raises(TypeError, match=r"coalesce.texture\(t\)"):
        run[1, 32](y, y)
    with pytest.raises(TypeError, match=r"needs coalesce.texture\(array\)"):
        run[1, 32](coalesce.surface(y.reshape(1, 32)), y)
    with pytest.raises(TypeError, match="needs the NumPy array itself"):
        run[1, 32](coalesce.texture(y.reshape(1, 32)), coalesce.texture(y))
    several = coalesce.Kernel(
        "__global__ void k(cudaSurfaceObject_t *s) { surf1Dwrite(1.0f, s[0], 0); }", device="sim"
    )
    with pytest.raises(TypeError, match="an array of surface objects, which coalesce cannot pass"):
        several[1, 1](np.zeros(1, np.uint64))


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda a: coalesce.texture(list(a)), TypeError, "must be a NumPy array"),
        (lambda a: coalesce.texture(a.astype(np.float64)), TypeError, "float64"),
        (lambda a: coalesce.texture(a.T), ValueError, "not C-contiguous"),
        (lambda a: coalesce.texture(a[:0]), ValueError, "must not be empty"),
        (lambda a: coalesce.texture(a, channels=3), ValueError, "`channels` must be 1, 2 or 4"),
        (lambda a: coalesce.texture(a, channels=2), ValueError, "the last axis"),
        (lambda a: coalesce.texture(a, filter="cubic"), ValueError, "`filter` must be one of"),
        (lambda a: coalesce.texture(a, address="edge"), ValueError, "`address` must be one of"),
        (lambda a: coalesce.texture(a, address=()), ValueError, "`address` must be one mode"),
        (lambda a: coalesce.texture(a, read="normalized"), ValueError, "integers of 8 or 16"),
        (lambda a: coalesce.texture(a.astype(np.int32), filter="linear"), ValueError, "as floats"),
        (lambda a: coalesce.texture(a, cube=True), ValueError, "6 faces"),
        (lambda a: coalesce.texture(a, linear_memory=True), ValueError, "one axis"),
        (lambda a: coalesce.texture(a[None, None, None]), ValueError, "1 to 3 axes"),
        (
            lambda a: coalesce.texture(a, border=(1, 2, 3)),
            ValueError,
            "`border` must be one number",
        ),
        (
            lambda a: coalesce.texture(a.astype(np.uint8), border=256),
            ValueError,
            "`border` must be an integer from 0 to 255, because .*dtype uint8; got 256",
        ),
        (
            lambda a: coalesce.texture(a.astype(np.uint8), border=float("inf")),
            ValueError,
            "`border` must be an integer from 0 to 255, because .*; got inf",
        ),
        (
            lambda a: coalesce.texture(a.astype(np.int32), border=0x7F800001),
            ValueError,
            "its bits, read as a float32, are a signaling NaN",
        ),
        (lambda a: coalesce.surface(np.broadcast_to(a[0], (1, 4))), ValueError, "read-only"),
    ],
)
def test_wrong_options(make: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        make(np.zeros((3, 4), np.float32))


def test_one_array_in_two_arguments_shares_memory() -> None:
    x = np.arange(32, dtype=np.float32)
    source = """__global__ void shifted(cudaTextureObject_t t, float *x, float *y) {
        y[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x) + x[31 - threadIdx.x];
    }"""
    y = np.zeros(32, np.float32)
    coalesce.Kernel(source, device="sim")[1, 32](coalesce.texture(x, linear_memory=True), x, y)
    assert (y == 31).all()
