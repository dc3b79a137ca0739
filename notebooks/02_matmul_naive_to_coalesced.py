# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 2. Matrix multiplication, from naive to coalesced
#
# **The question.** Two kernels compute the same product with the same arithmetic, one thread for each
# element of the result. Below is how long they take. What is the difference, and could we have known
# without a GPU?

# %% tags=["install", "remove-cell"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # install it from this checkout
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "..[notebooks]"], check=True)

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

N = 128
rng = np.random.default_rng(0)
a, b = rng.random((2, N, N), dtype=np.float32)

# %%
lessons.times("matmul", ["naive", "coalesced"])

# %% [markdown]
# ## The first kernel
#
# BLAS defines the operation as `out = alpha * a @ b + beta * c`. Each thread takes one `(row, col)`
# and walks along a row of `a` and down a column of `b`.

# %%
print(lessons.code("matmul", "naive"))

# %% [markdown]
# `INDEX` and `REAL` are `int` and `float` here, `TILE` is 32. The grid is a **ceil division**: as many blocks of 32 as it
# takes to cover M, the last of which may stick out. **Predict** for a result of 100 x 70: how many threads
# have nothing to do, and what keeps them from doing it?

# %% tags=["counts"]
M, width = 100, 70
p = coalesce.profile("matmul", a[:M], b[:, :width], variant="naive", device="sim")
threads = int(np.prod(p.grid) * np.prod(p.block))
print(f"grid {p.grid[:2]} of blocks {p.block[:2]}: {threads} threads for {M * width} elements")

# %% [markdown]
# The `if` on `row` and `col` does. Without it they would read and write past the ends.
#
# ## Where do the lanes read?
#
# `row` comes from `threadIdx.x`, so the lanes of a warp are 32 *rows*. **Predict** for one step `k` of the
# loop: where do the 32 lanes read in `a`? Where in `b`?

# %%
lanes = range(32)
naive = {
    f"k = {k}": [
        draw.Matrix("a", (N, N), [(lane, k) for lane in lanes]),
        draw.Matrix("b", (N, N), [(k, 0) for lane in lanes]),
    ]
    for k in (0, 1, 2)
}
draw.matrices(naive, title="naive: what one warp reads")

# %% [markdown]
# The picture every tutorial draws, and here is what it hides: each step moves 32 sectors of `a` to use
# 4 bytes of each. The next step wants the 4 bytes beside them. Unless the cache kept all of that
# (32 lanes x 32 bytes for *every* warp on the multiprocessor), it is moved again.
#
# That is the picture; now the count. The simulator runs the code that the CUDA compiler made of the
# kernel and counts what its loads touch, as a GPU's counters would.

# %%
p_naive = coalesce.profile("matmul", a, b, variant="naive", device="sim")
p_naive

# %% [markdown]
# ## The fix is one line
#
# **Predict:** swap the roles of the lanes, so that a warp's lanes are 32 neighbouring *columns*. What
# happens to `a`? To `b`? To the store?

# %%
print(lessons.code("matmul", "coalesced"))

# %%
coalesced = {
    f"k = {k}": [
        draw.Matrix("a", (N, N), [(0, k) for lane in lanes]),
        draw.Matrix("b", (N, N), [(k, lane) for lane in lanes]),
    ]
    for k in (0, 1, 2)
}
draw.matrices(coalesced, title="coalesced: what one warp reads")

# %% [markdown]
# `a` is now a **broadcast**: one element for all lanes, one sector. It is not waste, however small the
# fraction of the sector looks; the warp got everything it asked for in one sector. `b` is
# **contiguous**: 32 floats in 4 sectors, every byte used.

# %%
p_coalesced = coalesce.profile("matmul", a, b, variant="coalesced", device="sim")
coalesce.compare(p_naive, p_coalesced)

# %% tags=["counts"]
for p in (p_naive, p_coalesced):
    m = p.metrics()
    requests = m["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    sectors = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"{requests:.0f} load requests, {sectors:.0f} sectors, {2 * sectors / requests:.0f} a step"
    )

# %% [markdown]
# Two loads a step: 32 + 1 sectors become 1 + 4. The number of requests did not change, nor did the
# arithmetic: it is the same work through a different door.
#
# ## The trap
#
# One printed version of this optimisation flattens the block to 1024 threads and computes
#
# ```
# col = blockIdx.x * 32 + threadIdx.x / 32;
# row = blockIdx.y * 32 + threadIdx.x % 32;
# ```
#
# **Predict:** is that the fast kernel or the slow one? The variant `coalesced_swapped` divides and takes the remainder like that;
# only its blocks are counted along the other axis, which no warp notices.

# %% tags=["counts"]
for variant in ("naive", "coalesced", "coalesced_swapped", "naive_2d"):
    p = coalesce.profile("matmul", a, b, variant=variant, device="sim")
    print(f"{variant:18} {2 * p.sectors_per_request['load']:4.0f} sectors a step")

# %% [markdown]
# The slow one, exactly. `/` and `%` are swapped, so neighbouring lanes are rows again; the result is
# right and the kernel is as uncoalesced as the naive one. Nothing but a count (or a clock) shows it.
# And `naive_2d`, which the same tutorials call naive, has `col` follow `threadIdx.x` and coalesces.
# The clock agrees:

# %%
lessons.times("matmul", ["naive", "coalesced", "coalesced_swapped", "naive_2d"])

# %% [markdown]
# ## alpha and beta
#
# Whether `c` is read at all depends on `beta`; BLAS says that with `beta == 0` it is not. **Predict:** how
# many more load requests does `beta = 1` cost, for a matrix of 128 x 128?

# %% tags=["counts"]
c = rng.random((N, N), dtype=np.float32)
for beta in (0.0, 1.0):
    p = coalesce.profile(
        "matmul", a, b, variant="coalesced", alpha=2.0, beta=beta, c=c, device="sim"
    )
    out = coalesce.matmul(a, b, variant="coalesced", alpha=2.0, beta=beta, c=c, device="sim")
    assert np.allclose(out, 2 * a @ b + beta * c, atol=1e-3)
    requests = p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    print(f"beta = {beta:.0f}: {requests:.0f} load requests")

# %% [markdown]
# One request for each of the 512 warps: nothing beside the 2 x 128 each of them makes in the loop.
#
# **To remember**
# - Ask of each load: at this step, where are lane 0, lane 1, lane 2?
# - All in one element: a broadcast, 1 sector. Side by side: contiguous, 4 sectors. A row apart: 32.
# - A kernel can be right and slow with two characters exchanged. Count.
