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
# **The question.** A block of 16 x 16 threads loads one element per thread. A GPU executes these loads 32 at a time.
# Which 32 threads load together? All later lessons need the answer. It depends only on the shape of the block.
#
# **Time:** 50 minutes. **You need:** C, and NumPy arrays. No GPU. Every term is in the [glossary](glossary.md).
#
# **How the lessons work.** Cells with `lessons.predict` ask a question. Replace `...` by your guess and run the cell.
# The cell then shows the measured value beside your guess, and the reason. If you only read, guess first, and then open the
# answer with a click.

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

# %% [markdown]
# ## Kernels, threads, blocks
#
# A GPU executes one C function many times. The function is a **kernel**; it is marked with `__global__`. Each execution of
# it is a **thread**. Threads are grouped in **blocks** of equal size. All blocks of one launch are the **grid**. A thread
# knows its place: `threadIdx` is its index in its block, `blockIdx` is the index of its block in the grid, and `blockDim` is
# the size of a block. Each of them has the components x, y and z.
#
# The kernel below adds 10 to each element of an array. It has no loop: each thread changes one element. (`extern "C"` keeps the
# name `add_ten` in the compiled code. Without it, a C++ compiler adds the types of the parameters to the name. `coalesce` finds
# a kernel with and without `extern "C"`; the exercises leave it out.)

# %%
add_ten = coalesce.Kernel(
    """
extern "C" __global__ void add_ten(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // the element of this thread
    if (i < n) x[i] += 10;
}
""",
    "add_ten",
)
x = np.arange(1000, dtype=np.float32)
add_ten[4, 256](x, 1000)  # kernel[grid, block](arguments)
x[[0, 1, 2, 999]]

# %% [markdown]
# `add_ten[4, 256]` launches 4 blocks of 256 threads. These are 1,024 threads for 1,000 elements. The `if` keeps the last 24
# threads from accessing elements that do not exist.
#
# The array is in **global memory**, the large memory of the GPU, which all threads can access. `coalesce` copies the NumPy
# array there and back. If this machine has no GPU, `coalesce` runs the kernel on a simulator. The simulator executes the
# machine code that the CUDA compiler makes for an NVIDIA H200, and it counts what this code does.

