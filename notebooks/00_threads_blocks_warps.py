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
# Which 32 threads load together? The answer depends only on the shape of the block. All later lessons need this answer.
#
# **Time:** 50 minutes. **You need:** C and NumPy arrays. You do not need a GPU. The [glossary](glossary.md) explains every term.
#
# **How the lessons work.** The first exercise comes after five minutes. Cells with `lessons.predict` ask a question. Replace `...` by your guess and run the cell.
# The cell then shows the measured value beside your guess, and an explanation. If you only read the lesson, guess
# first. Then open the answer with a click.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

# %% [markdown]
# ## Kernels, threads, blocks
#
# A GPU executes one C function many times. This function is called a **kernel**; it is marked with `__global__`. Each
# execution of the kernel is a **thread**. Threads are grouped in **blocks** of equal size. All blocks of one launch are
# the **grid**. A thread can read three variables that say where it is:
#
# - `threadIdx` is its index in its block;
# - `blockIdx` is the index of its block in the grid;
# - `blockDim` is the size of a block.
#
# Each of these variables has the components x, y and z.
#
# The kernel below adds 10 to each element of an array. It has no loop: each thread changes one element. (`extern "C"`
# keeps the name `add_ten` in the compiled code. You may leave it out.)

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
# `add_ten[4, 256]` launches 4 blocks of 256 threads. These are 1,024 threads for 1,000 elements. The last 24 threads have
# no element. Because of the `if`, they do nothing.
#
# While the kernel runs, the array is in **global memory**, the large memory of the GPU, which all threads can access.
# `coalesce` copies the NumPy array to global memory and back. If this machine has no GPU, `coalesce` runs the kernel on
# a simulator. The simulator executes the machine code that the CUDA compiler makes for an NVIDIA H200, and it counts
# what this code does.


# %% tags=["counts"]
def last_element(blocks):
    """The last of 5,000 zeros after a launch of `add_ten` with this number of blocks."""
    x = np.zeros(5000, np.float32)
    add_ten[blocks, 256](x, 5000)
    return x[-1]


lessons.predict(
    "blocks of 256",
    "How many blocks of 256 threads does an array of 5,000 elements need?",
    guess=...,
    measured=lambda: next(blocks for blocks in range(1, 5000) if last_element(blocks) == 10),
)

# %% [markdown]
# ## Your first kernel
#
# An exercise has two cells: one with a kernel, and one with a check. Change the kernel, run both cells, and repeat this
# until the check says *solved*. (`%%cuda` compiles the kernel. After that, the notebook knows the kernel by its name.)
# The exercise sets the grid and the block; you cannot change them. The check runs the kernel on arrays of two sizes, and
# tests three things:
#
# - The kernel accesses nothing outside its arrays, and has no race. In a race, two threads access the same element in
#   no fixed order, and at least one of them writes.
# - The result equals NumPy's result.
# - The counts are within the limits that the exercise lists. (This lesson explains requests, and lesson 1 explains
#   sectors and the word *coalesced*. A kernel in which thread `i` computes element `i` meets these limits.)
#
# If something is wrong, the last line of the message is a Python call that shows a hint. Copy it into a cell and run it.
# Each failed check offers a stronger hint, and at the end a solution.

# %% tags=["exercise"]
lessons.exercise("add_arrays")

# %% [markdown]
# ## One number for each thread
#
# A GPU does not execute an instruction for one thread, but for 32 threads at once. Such a group is a **warp**. The 32 threads
# of a warp are its **lanes**, 0 to 31.
#
# Which threads form a warp? The index of a thread has up to three components: `threadIdx.x`, `.y` and `.z`. The hardware
# puts the threads of a block in one line. Along this line **x changes fastest**, then y, then z. Each group of 32
# successive threads of the line is a warp. The number of a thread in the line is
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
    show=lambda: draw.thread_block((4, 4)),
)

# %% tags=["counts"]
lessons.predict(
    "rows of a warp",
    "In a block of 16 x 16 threads, how many rows of the block share one warp?",
    guess=...,
    show=lambda: draw.thread_block((16, 16)),
)

