# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 5. Row sums and column sums
#
# **The question.** The sums of the rows and the sums of the columns of one matrix: the same additions, the same
# data. One thread for each sum, and one of the two kernels needs eight times the sectors of the other. How do we repair
# it, and why does the clock disagree with the counts?

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
a = rng.random((256, 256), dtype=np.float32)

# %% [markdown]
# ## Two walks
#
# A thread of `thread_per_row` walks along its row, one of `thread_per_column` down its column. **Predict** for each: where are the
# 32 lanes of a warp at step 0, and at step 1?

# %%
lanes = range(32)
draw.matrices(
    {
        "step 0": [
            draw.Matrix("a by rows", (256, 256), [(lane, 0) for lane in lanes]),
            draw.Matrix("a by columns", (256, 256), [(0, lane) for lane in lanes]),
        ],
        "step 1": [
            draw.Matrix("a by rows", (256, 256), [(lane, 1) for lane in lanes]),
            draw.Matrix("a by columns", (256, 256), [(1, lane) for lane in lanes]),
        ],
    },
    title="one warp: a thread for each row, a thread for each column",
    headline="A row for each thread: 32 sectors. A column for each thread: 4",
)

# %% [markdown]
# Walking along a row is what a CPU likes: one walker, byte after byte. A warp is 32 walkers at the same instant,
# and what counts is where *they* are.
#
# ## Rows without the stride
#
# To sum a row with contiguous loads, let neighbouring lanes take neighbouring elements of **one** row: a block, or a
# warp, for each row. Then every thread holds a part of the sum, and the parts must come together.

# %%
print(lessons.code("row_sums", "block_per_row"))

# %% [markdown]
# The parts meet in shared memory, by a tree: half of the threads add, then half of those. **Predict:** does
# `partial[t] += partial[t + half]` have bank conflicts?

# %%
draw.bank_board(
    [(t + 16) * 4 for t in range(16)], 4, title="partial[t + half], half = 16: 16 threads"
)

# %% [markdown]
# None: the threads that add stand side by side. (The other common way, `t % (2 * s) == 0`, strides through the banks and keeps a
# few lanes of *every* warp busy.) The last five steps happen inside one warp, which needs no memory at all: its lanes
# can read each other's registers with shuffles. `warp_per_row` does only that:

# %%
print(lessons.code("row_sums", "warp_per_row"))

# %% [markdown]
# **Predict** for a matrix of 256 x 256: how many warps does each kernel have, and how many sectors does a load take?

# %% tags=["counts"]
kernels = {
    "thread_per_row": ("row_sums", {}),
    "block_per_row": ("row_sums", {}),
    "block_per_row_dynamic": ("row_sums", {}),
    "warp_per_row": ("row_sums", {}),
    "thread_per_column": ("column_sums", {}),
    "column_tiles": ("column_sums", {}),
}
profiles = {}
print(f"{'kernel':22} {'warps':>6} {'loads':>6} {'sectors each':>13} {'bank conflicts':>15}")
for variant, (operation, options) in kernels.items():
    p = profiles[variant] = coalesce.profile(operation, a, variant=variant, device="sim", **options)
    warps = int(np.prod(p.grid)) * -(-int(np.prod(p.block)) // 32)
    loads = p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"{variant:22} {warps:6} {loads:6.0f} {p.sectors_per_request['load']:13.1f} {p.bank_conflicts:15}"
    )

# %% [markdown]
# All the data is 65536 floats, 8192 sectors. Every kernel but the first moves just that.
#
# ## Why the clock disagrees
#
# `thread_per_column` needs an eighth of the sectors of `thread_per_row`. **Predict:** how much faster is it, and how near does it come to the kernels
# with a block or a warp for each row?

# %%
rows = lessons.times("row_sums", ["thread_per_row", "block_per_row", "warp_per_row"])
rows

# %%
columns = lessons.times("column_sums", ["thread_per_column", "column_tiles"])
columns

# %% [markdown]
# Not eight times as fast, and far from the others, which load no better. Look at the second column of the counts: 8 warps. An H200 has
# 132 multiprocessors with room for 64 warps each.

