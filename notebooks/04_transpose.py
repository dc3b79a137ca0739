# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 4. Transpose: one side always suffers
#
# **The question.** A transposition computes nothing: it reads each element once and writes it once. A copy does
# the same. Yet the obvious transpositions, the first two below, take much longer than a copy. Where does the time go, and is it better
# to suffer in the reads or in the writes?

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

rng = np.random.default_rng(0)
a = rng.random((128, 128), dtype=np.float32)

# %%
lessons.times("transpose", ["naive_read", "naive_write", "copy"], n=16384, against="copy")

# %% [markdown]
# A warp reads 32 elements along a row of `a` and must write them down a column of the result, or the other way
# round. **Predict** the sectors of the load and of the store for each.

# %%
lanes = range(32)
draw.matrices(
    {
        "read along, write down": [
            draw.Matrix("a", (128, 128), [(0, lane) for lane in lanes]),
            draw.Matrix("out", (128, 128), [(lane, 0) for lane in lanes]),
        ],
        "read down, write along": [
            draw.Matrix("a", (128, 128), [(lane, 0) for lane in lanes]),
            draw.Matrix("out", (128, 128), [(0, lane) for lane in lanes]),
        ],
    },
    title="one warp of a transposition",
    headline="Without shared memory one side touches 32 sectors",
)

# %% tags=["counts"]
profiles = {
    v: coalesce.profile("transpose", a, variant=v, device="sim")
    for v in ("copy", "naive_read", "naive_write", "tiled", "padded", "swizzled")
}
for variant, p in profiles.items():
    s = p.sectors_per_request
    print(
        f"{variant:12} load {s['load']:2.0f}  store {s['store']:2.0f} sectors per request, "
        f"{p.bank_conflicts:6} bank conflicts"
    )

# %% [markdown]
# `naive_read` reads well and writes badly, `naive_write` the other way round. The counters cannot say which is
# worse: both use an eighth of one side. The times above can. What differs is the fate of the other seven eighths, behind the first-level cache. **Predict:** on
# which side does that cache help? (The next figures are modelled.)

# %%
for variant in ("naive_read", "naive_write"):
    m = profiles[variant].metrics()
    print(
        f"{variant:12} {m['lts__t_sectors_srcunit_tex_op_read.sum']:6} sectors read from the second level, "
        f"{m['lts__t_sectors_srcunit_tex_op_write.sum']:6} written to it"
    )

# %% [markdown]
# The rest of a sector that was *read* in vain may still lie in the first-level cache when the next warps want it. A sector *written* in part goes on to the
# second level at once, 4 bytes of it, and its neighbours follow one by one.
#
# ## The tile, again
#
# Read a tile along its rows into shared memory, read it there by columns, write along rows. Both global sides are
# then contiguous. The cost moves into shared memory, and a profile finds it there:

# %%
profiles["tiled"]

# %% [markdown]
# A column of a 32 x 32 tile is one bank: 32 wavefronts (lesson 3). There are two cures.
#
# **Padding**: rows of 33 words. **Swizzling**: keep element (r, c) at column `c ^ r`. **Predict** for each: in which banks
# are the 32 elements of column 5?

# %%
draw.bank_board(
    [(r * 33 + 5) * 4 for r in lanes], 4, rows="words", title="padded: tile[r][5] of tile[32][33]"
)

# %%
draw.bank_board(
    [(r * 32 + (5 ^ r)) * 4 for r in lanes],
    4,
    rows="words",
    title="swizzled: column 5 of tile[32][32] is at tile[r][5 ^ r]",
)

# %% [markdown]
# Each bank once, both times. The swizzled tile needs no extra words, and its rows stay aligned for loads of 16 bytes,
# which an odd row length would spoil.
#
# ## How near to a copy?
#
# Bytes over time, where the bytes are what must move at least: each element once in and once out. **Predict:** which variants come near the copy?

# %%
measured = lessons.times("transpose", list(profiles), n=16384)
measured

# %%
if measured:
    share = {name: 100 * measured.ratio(name, "copy") for name in measured}
    axes = coalesce.plots.bars(
        share, label="bandwidth, % of the copy's", format="{:.0f}", theme="transparent"
    )

# %% [markdown]
# Both cures come near the copy. The tile alone does not: its conflicts cost about what it saved, compare it with `naive_write`.
#
# ## Transposing B first
#
# Lesson 2 found that lanes must step along a row. One tutorial concludes that `b` should be transposed before the product, so that each thread walks along
# its row. **Predict** the sectors of a step.

# %% tags=["counts"]
b = rng.random((128, 128), dtype=np.float32)
direct = coalesce.profile("matmul", a, b, variant="naive_2d", device="sim")
turned = coalesce.profile("matmul", a, b, variant="transposed_b", device="sim")
for name, p in {"b as it is": direct, "b transposed": turned}.items():
    sectors = p.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"{name:13} {2 * p.sectors_per_request['load']:2.0f} sectors a step, {sectors:.0f} in all"
    )
extra = turned.preparation[0].metrics()
print(
    f"and the transposition itself loads {extra['l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum']:.0f} more"
)

# %% [markdown]
# One thread's walk along a row is the one pattern that helps a CPU and hurts a GPU. Each lane now has a row of its own, 33
# sectors a step where there were 5. When does it pay? For this kernel never: the load it repairs was fine. To know for
# any other: count the sectors of the load before and after, and add what the transposition itself moves. The clock, with the transposition's part:

# %%
product = lessons.times("matmul", ["naive_2d", "transposed_b"])
product

# %%
if product:
    for kernel, ms in product["transposed_b"].parts:
        print(f"{kernel:12} {ms:9.3f} ms")

# %% [markdown]
# (`padded` is the transposition.) It is cheap; what it makes of the product is not.
#
# **To remember**
# - A copy is the yardstick of a transposition: bytes over time, as a share of the copy's.
# - Without shared memory one side is strided; a tile moves the problem into shared memory, padding or a swizzle solves it there.
# - "Along the row" must be true of the *lanes* at one instant, not of a thread over time.
