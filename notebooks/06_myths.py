# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 6. Myths: twelve detective stories
#
# **The question.** Everything below was taught somewhere, with confidence. What does the count say? For each story: read the claim and the
# kernel, **predict**, then run the cell. A counter is a witness that does not argue.

# %% tags=["install", "remove-cell"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # install it from this checkout
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "..[notebooks]"], check=True)

# %%
import re

import numpy as np

import coalesce
from coalesce import draw, lessons

rng = np.random.default_rng(0)
a, b = rng.random((2, 128, 128), dtype=np.float32)


def exhibit(variant):
    """Print the lines of a kernel that say where its threads go."""
    code = (line.partition("//")[0] for line in coalesce.source("matmul", variant).splitlines())
    for line in code:
        if re.search(r"threadIdx|col =|sum \+=|_tile\[.*\] =", line):
            print("   ", line.strip())


def text(name):
    """Return a kernel of this lesson without its first comment, which would tell too much."""
    return lessons.source(name).partition("\n\n")[2]


def testimony(p):
    """Sectors per load request, and how much of them is used."""
    used = p.metrics()["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"]
    return f"{p.sectors_per_request['load']:5.2f} sectors per load, {used:3.0f} % of the bytes used"


def question(*variants):
    """Print what the profiles of variants of the product say."""
    for variant in variants:
        p = coalesce.profile("matmul", a, b, variant=variant, device="sim")
        print(f"{variant:20} {testimony(p)}, {p.bank_conflicts:9,} bank conflicts")


# %% [markdown]
# ## 1. "Loads of 4 bytes waste bandwidth, since a transaction has at least 32"
#
# True of a thread alone. But who loads alone?

# %%
draw.warp_access(range(0, 128, 4), 4, title="x[i] with float x[]")

# %% [markdown]
# **Verdict: wrong.** The unit is the warp: 32 lanes of 4 bytes fill 4 sectors to the last byte. Wider loads help for another reason: fewer
# requests for the same bytes.
#
# ## 2. "One lane far away costs a whole transaction of 128 bytes"

# %%
draw.warp_access([*range(0, 31 * 4, 4), 100_000], 4, title="31 lanes side by side, one far away")

# %% [markdown]
# **Verdict: nearly.** One more *sector*: 32 bytes, not 128. A line has 128 bytes, but is filled sector by sector.
#
# ## 3. "The lanes must be in order"

# %% tags=["counts"]
x = rng.random(1 << 14, dtype=np.float32)
orders = {"in order": {"pattern": "offset", "offset": 0}, "reversed": {"pattern": "permuted"}}
for name, options in orders.items():
    print(f"{name:20} {testimony(coalesce.profile('access', x, device='sim', **options))}")

# %% [markdown]
# **Verdict: wrong.** Any order of the same addresses touches the same sectors.
#
# ## 4. "Here is the coalesced kernel: flatten the block, divide, take the remainder"
#
# Printed with `/` for the column and `%` for the row, as here. (Only the axes of the grid are exchanged, which no warp notices.)

# %%
exhibit("coalesced_swapped")

# %% tags=["counts"]
question("naive", "coalesced", "coalesced_swapped")

# %%
lessons.times("matmul", ["naive", "coalesced", "coalesced_swapped"])

# %% [markdown]
# **Verdict: wrong as printed.** Division and remainder are exchanged, and it is the naive kernel again. The result is right, so no test
# of the *values* can notice.
#
# ## 5. "This one cannot coalesce: it is the naive kernel"
#
# The text of the previous story begins with this kernel, as the slow one.

# %%
exhibit("naive_2d")

# %% tags=["counts"]
question("naive_2d")

# %%
lessons.times("matmul", ["naive", "naive_2d", "coalesced"])

# %% [markdown]
# **Verdict: wrong.** `col` follows `threadIdx.x`, so lanes step along a row of `b`, and `a` is a broadcast. It was coalesced all along; the
# cure of story 4 made it worse.
#
# ## 6. "The tiled kernel's load of B is strided; write the tile transposed and it coalesces"

# %%
exhibit("tiled_transposed")

# %% tags=["counts"]
question("tiled", "tiled_transposed")

# %%
lessons.times("matmul", ["tiled", "tiled_transposed"])

# %% [markdown]
# **Verdict: wrong.** There was nothing to cure: both loads go along rows. The cure leaves them as they were, and writes the tile by columns, into
# one bank.
#
# ## 7. "Once it is in shared memory, any order of access is fast"
#
# `b` lies column by column; its tile is loaded along the columns, which coalesces, and then read across.

# %%
exhibit("corner_turned")

# %% tags=["counts"]
question("corner_turned", "corner_turned_padded")

