# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 0. Threads, blocks, warps
#
# **The question.** A block of 16 x 16 threads loads one element each. Which of those loads travel
# together? Everything in the lessons that follow rests on the answer, and it is decided before
# any memory is touched: by which threads share a *warp*.

# %% tags=["install", "remove-cell"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # install it from this checkout
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "..[notebooks]"], check=True)

# %%
import numpy as np

import coalesce
from coalesce import draw

# %% [markdown]
# ## One number for each thread
#
# A kernel sees its thread as up to three numbers, `threadIdx.x`, `.y` and `.z`. The hardware has
# only one: the threads of a block stand in line, **x running fastest**, then y, then z, and each 32
# of that line are a warp. The line's number is
#
# $$t = x + y\,D_x + z\,D_x D_y$$
#
# for a block of $D_x \times D_y \times D_z$ threads. The lane, a thread's place in its warp, is
# $t \bmod 32$.
#
# **Predict:** in a block of 4 x 4 threads, which thread comes after (3, 0)? How many warps are there?

# %%
draw.thread_block((4, 4))

# %% [markdown]
# Sixteen threads, half a warp: the other 16 lanes are there, and idle. A block of fewer than 32
# threads wastes them in every instruction it executes.
#
# **Predict** for the block of the question, 16 x 16: which rows travel together?

# %%
draw.thread_block((16, 16))

# %% [markdown]
# Two rows of 16 fill a warp.
#
# ## Ask the machine
#
# A kernel can tell which warp and lane each of its threads is in. We let it, and compare with the
# formula.

# %%
source = """
extern "C" __global__ void who(int *warp, int *lane) {
    int t = threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y;
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));  // the hardware's own answer
    warp[t] = t / warpSize;
    lane[t] = id;
}
"""
who = coalesce.Kernel(source, "who")

# %% tags=["counts"]
block = (8, 4, 3)  # 96 threads
warp, lane = np.full((2, 96), -1, dtype=np.int32)
who[1, block](warp, lane)

x, y, z = np.meshgrid(*(range(n) for n in block), indexing="ij")
t = x + y * block[0] + z * block[0] * block[1]
print(
    "lanes as the formula says:",
    np.array_equal(np.sort(t.ravel()), np.arange(96)) and np.array_equal(lane, np.arange(96) % 32),
)
print("warps:", sorted(set(warp.tolist())))

# %%
draw.thread_block(block)

# %% [markdown]
# Three layers of 8 x 4 threads, 32 each: here a layer happens to be a warp. It is the *line* that
# is cut into warps, not the shape.
#
# ## Odd shapes
#
# **Predict:** a block of 24 x 5 threads. Does each row get a warp of its own? How many lanes idle?

# %%
draw.thread_block((24, 5))

# %% [markdown]
# Rows of 24 do not fit warps of 32, so warps span rows, and the last warp is partly empty. When
# such a warp loads `a[row][col]`, its lanes are in two rows of the matrix, which usually are two
# separate pieces of memory. Here is the same copy of 480 x 480 floats with blocks of several shapes,
# and what the simulator counts of its loads.
#
# **Predict:** which shapes need more *requests* (warps that load), and which move more *sectors* (the
# pieces of 32 bytes, 8 floats, in which a GPU moves memory)?

# %% tags=["counts"]
copy = coalesce.Kernel(
    """
extern "C" __global__ void copy(const float *in, float *out, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) out[row * cols + col] = in[row * cols + col];
}
""",
    "copy",
)

a = np.arange(480 * 480, dtype=np.float32).reshape(480, 480)
for block in [(32, 4), (16, 8), (24, 5), (20, 6), (12, 10)]:
    grid = (-(-480 // block[0]), -(-480 // block[1]))  # ceil division: no column is left out
    out = np.empty_like(a)
    p = copy.profile(grid, block, a, out, 480, 480)
    assert np.array_equal(out, a)
    m = p.metrics()
    requests = m["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    sectors = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"block {block[0]:2} x {block[1]:2}: {requests:5.0f} load requests, {sectors:5.0f} sectors"
    )

# %% [markdown]
# All of them copy correctly. Shapes whose last warp is partly empty issue more requests: 120 threads
# take four warps, as 128 would. The sectors tell something else: rows of 32, 16 and 24 floats are
# whole sectors of 8, so cutting a warp at a row's end costs nothing. Rows of 20 and 12 end in the middle of
# a sector, and the neighbouring block moves that sector again.
#
# ## What does flattening change?
#
# Some tutorials turn the 32 x 32 block into one of 1024 x 1 and compute `row` and `col` from
# `threadIdx.x`, and credit that with the speed. **Predict:** which of these two blocks puts different
# threads into a warp?

# %% tags=["counts"]
flat, square = np.full((2, 1024), -1, np.int32), np.full((2, 1024), -1, np.int32)
who[1, 1024](*flat)
who[1, (32, 32)](*square)
print("the same threads share warps:", np.array_equal(flat, square))

# %% [markdown]
# None. Thread t of the flat block and thread (t % 32, t / 32) of the square one are the same
# thread of the same warp. What matters is *which element each lane then touches*: `col` must
# follow the lane. `row = t / 32, col = t % 32` does that, and `row = t % 32, col = t / 32` does not, in
# either block. Lesson 2 counts what that costs.
#
# **To remember**
# - Threads stand in line, x fastest; each 32 of the line are a warp.
# - Memory is accessed by warps: ask of every load, *where do lanes 0, 1, 2, ... go?*
# - A block's shape changes nothing by itself; the mapping from lane to address does.
