"""Kernels that the tests of coalesce.triton run. They are as a user would write them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, row_step, column_step, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns
    v = tl.load(x + row * row_step + i * column_step, mask=mask, other=-float("inf"))
    powers = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, axis=0), mask=mask)


@triton.autotune(configs=[triton.Config({"B": b}, num_warps=4) for b in (16, 32)], key=["n"])
@triton.jit
def matmul(a, b, c, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, n, B):
        k = start + tl.arange(0, B)
        total += tl.dot(
            tl.load(a + i[:, None] * n + k[None, :]), tl.load(b + k[:, None] * n + j[None, :])
        )
    tl.store(c + i[:, None] * n + j[None, :], total)


@triton.jit
def double_all(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i))


@triton.jit
def wrong_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
    tl.store(out, tl.load(out) + total)


@triton.jit
def double_described(x, y, B: tl.constexpr):
    at = [tl.program_id(0) * B, tl.program_id(1) * B]
    y.store(at, 2 * x.load(at))


@triton.jit
def double_through_pointers(x, y, rows, columns, step, B: tl.constexpr):
    at = [tl.program_id(0) * B, tl.program_id(1) * B]
    to = tl.make_tensor_descriptor(y, shape=[64, 64], strides=[64, 1], block_shape=[B, B])
    described = tl.make_tensor_descriptor(
        x, shape=[rows, columns], strides=[step, 1], block_shape=[B, B]
    )
    to.store(at, 2 * described.load(at))


@triton.jit
def double_parts(table, sizes, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    x = tl.load(table + part).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    mask = i < tl.load(sizes + part)
    tl.store(x + i, 2 * tl.load(x + i, mask=mask), mask=mask)


@triton.jit
def row_sums(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * n + tl.arange(0, BLOCK))  # WITHOUT A MASK

    tl.store(out + row, tl.sum(values, 0))