# %% [markdown]
# ## Ask the machine
#
# Let us check the formula by an experiment. (With a GPU, the answer comes from the GPU. The simulator follows the same
# formula, which was compared with GPUs.) The kernel below asks the hardware. You do not need to understand how:
#
# - A line of assembly (`asm`) reads the register that holds the thread's lane.
# - `__shfl_sync(..., t, 0)` gives each thread the `t` of lane 0 of its **own warp**, the *leader* of the warp. (Lesson 5
#   explains it.) So threads with the same leader are in the same warp.

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
# threads, without regard to rows or layers. In this block, a layer has exactly 32 threads, so each layer is a warp.
#
# ## Odd shapes

# %% tags=["counts"]
lessons.predict(
    "idle lanes",
    "A block has 24 x 5 threads. How many lanes of its warps have no thread?",
    guess=...,
    show=lambda: draw.thread_block((24, 5)),
)

# %% [markdown]
# Suppose that a warp contains threads of two rows of its block, and that each thread loads `a[row][col]`. Then the warp
# loads from two rows of the matrix. These are usually two separate pieces of memory. What does this cost?
#
# The next cells copy a matrix of 480 x 480 floats with blocks of several shapes, and count two things. A **request** is
# one load (or store) instruction of one warp. A **sector** is a piece of 32 bytes, or 8 floats. A GPU moves memory in
# whole sectors: a load *touches* each sector from which a lane wants a byte. The matrix has 480 · 480 / 8 = 28,800 sectors.

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


SHAPES = [(32, 4), (16, 8), (24, 5), (20, 6), (12, 10)]


def table():
    for block in SHAPES:
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
    "In which shapes do the loads touch more sectors in all than the 28,800 of the matrix?",
    choices=[
        "all whose rows are not 32 threads",
        "those whose rows are no multiple of 8 threads",
        "those whose last warp is partly empty",
    ],
    guess=...,
    measured=lambda: {block: loads(block)[1] - 28800 for block in SHAPES},
    show=table,
)

# %% [markdown]
# The loads of blocks of 20 x 6 touch 8,640 sectors too many, for **two** reasons. First, a row of a block may end in the
# middle of a sector. The neighbouring block then touches this sector again. Second, a warp may end inside a row, in the
# middle of a sector. The next warp then touches this sector again. (Not every touched sector comes from the memory: the
# next warp usually finds it in a cache. Lesson 1 counts this.)
#
# How many sectors are due to each of the two reasons? The next cell counts the sectors as if each row of 20 threads
# were one request. Then no request ends inside a row, so only the first reason is left.

# %% tags=["counts"]
starts = np.arange(0, 480, 20)  # where the rows of the blocks start, in floats
by_rows = 480 * sum(len(np.unique(np.arange(s, s + 20) // 8)) for s in starts)
_, sectors = loads((20, 6))
print(f"the matrix has                {28800:6} sectors")
print(f"cut at the ends of block rows {by_rows - 28800:+6}")
print(f"cut where a warp ends in a row{sectors - by_rows:+6}")
print(f"counted                       {sectors:6}")

# %% [markdown]
# ## What does flattening change?
#
# Some tutorials "flatten" a block: they replace a block of 32 x 32 threads by a block of 1024 x 1 threads. The kernel
# then computes `row` and `col` from `threadIdx.x`. The tutorials say that this makes the kernel fast. Does the new
# shape put any thread into another warp?

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
# What matters is *which element each lane accesses*: neighbouring lanes need neighbouring values of `col`. With `row = t
# / 32, col = t % 32`, neighbouring lanes have neighbouring values of `col`, whether the block is flat or not. With
# `row = t % 32, col = t / 32`, neighbouring lanes have the same value of `col`. Lesson 2 counts the cost.

# %% [markdown]
# ## Exercises

# %% tags=["exercise"]
lessons.exercise("thread_number")

# %% tags=["exercise"]
lessons.exercise("which_warp")

# %% [markdown]
# **To remember**
# - A kernel is executed by threads. A launch chooses the number of blocks and the threads per block.
# - The threads of a block are arranged in a line, in which x changes fastest. Each group of 32 successive threads of the
#   line is a warp.
# - Memory is accessed by warps. For every load ask: *which addresses do lanes 0, 1, 2, ... read?*
# - What matters is not the shape of a block, but which address each lane accesses.

# %%
lessons.score()