# %%
lessons.times("matmul", ["corner_turned", "corner_turned_padded"])

# %% [markdown]
# **Verdict: half right.** The loads coalesce; 32 lanes that read down a column of 32 words stand before one bank. One word of padding a row.
#
# ## 8. "Then pad every tile: it costs nothing but a few bytes"
#
# The tile of `a` in this product, with rows of 32 or of 33 words. **Predict:** which has bank conflicts? Which executes more loads?

# %%
print(text("padding"))

# %% tags=["counts"]
out = np.empty_like(a)
for pad in (0, 1):
    product = coalesce.Kernel(lessons.source("padding"), "product", options=[f"-DPAD={pad}"])
    p = product.profile((4, 4), (32, 32), a, b, out, 128)
    assert np.allclose(out, a @ b, atol=1e-3)
    requests = sum(t.requests for t in p.totals() if t.name == "shared load")
    print(f"PAD = {pad}: {p.bank_conflicts} bank conflicts, {requests:7,} shared load requests")

# %%
lessons.times("lesson", ["padding 0", "padding 1"])

# %% [markdown]
# **Verdict: wrong.** A row read by all lanes at one word is a broadcast, so there was no conflict to remove. But rows of 33 words do not start
# at multiples of 16 bytes, and one load of four words becomes four loads of one. Pad what conflicts, and count again.
#
# ## 9. "Transpose B first, then both matrices are read along rows"

# %%
exhibit("transposed_b")

# %% tags=["counts"]
question("naive_2d", "transposed_b")

# %%
lessons.times("matmul", ["naive_2d", "transposed_b"])

# %% [markdown]
# **Verdict: wrong.** Each *thread* walks along a row. At one instant the *lanes* are a row apart.
#
# ## 10. "Without shared memory each thread simply loads the tiles itself"
#
# An "unoptimised" tiled product, for comparison: each thread, in each tile, loads *its* element of `a` and of `b` and multiplies them. **Predict**
# the result.

# %% tags=["counts"]
untiled = coalesce.Kernel(
    """
extern "C" __global__ void untiled(const float *a, const float *b, float *out, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < n / 16; ++tile)
        sum += a[row * n + tile * 16 + threadIdx.x] * b[(tile * 16 + threadIdx.y) * n + col];
    out[row * n + col] = sum;
}
""",
    "untiled",
)
p = untiled.profile((8, 8), (16, 16), a, b, out, 128)
print(testimony(p))
print(f"right elements: {np.isclose(out, a @ b).sum()} of {out.size}")

# %% [markdown]
# **Verdict: a wrong result.** Fast, coalesced, and no matrix product: each element gets one product a tile. Compare with NumPy *before*
# comparing times.
#
# ## 11. "Slow, so its access must be uncoalesced"
#
# Two kernels that double an array. The second takes far longer. **Predict** its sectors per request.

# %%
print(text("repeats"))

# %% tags=["counts"]
for name in ("once", "again"):
    p = coalesce.Kernel(lessons.source("repeats"), name).profile(
        16, 256, x, np.empty_like(x), x.size
    )
    requests = p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    print(f"{name:6} {testimony(p)}; {requests:6,} requests for {x.size // 32:,} warps of data")

# %%
lessons.times("lesson", ["once", "again"], n=1 << 24)

# %% [markdown]
# **Verdict: not guilty.** Every request is perfectly coalesced; there are as many times too many as there are blocks, since each does all the
# work. Sectors *a request* say how a load is done, requests how often. Look at both.
#
# ## 12. "Column sums beat row sums, because they coalesce"
#
# One thread for each column, or one for each row.

# %% tags=["counts"]
rows = coalesce.profile("row_sums", a, variant="thread_per_row", device="sim")
columns = coalesce.profile("column_sums", a, variant="thread_per_column", device="sim")
for name, p in {"a thread a row": rows, "a thread a column": columns}.items():
    print(f"{name:20} {testimony(p)}; {p.grid[0] * p.block[0]} threads")

# %%
t = lessons.times("row_sums", ["thread_per_row", "block_per_row"])
u = lessons.times("column_sums", ["thread_per_column", "column_tiles"])
for name, timing in [*t.items(), *u.items()]:
    print(f"{name:20} {timing.gbps:6,.0f} GB/s, {timing.source}, n = {t.n}")

# %% [markdown]
# **Verdict: right, and not the point.** The columns move an eighth of the sectors and are faster, but by less than that and far from what the GPU
# can do: with one thread for each row or column few warps are on their way at once (lesson 5).
#
# **To remember**
# - Check the result first, then requests, then sectors per request, then time.
# - A claim about memory that comes without a count is a guess.
