"""Texture and surface objects: errors, checks, counts, and what test_recorded_textures.py lacks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import bound, why_ptx

import coalesce
from coalesce.launch.simulated import simulate

SOURCE = """
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


@pytest.mark.usefixtures("machine_code")
def test_an_array_without_levels_ignores_the_level() -> None:
    levels = np.float32([[4, 5, 6]])
    out = both_ways(kernel("with_level"), 1, lambda: [coalesce.texture(levels), np.zeros(4, "f4")])
    assert out[1].tolist() == [5, 5, 5, 1]


@pytest.mark.usefixtures("machine_code")
def test_machine_code_outside_a_surface() -> None:
    for x, row in ((16, 1), (-4, 2), (4, 7), (0, -1)):
        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        both_ways(
            surfaces("outside"),
            1,
            lambda p=(a, x, row): [coalesce.surface(p[0]), np.zeros(2, "f4"), *p[1:]],
        )


def test_queries() -> None:
    out = np.zeros(8, np.int32)
    t = coalesce.texture(np.zeros((3, 5, 7, 2), np.uint16), channels=2, normalized=True)
    s = coalesce.surface(np.zeros((4, 6, 9), np.float32), layered=True)
    kernel("ask")[1, 1](t, s, out)
    # The numbers of the type and of the order are those of OpenCL: UNSIGNED_INT16, RG.
    assert out.tolist() == [7, 5, 3, 0x10DB, 0x10B2, 1, 9, 4]


SURFACES = """
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
