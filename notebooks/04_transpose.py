# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 4. Transpose: one side is always strided
#
# **The question.** A transposition computes nothing: it reads each element once and writes it once. A copy does the same.
# Yet the two simplest kernels for a transposition take much longer than a copy. What takes so long? And is it better to
# have uncoalesced reads or uncoalesced writes?
#
# **Time:** 45 minutes. **You need:** [lesson 3](03_tiles_and_corner_turning.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

rng = np.random.default_rng(0)
a = rng.random((128, 128), dtype=np.float32)

# %% [markdown]
# ## Two simple kernels
#
# A warp moves 32 elements. If it reads them along a row of `a`, it must write them down a column of the result. If it
# reads them down a column of `a`, it writes them along a row. So there are two simple kernels. Their blocks have 32 x 8
# threads and move tiles of 32 x 32 elements, so each thread moves four elements. (`REAL`, `TILE` and `ROWS` are macros
# for `float`, 32 and 8. `block_y` is `blockIdx.y`, for matrices of up to 65,535 rows of blocks. `__restrict__` promises the
# compiler that the two arrays do not overlap.)

# %%
lessons.code("transpose", "naive_read")

# %%
lessons.code("transpose", "naive_write")

# %%
lanes = range(32)
walks = {
    "naive_read": [
        draw.Matrix("a", (128, 128), [(0, lane) for lane in lanes]),
        draw.Matrix("out", (128, 128), [(lane, 0) for lane in lanes]),
    ],
    "naive_write": [
        draw.Matrix("a", (128, 128), [(lane, 0) for lane in lanes]),
        draw.Matrix("out", (128, 128), [(0, lane) for lane in lanes]),
    ],
}
names = ("copy", "naive_read", "naive_write", "tiled", "padded", "swizzled")
profiles = {v: coalesce.profile("transpose", a, variant=v, device="sim") for v in names}


def table(*variants):
    for variant in variants:
        p = profiles[variant]
        s = p.sectors_per_request
        print(
            f"{variant:12} load {s['load']:2.0f}  store {s['store']:2.0f} sectors per request, "
            f"{p.bank_conflicts:6} bank conflicts"
        )


# %% tags=["counts"]
lessons.predict(
    "store of naive_read",
    "`naive_read` reads along rows. How many sectors does each of its stores touch?",
    guess=...,
    measured=lambda: profiles["naive_read"].sectors_per_request["store"],
    show=lambda: [
        table("copy", "naive_read", "naive_write"),
        draw.matrices(
            walks,
            title="one warp of a transposition",
            headline="Without shared memory, the lanes go down a column on one side",
        ),
    ],
)

# %% [markdown]
# The loads of each kernel have the same counts as the stores of the other kernel. A load of `naive_write` uses only an
# eighth of each sector that it reads. A store of `naive_read` fills only an eighth of each sector that it writes. Are
# the kernels equally fast? This depends on what L1 and L2 do with the other seven eighths of each sector.

# %%
large = rng.random((1024, 1024), dtype=np.float32)
big = {v: coalesce.profile("transpose", large, variant=v, device="sim") for v in names}


def suffering():
    for variant in ("naive_read", "naive_write"):
        m = big[variant].metrics()
        print(
            f"{variant:12} {m['lts__t_sectors_srcunit_tex_op_read.sum']:9,} sectors read from L2, "
            f"{m['lts__t_sectors_srcunit_tex_op_write.sum']:9,} written to it, at 1024 (modelled)"
        )
    return lessons.times(
        "transpose", ["naive_read", "naive_write", "copy"], n=16384, against="copy"
    )


lessons.predict(
    "reads or writes",
    "Which of the two is faster?",
    choices=[
        "naive_read: its stores are uncoalesced",
        "naive_write: its loads are uncoalesced",
        "neither",
    ],
    guess=...,
    measured=lambda: big["naive_write"].modelled_ms / big["naive_read"].modelled_ms,
    show=suffering,
)

# %% [markdown]
# ## The tile
#
# A block can load a tile along its rows, store it in shared memory, and read it there by columns. Then the block writes
# along the rows of the result. So both the loads and the stores of global memory are contiguous.

# %%
lessons.code("transpose", "tiled")

# %% tags=["counts"]
lessons.predict(
    "conflicts of the tile",
    "A tile of 32 x 32 words, and 32 lanes read down one of its columns. How many wavefronts does this load take?",
    guess=...,
    measured=lambda: {t.name: t.per_request for t in profiles["tiled"].totals()}["shared load"],
    show=lambda: profiles["tiled"],
)

# %% [markdown]
# Two methods avoid these bank conflicts. With **padding**, a row of the tile has 33 words, one of them unused. With
# **swizzling**, element (r, c) of the tile is stored in column `c ^ r` (exclusive or). The kernel with padding differs
# from `tiled` only in one number, the length of a row. This is the kernel with swizzling:

# %%
lessons.code("transpose", "swizzled")