# %% tags=["counts"]
capacity = 132 * 64  # NVIDIA H100/H200 architecture whitepaper
for n in (256, 4096, 65536):
    print(
        f"{n:6} columns: {n // 32:5} warps, {n / 32 / capacity:7.2%} of what an H200 holds at once"
    )

# %% [markdown]
# Each warp waits some hundred nanoseconds for each of its loads, and there is nobody else to fill the time. The
# counters describe how well a load is done; they say nothing about how many are on the way at once. So their bandwidth should grow with the
# matrix, as more columns bring more warps; that of kernels with enough warps should end at the memory's own:

# %%
print(f"{'GB/s at n =':18}" + "".join(f"{n:>8}" for n in (256, 1024, 4096, 16384)))
for operation, variant in [
    ("row_sums", "thread_per_row"),
    ("column_sums", "thread_per_column"),
    ("row_sums", "block_per_row"),
    ("column_sums", "column_tiles"),
]:
    rates = [lessons.times(operation, [variant], n=n) for n in (256, 1024, 4096, 16384)]
    print(f"{variant:18}" + "".join(f"{t[variant].gbps:8.0f}" if t else "       -" for t in rates))

# %% [markdown]
# (The runs of a measurement follow one another, so matrices smaller than the second-level cache are read from there.)
#
# ## The profiler's table of kernels
#
# A system profiler lists kernels by their share of the time, and people conclude from it which *access* is good. Here is that table, made
# of the times above:

# %%
both = [(f"{t.operation} {name}", t[name].kernel_ms) for t in (rows, columns) for name in t]
total = sum(ms for _, ms in both)
for name, ms in sorted(both, key=lambda row: -row[1]):
    print(f"{ms / total:6.1%} {1e6 * ms:12,.0f} ns  {name}")

# %% [markdown]
# It is where to look first, and it cannot say why: the second of its rows is perfectly coalesced.
#
# ## Static and dynamic shared memory
#
# `__shared__ float partial[256]` fixes the size when the kernel is compiled; `extern __shared__ float partial[]` takes it from
# the launch, `kernel[grid, block, shared_bytes]`. **Predict:** what differs in the counts?

# %%
coalesce.compare(profiles["block_per_row"], profiles["block_per_row_dynamic"])

# %% [markdown]
# Nothing of what the memory sees.
#
# ## The same in HIP
#
# In HIP the source is nearly the same, the words and one number differ:
#
# | CUDA | HIP on AMD's GPUs |
# |---|---|
# | warp of 32 | wavefront, of 64 lanes on CDNA (MI200, MI300), of 32 or 64 on RDNA |
# | shared memory, up to 227 KiB a block (H100, H200) | LDS, local data share, up to 64 KiB a block (MI200, MI300) |
# | multiprocessor (SM) | compute unit (CU) |
# | line of 128 bytes in 4 sectors | lines of 64 bytes in the first-level cache of MI200, of 128 in that of MI300 and in L2 |
#
# The question stays: what do the lanes of *one* instruction touch? **Predict** the lines of 128 bytes for the two walks, by 64 lanes over rows of 256 floats.

# %% tags=["counts"]
lanes = np.arange(64)
for name, addresses in {"row walk": lanes * 1024, "column walk": lanes * 4}.items():
    for size in (32, 64):
        t = coalesce.transactions(addresses, itemsize=4, warp_size=size)
        per = t.lines / t.requests
        print(f"{name:12} {size} lanes: {t.requests} instruction(s), {per:2.0f} lines each")

# %%
coalesce.transactions(lanes * 4, itemsize=4, warp_size=64).picture()

# %% [markdown]
# The lines are the same in all. A wavefront takes them in half as many instructions, and each waits for twice as many.

# %% [markdown]
# **To remember**
# - "Along the row" by one thread is a stride for the warp.
# - Contiguous loads for row sums: a warp or a block for each row, and a tree or shuffles at the end.
# - Coalescing is necessary and not sufficient: without enough warps the machine waits.