# %% tags=["counts"]
lessons.predict(
    "blocks of 256",
    "How many blocks of 256 threads does an array of 5,000 elements need?",
    guess=...,
    measured=lambda: -(-5000 // 256),  # ceil division: it rounds up
)

# %% [markdown]
# ## One number for each thread
#
# A GPU does not execute an instruction for one thread, but for 32 threads at once. Such a group is a **warp**. The 32 threads
# of a warp are its **lanes**, 0 to 31.
#
# Which threads form a warp? A kernel sees its thread's index as up to three numbers, `threadIdx.x`, `.y` and `.z`. The
# hardware arranges the threads of a block in one line. In this line **x changes fastest**, then y, then z. Every 32 threads
# of the line are a warp. The number of a thread in the line is
#
# ```c
# t = threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y
# ```
#
# The thread's lane is `t % 32`.

# %% tags=["counts"]
lessons.predict(
    "next thread",
    "In a block of 4 x 4 threads, which thread comes after (x, y) = (3, 0)?",
    choices=["(4, 0)", "(3, 1)", "(0, 1)"],
    guess=...,
    measured=lambda: f"({4 % 4}, {4 // 4})",  # the thread with t = 4
    show=lambda: draw.thread_block((4, 4)),
)

# %% tags=["counts"]
lessons.predict(
    "rows of a warp",
    "In a block of 16 x 16 threads, how many rows of the block share one warp?",
    guess=...,
    measured=lambda: len({t // 16 for t in range(32)}),
    show=lambda: draw.thread_block((16, 16)),
)

# %% [markdown]
# ## Ask the machine
#
# Check the formula by an experiment. The kernel below does not compute which warp a thread is in. It asks the hardware, in two
# steps:
#
# - The thread's lane. The hardware keeps it in a special register, `%laneid`. C++ has no name for this register, so the kernel
#   reads it with a line of assembly: `asm(...)` copies `%laneid` to the variable `id`. (Inside `asm`, one `%` is written as
#   `%%`.)
# - The thread's warp. Every thread has computed its number `t`. `__shfl_sync(..., t, 0)` gives each thread the `t` of lane 0 of
#   its **own warp**. So all threads of a warp receive the same number. We call the thread with this number the *leader* of the
#   warp. The first argument, `0xffffffff`, has one bit per lane. All 32 bits are set: all 32 lanes take part.

# %%
source = """
extern "C" __global__ void who(int *leader, int *lane) {
    int t = threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y;
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));
    leader[t] = __shfl_sync(0xffffffff, t, 0);
    lane[t] = id;
}
"""
who = coalesce.Kernel(source, "who")

# %% tags=["counts"]
block = (8, 4, 3)  # 96 threads
leader, lane = np.full((2, 96), -1, dtype=np.int32)
who[1, block](leader, lane)

t = np.arange(96)
print("leaders of the warps:      ", sorted(set(leader.tolist())))
print("threads led by each:       ", [int((leader == first).sum()) for first in (0, 32, 64)])
print("leader is t - t mod 32:    ", np.array_equal(leader, t - t % 32))
print("lane is t mod 32:          ", np.array_equal(lane, t % 32))

# %%
draw.thread_block(block)

# %% [markdown]
# The block in the picture has three layers of 8 x 4 threads. The hardware cuts the *line* of threads after every 32
# threads. It does not look at rows or layers. Here, a layer has exactly 32 threads, so each layer is a warp.
#
# ## Odd shapes

# %% tags=["counts"]
lessons.predict(
    "idle lanes",
    "A block has 24 x 5 threads. How many lanes of its warps have no thread?",
    guess=...,
    measured=lambda: -(24 * 5) % 32,
    show=lambda: draw.thread_block((24, 5)),
)

# %% [markdown]
# Suppose that a warp contains threads of two rows of its block, and that each thread loads `a[row][col]`. Then the warp loads
# from two rows of the matrix. These are usually two separate pieces of memory. The next cell copies 480 x 480 floats, with blocks
# of several shapes, and counts two things. A **request** is one load (or store) instruction of one warp. A **sector** is a piece
# of 32 bytes, or 8 floats. A GPU moves memory in whole sectors. The matrix has 480 · 480 / 8 = 28,800 sectors.

# %%
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


def loads(block):
    """Requests and sectors of the loads of a copy with blocks of this shape."""
    grid = (-(-480 // block[0]), -(-480 // block[1]))  # ceil division: no column is left out
    out = np.empty_like(a)
    m = copy.profile(grid, block, a, out, 480, 480).metrics()  # names of Nsight Compute: lesson 2
    assert np.array_equal(out, a)
    return (
        m["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"],
        m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
    )


def table():
    for block in [(32, 4), (16, 8), (24, 5), (20, 6), (12, 10)]:
        requests, sectors = loads(block)
        print(
            f"block {block[0]:2} x {block[1]:2}: {requests:5} requests, {sectors:5} sectors, "
            f"{sectors - 28800:5} more than the matrix has"
        )


# %% tags=["counts"]
lessons.predict(
    "requests of 24 x 5",
    "Blocks of 32 x 4 need 7,200 load requests for the copy. How many do blocks of 24 x 5 need?",
    guess=...,
    measured=lambda: loads((24, 5))[0],
)

# %% tags=["counts"]
lessons.predict(
    "extra sectors",
    "Which shapes move more sectors than the 28,800 of the matrix?",
    choices=[
        "all whose rows are not 32 threads",
        "those whose rows are no multiple of 8 threads",
        "those whose last warp is partly empty",
    ],
    guess=...,
    measured=lambda: (
        "those whose rows are no multiple of 8 threads"
        if [loads((x, y))[1] > 28800 for x, y in [(16, 8), (24, 5), (20, 6), (12, 10)]]
        == [False, False, True, True]
        else "another rule"
    ),
    show=table,
)

# %% [markdown]
# Blocks of 20 x 6 move 8,640 sectors too many, for **two** reasons. First, a row of a block ends in the middle of a
# sector, and the neighbouring block moves this sector again. Second, a warp may end inside a row, in the middle of a
# sector, and the next warp moves this sector again. To separate the two reasons, count the sectors as if
# each row of 20 threads were one request. Then only the first reason is left.

# %% tags=["counts"]
starts = np.arange(0, 480, 20)  # where the rows of the blocks start, in floats
by_rows = 480 * sum(len(np.unique(np.arange(s, s + 20) // 8)) for s in starts)
_, found = loads((20, 6))
print(f"the matrix has                {28800:6} sectors")
print(f"cut at the ends of block rows {by_rows - 28800:+6}")
print(f"cut where a warp ends in a row{found - by_rows:+6}")
print(f"counted                       {found:6}")

# %% [markdown]
# ## What does flattening change?
#
# Some tutorials replace a block of 32 x 32 threads by a block of 1024 x 1 threads, and compute `row` and `col` from
# `threadIdx.x`. They say that this makes the kernel fast. Does the new shape put any thread into another warp?

# %%
flat, square = np.full((2, 1024), -1, np.int32), np.full((2, 1024), -1, np.int32)
who[1, 1024](*flat)
who[1, (32, 32)](*square)

# %% tags=["counts"]
lessons.predict(
    "flattening",
    "How many of the 1024 threads are in another warp or lane after flattening?",
    guess=...,
    measured=lambda: int((flat != square).any(axis=0).sum()),
)

# %% [markdown]
# What matters is *which element each lane accesses*: neighbouring lanes need neighbouring values of `col`. In both blocks, `row =
# t / 32, col = t % 32` gives them neighbouring values of `col`. `row = t % 32, col = t / 32` does not. Lesson 2 counts
# the cost.

# %% [markdown]
# ## Exercises
#
# Each exercise has a cell with a kernel, and below it a cell with a check. Change the kernel, run both cells, and repeat this
# until the check says *solved*. (`%%cuda` compiles the cell. After that, the kernel's name is known in the notebook.) You cannot
# change the grid and the block: the exercise sets them. The check runs the kernel on arrays of two sizes. It looks for accesses
# outside the arrays and for races (unordered accesses of several threads to one element), and compares the result with NumPy's.
# Then it tests whether the counts are within the limits that the exercise lists. If something is wrong, the last line
# of the message contains a Python call that shows a hint. Copy this call into a cell and run it. If the check fails
# again, its message contains the call for a stronger hint. After the last hint, it contains the call for a solution.

# %%
# %load_ext coalesce

# %% [markdown]
# ### Exercise 0.1

# %%
lessons.exercise("thread_number")

# %%
# %%cuda
# __global__ void thread_number(int* out) {
#     int t = threadIdx.x * blockDim.y * blockDim.z + threadIdx.y * blockDim.z + threadIdx.z;
#     int place = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
#     out[place] = t;  // out[z, y, x]: the thread's number in the line of the block
# }

# %% tags=["counts"]
print(lessons.exercise("thread_number").check(thread_number))

# %% [markdown]
# ### Exercise 0.2

# %%
lessons.exercise("which_warp")

# %%
# %%cuda
# __global__ void which_warp(int* warp, int width, int height) {
#     int x = threadIdx.x, y = threadIdx.y;
#     warp[y * width + x] = y;  // a warp for each row
# }

# %% tags=["counts"]
print(lessons.exercise("which_warp").check(which_warp))

# %% [markdown]
# **To remember**
# - A kernel is executed by threads. A launch chooses the number of blocks and the threads per block.
# - The threads of a block are arranged in a line, x fastest. Every 32 threads of the line form a warp.
# - Memory is accessed by warps. For every load ask: *which addresses do lanes 0, 1, 2, ... read?*
# - A block's shape alone makes a kernel neither faster nor slower. What matters is which address each lane accesses.

# %%
lessons.score()
