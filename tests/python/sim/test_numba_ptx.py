"""PTX that Numba compiled, run with its arrays as arguments. Numba needs no GPU to compile."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import coalesce
from coalesce.cxx.numba import arguments_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    numba_cuda = pytest.importorskip("numba.cuda")
    from numba import cuda, types

    try:
        cuda.compile_ptx(lambda: None, (), cc=(9, 0))
    except AttributeError as error:
        pytest.skip(f"this Numba does not fit this NumPy: {error}", allow_module_level=True)

F = types.float32[::1]
I = types.int32[::1]  # noqa: E741


def compiled(function: Callable[..., Any], *signature: Any, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ptx: str = cuda.compile_ptx(function, signature, cc=(9, 0), **options)[0]
    return ptx


def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


OPTIONS: list[dict[str, bool]] = [
    {},
    {"lineinfo": True},
    {"fastmath": True},
    {"debug": True, "opt": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_arrays_are_arguments(device: str, options: dict[str, bool]) -> None:
    ptx = compiled(saxpy, types.int32, types.float32, F, F, **options)
    kernel = coalesce.Kernel(ptx, device=device)
    assert str(kernel.signature).endswith(
        "saxpy(int32 arg0, float32 arg1, array(float32, 1d, C) arg2, array(float32, 1d, C) arg3)"
    )
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    kernel[1, 128](100, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)
    on_device = coalesce.zeros(100, device=device)
    kernel[1, 128](100, 2.0, x, on_device)
    np.testing.assert_array_equal(on_device.get(), 2 * x)


def test_pointers(device: str) -> None:
    pointer = types.CPointer(types.float32)
    ptx = compiled(saxpy, types.int32, types.float32, pointer, pointer)
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    coalesce.Kernel(ptx, device=device)[1, 128](100, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_shared_memory_and_matrices(device: str) -> None:
    def matmul(A, B, C):
        s = cuda.shared.array((16, 16), types.float32)
        t = cuda.shared.array((16, 16), types.float32)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        acc = types.float32(0)
        for i in range((A.shape[1] + 15) // 16):
            s[ty, tx] = A[y, tx + i * 16] if y < A.shape[0] and tx + i * 16 < A.shape[1] else 0
            t[ty, tx] = B[ty + i * 16, x] if x < B.shape[1] and ty + i * 16 < B.shape[0] else 0
            cuda.syncthreads()
            for j in range(16):
                acc += s[ty, j] * t[j, tx]
            cuda.syncthreads()
        if y < C.shape[0] and x < C.shape[1]:
            C[y, x] = acc

    c_order, fortran = types.float32[:, ::1], types.float32[::1, :]
    random = np.random.default_rng(3)
    a = random.random((20, 33), np.float32)
    b = np.asfortranarray(random.random((33, 40), np.float32))
    for layout in (c_order, types.float32[:, :], fortran):
        c = np.zeros((20, 40), np.float32)
        kernel = coalesce.Kernel(compiled(matmul, c_order, layout, c_order), device=device)
        kernel[(3, 2), (16, 16)](a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_warps_and_atomics(device: str) -> None:
    def total(x, out, counts):
        v = types.float32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            v += x[i]
        offset = 16
        while offset > 0:
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, offset)
            offset //= 2
        if cuda.laneid == 0:
            cuda.atomic.add(out, 0, v)
        cuda.atomic.max(counts, 0, cuda.grid(1))
        cuda.atomic.add(counts, 1, cuda.popc(cuda.ballot_sync(0xFFFFFFFF, cuda.laneid < 5)))

    x = np.random.default_rng(4).random(1000, np.float32)
    out, counts = np.zeros(1, np.float32), np.zeros(2, np.int32)
    coalesce.Kernel(compiled(total, F, F, I), device=device)[2, 64](x, out, counts)
    np.testing.assert_allclose(out[0], x.sum(), rtol=1e-5)
    assert counts.tolist() == [127, 5 * 128]


def test_mathematics(device: str) -> None:
    def functions(x, y):
        i = cuda.grid(1)
        if i < x.size:
            v = x[i]
            y[i] = math.sin(v) + math.exp(v) + math.log(abs(v) + 1) + math.erf(v)
            y[i] += math.atan2(v, 2.0) + math.gamma(abs(v) + 1) + math.floor(v) + v % 3.0

    x = np.linspace(-5, 5, 50)
    y = np.zeros(50)
    double = types.float64[::1]
    coalesce.Kernel(compiled(functions, double, double), device=device)[1, 64](x, y)
    expected = [
        math.sin(v) + math.exp(v) + math.log(abs(v) + 1) + math.erf(v) + math.atan2(v, 2.0)
        + math.gamma(abs(v) + 1) + math.floor(v) + v % 3.0
        for v in x
    ]  # fmt: skip
    np.testing.assert_allclose(y, expected, rtol=1e-10)


def test_complex_numbers_and_structures_of_memory(device: str) -> None:
    def rotate(z, by):
        s = cuda.shared.array(0, types.complex64)
        s[cuda.threadIdx.x] = z[cuda.threadIdx.x] * by
        cuda.syncthreads()
        z[cuda.threadIdx.x] = s[cuda.blockDim.x - 1 - cuda.threadIdx.x]

    z = np.array([1 + 1j, 2 - 1j], np.complex64)
    ptx = compiled(rotate, types.complex64[::1], types.complex64)
    coalesce.Kernel(ptx, device=device)[1, 2, 16](z, 2j)
    np.testing.assert_allclose(z, [2 + 4j, -2 + 2j])


@pytest.mark.usefixtures("on_simulator")
def test_messages_and_profiles_show_the_python_line() -> None:
    ptx = compiled(saxpy, types.int32, types.float32, F, F, lineinfo=True)
    kernel = coalesce.Kernel(ptx, device="sim")
    x, y = np.ones(50, np.float32), np.ones(100, np.float32)
    with pytest.raises(coalesce.MemoryFault) as caught:
        kernel[1, 128](100, 2.0, x, y)
    assert "past the end of `arg2`" in str(caught.value)
    assert "y[i] = a * x[i] + y[i]" in str(caught.value)
    profile = kernel.profile(1, 128, 100, 2.0, y, y.copy())
    assert profile.sectors_per_request["load"] == 3.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 2.0), r"takes 4 arguments; got 2"),
        ((1, 2.0, np.zeros(3), np.zeros(3, np.float32)), "needs an array of float32; got dtype"),
        ((1, 2.0, np.zeros((3, 3), np.float32), None), r"`arg2` .* needs 1 dimension; got shape"),
        ((1, 2.0, 5, np.zeros(3, np.float32)), "`arg2` .* needs an array of float32; got int 5"),
        ((1.5, 2.0, None, None), "`arg0` .* needs int32; got float 1.5"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], message: str) -> None:
    ptx = compiled(saxpy, types.int32, types.float32, F, F)
    with pytest.raises(TypeError, match=message):
        coalesce.Kernel(ptx, device="sim")[1, 32](*arguments)


def test_names_that_do_not_agree_with_the_parameters_are_ignored() -> None:
    tagged = "_ZN4main1fB2v1B6abcdefEi5ArrayIfLi1E1C7mutable7alignedE"
    arguments = arguments_of(tagged, 8)
    assert arguments is not None
    assert [a.spelled for a in arguments] == ["int32", "array(float32, 1d, C)"]
    assert arguments_of(tagged, 9) is None
    assert arguments_of("_Z1fPf", 1) is None
    assert arguments_of(tagged + "?", 8) is None
