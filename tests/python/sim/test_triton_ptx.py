"""PTX that Triton compiled, run with its arguments. Triton needs no GPU to compile."""

import warnings
from typing import Any

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.filterwarnings("ignore")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    triton = pytest.importorskip("triton")
    import triton.language as tl
    from triton.backends.compiler import GPUTarget


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, mask=i < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * cols + i, e / tl.sum(e, axis=0), mask=i < cols)


@triton.jit
def matmul(a, b, c, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, n, B):
        k = start + tl.arange(0, B)
        left = tl.load(a + i[:, None] * n + k[None, :])
        right = tl.load(b + k[:, None] * n + j[None, :])
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(c + i[:, None] * n + j[None, :], total)


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i), axis=0))


@triton.jit
def half_product(a, b, c, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


def run(
    function: Any, signature: dict[str, str], constants: dict[str, int], grid: Any, *arguments: Any,
    device: str,
) -> None:  # fmt: skip
    """Compile for the device and launch with Triton's four warps and its scratch pointers."""
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    source = triton.compiler.ASTSource(fn=function, signature=types, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    kernel = coalesce.Kernel(made.asm["ptx"], device=device)
    scratch = [None] * (len(kernel.signature.parameters) - len(arguments))
    kernel[grid, 128, made.metadata.shared](*arguments, *scratch)


F = "*fp32"
I = "*i32"  # noqa: E741


def test_masks(device: str) -> None:
    x = np.arange(3000, dtype=np.float32)
    out = np.zeros(3000, np.float32)
    signature = {"x": F, "y": F, "out": F, "n": "i32"}
    run(add, signature, {"BLOCK": 1024}, 3, x, x[::-1].copy(), out, 3000, device=device)
    np.testing.assert_array_equal(out, 2999)


def test_reductions(device: str) -> None:
    x = np.random.default_rng(1).random((8, 200), np.float32)
    out = np.zeros_like(x)
    run(softmax, {"x": F, "out": F, "cols": "i32"}, {"BLOCK": 256}, 8, x, out, 200, device=device)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_products_without_tensor_cores(device: str) -> None:
    a, b = np.random.default_rng(2).random((2, 64, 64), np.float32)
    c = np.zeros((64, 64), np.float32)
    signature = {"a": F, "b": F, "c": F, "n": "i32"}
    run(matmul, signature, {"B": 32}, (2, 2), a, b, c, 64, device=device)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_atomics(device: str) -> None:
    x = np.random.default_rng(3).integers(0, 16, 1000).astype(np.int32)
    out = np.zeros(16, np.int32)
    signature = {"x": I, "out": I, "n": "i32"}
    run(histogram, signature, {"BLOCK": 256}, 4, x, out, 1000, device=device)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=16))


def test_scans(device: str) -> None:
    x = np.arange(256, dtype=np.float32)
    out = np.zeros_like(x)
    run(scan, {"x": F, "out": F}, {"BLOCK": 256}, 1, x, out, device=device)
    np.testing.assert_array_equal(out, np.cumsum(x))


def test_tensor_cores(device: str) -> None:
    """Triton multiplies with wgmma and stores the operands in shared memory itself."""
    a, b = np.random.default_rng(4).normal(size=(2, 64, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    signature = {"a": "*fp16", "b": "*fp16", "c": F}
    run(half_product, signature, {"B": 64}, 1, a, b, c, device=device)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)
