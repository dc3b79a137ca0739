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
# the same. Yet on an H200 the obvious transposition reaches a seventh of the copy's bandwidth. Where does the rest go,
# and is it better to suffer in the reads or in the writes?

# %% tags=["install"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # on Colab, for example
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "coalesce-gpu[notebooks]"], check=True
    )

# %%
import numpy as np

import coalesce
from coalesce import draw

rng = np.random.default_rng(0)
a = rng.random((128, 128), dtype=np.float32)

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
        f"{variant:12} load {s['load']:2.0f}  store {s['store']:2.0f} sectors a request, "
        f"{p.bank_conflicts:6} bank conflicts"
    )

# %% [markdown]
# `naive_read` reads well and writes badly, `naive_write` the other way round. The counters cannot say which is
# worse, both waste seven eighths of one side; the difference is what happens to the wasted part. A store of 4 bytes
# into a sector can wait in the second-level cache until its neighbours arrive; a load of 4 bytes makes a warp wait
# for the whole sector.
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
# are the 32 elements of column 0?

# %%
draw.bank_board(
    [(r * 33) * 4 for r in lanes], 4, rows="words", title="padded: tile[r][0] of tile[32][33]"
)

# %%
draw.bank_board(
    [(r * 32 + (0 ^ r)) * 4 for r in lanes],
    4,
    rows="words",
    title="swizzled: column 0 of tile[32][32] is at tile[r][0 ^ r]",
)

# %% [markdown]
# The same picture, but the swizzled tile needs no extra words, and its rows stay aligned for loads of 16 bytes,
# which an odd row length would spoil.
#
# ## How near to a copy?
#
# Of 128 x 128 elements, and modelled: measured times of this size would be the launch and little else.

# %%
axes = coalesce.plots.ladder(profiles, of="time")
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
# any other: count the sectors of the load before and after, and add what the transposition itself moves.
#
# **To remember**
# - A copy is the yardstick of a transposition: bytes over time, as a share of the copy's.
# - Without shared memory one side is strided; a tile moves the problem into shared memory, padding or a swizzle solves it there.
# - "Along the row" must be true of the *lanes* at one instant, not of a thread over time.
