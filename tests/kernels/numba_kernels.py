"""Kernels in Python that the tests of coalesce.numba run. They are as a user would write them."""

from __future__ import annotations

import math

from numba import cuda, float32, int32

TILE = 16


@cuda.jit
def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]  # SAXPY


@cuda.jit
def matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        sa[ty, tx] = 0
        sb[ty, tx] = 0
        if y < a.shape[0] and tx + tile * TILE < a.shape[1]:
            sa[ty, tx] = a[y, tx + tile * TILE]
        if x < b.shape[1] and ty + tile * TILE < b.shape[0]:
            sb[ty, tx] = b[ty + tile * TILE, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.jit
def reversed_without_barrier(x):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    x[i] = s[63 - i]  # RACE


@cuda.jit
def past_the_end(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i + 1]  # OUTSIDE


@cuda.jit
def barrier_in_a_branch(x):
    i = cuda.threadIdx.x
    if i < 16:
        x[i] += 1
        cuda.syncthreads()  # BARRIER


@cuda.jit
def set_one(x, y):
    x[2, 3] = y[0, 0]


@cuda.jit
def histogram(values, counts):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, values[i], 1)


@cuda.jit(device=True)
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


@cuda.jit
def hypotenuses(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = hypotenuse(a[i], b[i])


@cuda.jit
def warp_sums(x, out):
    i = cuda.grid(1)
    value = x[i]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if cuda.laneid == 0:
        out[i // 32] = value


@cuda.jit
def dynamic_reverse(x):
    s = cuda.shared.array(0, int32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    x[i] = s[cuda.blockDim.x - 1 - i]


@cuda.jit
def grid_steps(x):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(3):
        left = x[i - 1] if i > 0 else 0
        grid.sync()
        x[i] += left
        grid.sync()


def line_of(mark: str) -> int:
    """Return the number of the line of this file that ends with a mark."""
    with open(__file__) as file:  # noqa: PTH123
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {mark}"))


@cuda.jit(device=True)
def fill_own_tile(tile, value):
    inner = cuda.shared.array(32, float32)
    inner[31 - cuda.threadIdx.x] = value
    tile[cuda.threadIdx.x] = inner[cuda.threadIdx.x]


@cuda.jit
def own_tiles(x):
    outer = cuda.shared.array(32, float32)
    fill_own_tile(outer, x[cuda.threadIdx.x])
    x[cuda.threadIdx.x] = outer[cuda.threadIdx.x]


@cuda.jit(device=True)
def one_more(value):
    return value + 1


@cuda.jit(debug=True, opt=False)
def debugged(x):
    i = cuda.threadIdx.x
    x[i] = one_more(2 * x[i])


@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit
def double_matrix(x):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] *= 2


@cuda.jit
def double_scalar(x):
    x[()] *= 2


@cuda.jit(device=True)
def scaled(value, factor):
    return value * factor


@cuda.jit
def sums(x, out):
    i = cuda.grid(1)
    total = 0
    n = 0
    while n < 3:
        factor = 2
        if n % 2 == 1:
            factor = 1
        total += scaled(x[i], factor)
        n += 1
    out[i] = total
