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
# it, and why does the clock hardly notice?

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
# Walking along a row is what a CPU likes, one core after the other byte. A warp is 32 walkers at the same instant,
# and what counts is where *they* are.
#
# ## Rows without the stride
#
# To sum a row with contiguous loads, let neighbouring lanes take neighbouring elements of **one** row: a block, or a
# warp, for each row. Then every thread holds a part of the sum, and the parts must come together.

# %%
print(coalesce.source("row_sums", "block_per_row"))

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
# can read each other's registers with shuffles. `warp_per_row` does only that.

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
# `thread_per_column` loads perfectly, and a GPU with a large matrix is nevertheless hardly faster with it than with `thread_per_row`;
# try it where there is one. Look at the second column of the table: 8 warps. An H200 has 132 multiprocessors with room for 64
# warps each.

# %% tags=["counts"]
capacity = 132 * 64  # NVIDIA H100/H200 architecture whitepaper
for n in (256, 4096, 65536):
    print(
        f"{n:6} columns: {n // 32:5} warps, {n / 32 / capacity:7.2%} of what an H200 holds at once"
    )

# %% [markdown]
# Each warp waits some hundred nanoseconds for each of its loads, and there is nobody else to fill the time. The
# counters describe how well a load is done; they say nothing about how many are on the way at once. `block_per_row` has
# both, and there the clock follows the counters.
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
# On AMD GPUs the vocabulary differs, and one number: a *wavefront* there is what a warp is here, and on CDNA it has 64 lanes. Shared
# memory is LDS. The question stays: which lines do the lanes touch?

# %% tags=["counts"]
t = coalesce.transactions(np.arange(64) * 4, itemsize=4, warp_size=64)
s = coalesce.transactions(np.arange(64) * 1024, itemsize=4, warp_size=64)
print("side by side:", t.lines, "lines for 64 lanes")
print("a row apart: ", s.lines, "lines")

# %% [markdown]
# **To remember**
# - "Along the row" by one thread is a stride for the warp.
# - Contiguous loads for row sums: a warp or a block for each row, and a tree or shuffles at the end.
# - Coalescing is necessary and not sufficient: without enough warps the machine waits.