# %% tags=["counts"]
def banks():
    board = {
        "padded": [(r * 33 + 5) % 32 for r in lanes],
        "swizzled": [(r * 32 + (5 ^ r)) % 32 for r in lanes],
    }
    for name, used in board.items():
        print(f"{name:9} column 5 is in {len(set(used))} banks: {used[:6]} ...")
    return len(set(board["swizzled"]))


lessons.predict(
    "swizzled banks",
    "In how many different banks are the 32 elements of column 5 of a swizzled tile?",
    guess=...,
    measured=banks,
    show=lambda: [
        draw.bank_board(
            [(r * 33 + 5) * 4 for r in lanes],
            4,
            rows="words",
            title="padded: tile[r][5] of tile[32][33]",
        ),
        draw.bank_board(
            [(r * 32 + (5 ^ r)) * 4 for r in lanes],
            4,
            rows="words",
            title="swizzled: column 5 of tile[32][32] is at tile[r][5 ^ r]",
        ),
    ],
)

# %% [markdown]
# The swizzled tile has two advantages over the padded tile: it needs no extra words, and its rows begin at multiples of
# 16 bytes. So loads of 16 bytes are possible. (Such a load gets four neighbouring elements of a row, but in an order that
# depends on the row.) Most rows of the padded tile do not begin at multiples of 16 bytes.
#
# ## How near to a copy?
#
# To compare the kernels with a copy, compare their bytes per second. Count only the bytes that every transposition must
# move: each element is read once and written once.

# %%
measured = lessons.times("transpose", list(names), n=16384)


def shares():
    for name, m in lessons.recording().counters("transpose", 4096).items():
        busy = m["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"]
        print(f"{name:12} at 4096: the data stage of L1 is busy {busy:3.0f} % of the time")
    share = {name: 100 * measured.ratio(name, "copy") for name in measured}
    axes = coalesce.plots.bars(
        share, label="bandwidth, % of the copy's", format="{:.0f}", theme="transparent"
    )
    return [measured, axes]


lessons.predict(
    "near the copy",
    "Which transpositions come near the copy's bandwidth (90 % of it)?",
    choices=[
        "tiled, padded and swizzled",
        "padded and swizzled",
        "naive_write, padded and swizzled",
    ],
    guess=...,
    measured=lambda: {v: measured.ratio(v, "copy") for v in names if v != "copy"},
    show=shares,
)

# %% [markdown]
# At 4096, a column of `a` is in one bank of L1, because the rows have a multiple of 32 words (lesson 2). At 4097, it is not,
# and `naive_write` is faster. But now the rows do not begin at whole sectors (lesson 1), so `padded` touches more of them:

# %%
for n, like in ((4096, 1024), (4097, 1025)):
    rates = lessons.times("transpose", ["naive_write", "padded"], n=n)
    same = rng.random((like, like), dtype=np.float32)
    each = coalesce.profile("transpose", same, variant="padded", device="sim").sectors_per_request
    print(
        f"{n}: "
        + ", ".join(f"{name} {t.gbps:,.0f} GB/s" for name, t in rates.items())
        + f"; padded at {like}: {each['load']:.2f} sectors per load, {each['store']:.2f} per store"
    )

# %% [markdown]
# ## Transposing B first
#
# In lesson 2, loads were fast if neighbouring lanes read neighbouring elements of a row. One tutorial draws a wrong
# conclusion from this. It transposes `b` before the product, so that each *thread* walks along a row of the transposed
# matrix. The tutorial promises that this makes the product 3 to 4 times as fast. Count the sectors:

# %%
b = rng.random((128, 128), dtype=np.float32)
direct = coalesce.profile("matmul", a, b, variant="naive_2d", device="sim")
turned = coalesce.profile("matmul", a, b, variant="transposed_b", device="sim")


def both():
    for name, p in {"b as it is": direct, "b transposed": turned}.items():
        sectors = p.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
        print(
            f"{name:13} {2 * p.sectors_per_request['load']:2.0f} sectors per iteration, {sectors:9,} in all"
        )
    extra = turned.preparation[0].metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    print(f"and the transposition itself loads {extra:,} more")
    product = lessons.times("matmul", ["naive_2d", "transposed_b"])
    if product:
        for kernel, ms in product["transposed_b"].parts:
            print(f"of transposed_b: {kernel:12} {ms:9.3f} ms")
    return product


# %% tags=["counts"]
lessons.predict(
    "transposing b first",
    "With `b` as it is, an iteration touches 5 sectors. How many with `b` transposed?",
    guess=...,
    measured=lambda: 2 * turned.sectors_per_request["load"],
    show=both,
)

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("transpose")

# %% tags=["exercise"]
lessons.exercise("swizzle")

# %% tags=["exercise"]
lessons.exercise("mirror")

# %% [markdown]
# **To remember**
# - To judge a transposition, compare its bytes per second with those of a copy.
# - Without shared memory, either the reads or the writes have a stride. With a tile, only accesses to shared memory have
#   a stride. Padding or a swizzle avoids bank conflicts in these accesses.
# - If either the reads or the writes must have a stride, choose the reads. L1 keeps the unused part of a sector for
#   later reads.
# - The *lanes* of a warp must read along a row at the same time. It does not help if a thread reads a row one element
#   after the other.

# %%
lessons.score()
