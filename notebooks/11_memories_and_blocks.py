# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 11. Memories, blocks and coarsening
#
# **The question.** A kernel has variables, and a grid has blocks. In which memory is each variable, and how many blocks
# are on the GPU at the same time? And how much work should one thread do?
#
# **Time:** 40 minutes. **You need:** [lesson 5](05_row_and_column_sums.ipynb). You can read this lesson before
# [lesson 7](07_registers_and_pipelines.ipynb). You do not need a GPU. The [glossary](glossary.md) explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

x = np.random.default_rng(0).random(8192, dtype=np.float32)

# %% [markdown]
# ## Where a variable is
#
# | you write in C++ | memory | who sees it | how long it lives | where it is |
# |---|---|---|---|---|
# | `float v;` in a kernel | registers | one thread | the thread | multiprocessor |
# | `float v[16];` with an index that is known only at run time | local | one thread | the thread | DRAM, behind L1 and L2 |
# | `__shared__ float v[16];` | shared | one block | the block | multiprocessor |
# | `__constant__ float v[16];` outside of kernels | constant | all threads, only to read | the program | DRAM, behind a small cache |
# | `__device__ float v[16];` outside of kernels, or an array of the host | global | all threads | the program | DRAM, behind L1 and L2 |
#
# You know registers, shared memory and global memory from the other lessons. Here are the two others.
#
# ## Local memory: an array that is not in registers
#
# Each thread of `votes` counts 16 ballots for four candidates. It writes how many ballots agree with its first one.

# %%
# %%cuda --name by_index
# __global__ void votes(const int* ballots, int* agree, int n) {
#     int i = blockIdx.x * 256 + threadIdx.x;
#     int count[4] = {0, 0, 0, 0};
#     for (int j = 0; j < 16; ++j) ++count[ballots[j * n + i]];
#     agree[i] = count[ballots[i]];
# }

# %% [markdown]
# A register has no address: an instruction names it by a number that the compiler chose. But here, the ballot chooses the
# element of `count`. So the compiler must put the array into memory. It takes **local memory**, which belongs to a single
# thread. In spite of its name, local memory is a part of DRAM: only the caches make it fast.

# %%
ballots = np.random.default_rng(0).integers(0, 4, (16, 8192)).astype(np.int32)
voted = by_index.profile(32, 256, ballots, np.zeros(8192, np.int32), 8192, device="sim")


def requests(p):
    """The requests of each kind."""
    return {t.name: t.requests for t in p.totals()}


def of_votes():
    for name, count in requests(voted).items():
        print(f"{name:12} {count:6,} requests")


# %% tags=["counts"]
lessons.predict(
    "local memory",
    "A warp of `votes` loads 16 ballots from global memory for each of its lanes: 16 requests. How many load requests of local memory does a warp execute?",
    guess=...,
    measured=lambda: requests(voted)["local load"] / 256,
    within=0.05,
    show=of_votes,
)

# %% [markdown]
# If all indices are known when the kernel is compiled, the array stays in registers. Exercise 11.2 does this. The compiler
# also uses local memory for variables if a thread has more of them than registers: it *spills* them.
#
# ## Constant memory: one word for all lanes
#
# Constant memory has a cache of its own, which delivers **one word** at a time, to all lanes that want it. So it is made
# for values that all lanes read at the same time, such as the coefficients of a formula. `WHICH` chooses the weight:

# %%
weighted = """
__constant__ float weights[32];
__global__ void weighted(const float* x, float* out) {
    int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = weights[WHICH] * x[i];
}
"""


def words(which):
    """Words that one load of constant memory reads, one after the other."""
    kernel = coalesce.Kernel(weighted, "weighted", options=[f"-DWHICH={which}"])
    p = kernel.profile(32, 256, x, np.zeros_like(x), device="sim")
    return {t.name: t.per_request for t in p.totals()}["constant load"]


def all_words():
    for which in (
        "blockIdx.x % 32",
        "threadIdx.x / 32",
        "threadIdx.x / 4 % 32",
        "threadIdx.x % 32",
    ):
        print(f"weights[{which}]: words: {words(which):.0f}")


# %% tags=["counts"]
lessons.predict(
    "constant words",
    "A warp reads `weights[threadIdx.x / 4 % 32]`. How many words does the cache deliver to it, one after the other?",
    guess=...,
    measured=lambda: words("threadIdx.x / 4 % 32"),
    show=all_words,
)

# %% [markdown]
# In global memory, 8 neighbouring words are in one sector, and 32 neighbouring words take 4 sectors. So a table that
# each lane reads at another place belongs in global or shared memory.
#
# ## How many blocks fit
#
# A block goes to one multiprocessor, and stays there until all its threads have ended. It keeps its registers and its
# shared memory all this time. A multiprocessor of an H200 has 65,536 registers, 228 KiB of shared memory, and room for
# 64 warps and 32 blocks. Each block takes 1 KiB of shared memory more than it declares. The kernel below declares as
# much as you like:

# %%
hold = """
__global__ void hold(const float* x, float* out) {
    __shared__ float room[KIB * 256];  // KIB * 1,024 bytes
    int t = threadIdx.x;
    room[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    out[blockIdx.x * 256 + t] = room[255 - t];
}
"""
long = np.zeros(1100 * 256, np.float32)


def fits(kib, device="sim"):
    """How many blocks are on the GPU at the same time."""
    kernel = coalesce.Kernel(hold, "hold", options=[f"-DKIB={kib}"])
    return kernel.profile(1100, 256, long, np.zeros_like(long), device=device).modelled


def all_sizes():
    for kib in (1, 16, 32, 40, 48):
        m = fits(kib)
        blocks = m.blocks_per_multiprocessor
        print(
            f"{kib:2} KiB: {blocks} blocks on a multiprocessor, {8 * blocks:2} of 64 warps; limited by {m.limit}"
        )


# %% tags=["counts"]
lessons.predict(
    "blocks of 48 KiB",
    "Blocks have 256 threads, few registers, and 48 KiB of shared memory. How many blocks fit on a multiprocessor?",
    guess=...,
    measured=lambda: fits(48).blocks_per_multiprocessor,
    show=all_sizes,
)

# %% [markdown]
# The warps that are on a multiprocessor, as a share of 64, are the **occupancy**. More warps hide more latency. But once
# there are enough warps, or once each warp has enough independent work, more warps gain nothing (lesson 7).
#
# ## Blocks wait for a place
#
# The grid has 1,100 blocks of 48 KiB. The GPU has 132 multiprocessors. Blocks that find no place wait. As soon as a block
# ends, another one takes its place. Suppose that all blocks take the same time. Then the blocks run in **waves**.


# %% tags=["hide-input"]
def wave(number):
    """The places of the GPU in one wave."""
    at_once, left = fits(48).blocks_on_gpu, 1100
    left -= number * at_once
    states = np.full(at_once, "", object)
    states[: min(left, at_once)] = "used"
    return draw.board(
        [draw.Grid("places for blocks", states.reshape(-1, 44))],
        {"used": "a block"},
        headline=f"wave {number + 1}: {min(left, at_once)} blocks",
    )


def waves(device="sim"):
    return -(-1100 // fits(48, device).blocks_on_gpu)


# %% tags=["counts"]
lessons.predict(
    "waves",
    "How many waves do the 1,100 blocks take?",
    guess=...,
    measured=waves,
    show=lambda: draw.player({f"wave {n + 1}": wave(n) for n in range(waves())}),
)

# %% [markdown]
# In the last wave, most places are empty. This is called the **tail**. It matters if a grid has few waves.
#
# The kernel does not know where its blocks run, and in which order. So the same program runs on any GPU. A larger GPU
# holds more blocks at a time (**transparent scaling**). This is also the reason why a block must not wait for another
# block: the other block may not have a place yet. (A *cooperative* launch promises that all blocks have a place.) Here is
# the same grid on smaller GPUs:

# %% tags=["counts"]
for device in ("sim:h200", "sim:a100", "sim:v100"):
    m = fits(48, device)
    print(
        f"{device:9} {m.blocks_per_multiprocessor} blocks on a multiprocessor, {m.blocks_on_gpu:3} on the GPU, {waves(device)} waves"
    )

# %% [markdown]
# ## Coarsening: more work for each thread
#
# In most kernels of the first lessons, a thread computes one element. If it computes several, this is called **thread
# coarsening**. The kernel below computes a table of distances. A thread computes `C` elements of one column. It loads
# `y[col]` once and keeps it in a register.

# %%
distances_of = """
__global__ void table(const float* x, const float* y, float* out, int n) {
    int col = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 8 * C + threadIdx.y;
    float own = y[col];
    for (int r = 0; r < C; ++r) {
        int row = first + 8 * r;
        out[row * n + col] = fabsf(x[row] - own);
    }
}
"""
n = 256


def coarse(elements):
    """The profile of the kernel if a thread computes this many elements."""
    kernel = coalesce.Kernel(distances_of, "table", options=[f"-DC={elements}"])
    out = np.zeros((n, n), np.float32)
    p = kernel.profile((n // 32, n // (8 * elements)), (32, 8), x[:n], x[n : 2 * n], out, n)
    assert np.allclose(out, abs(x[:n, None] - x[n : 2 * n]))
    return p


def coarsened():
    for elements in (1, 2, 4, 8, 16):
        p = coarse(elements)
        loads, stores = (requests(p)[f"global {kind}"] for kind in ("load", "store"))
        print(
            f"{elements:2} elements per thread: {loads / stores:.3f} load requests per store, "
            f"{p.metrics()['smsp__inst_executed.sum']:6,} instructions, {np.prod(p.grid):3} blocks"
        )


# %% tags=["counts"]
lessons.predict(
    "coarse loads",
    "With one element per thread, there are 2 loads for each store. How many loads for each store are there with 4 elements per thread?",
    guess=...,
    measured=lambda: requests(coarse(4))["global load"] / requests(coarse(4))["global store"],
    show=coarsened,
)

# %% [markdown]
# Loads and instructions become fewer: indices are computed once for several elements, too. The price is in the last
# column: a coarser kernel has fewer blocks. These are recorded times of matrix products of 512 x 512. A thread computes 1
# element in `tiled`, 8 in `blocktiled_1d` and 64 in `blocktiled_2d` (lesson 7 explains these kernels).

# %%
recording = lessons.recording()
SIZES = {"tiled": (32, 32), "blocktiled_1d": (64, 64), "blocktiled_2d": (128, 128)}


def us(variant, n):
    return recording.counters("matmul", n)[variant]["gpu__time_duration.sum"] / 1000


def price():
    for n in (512, 4096):
        for variant, (rows, cols) in SIZES.items():
            blocks = n // rows * (n // cols)
            print(f"{n:4} {variant:14} {blocks:6,} blocks, {us(variant, n):9,.1f} us")
    return f"Times of an {recording.gpu}, recorded with Nsight Compute"


lessons.predict(
    "too coarse",
    "At 4096, `blocktiled_1d` takes 0.56 times as long as `tiled`. What about 512? Give its time, with the time of `tiled` as 1.",
    guess=...,
    measured=lambda: us("blocktiled_1d", 512) / us("tiled", 512),
    within=0.3,
    show=price,
)

# %% [markdown]
# So make threads coarser until the operands that they share are loaded rarely enough, and stop while there are still
# several blocks for each multiprocessor.
#
# ## A checklist
#
# | look at | if it is bad | lesson |
# |---|---|---|
# | sectors per request | let neighbouring lanes access neighbouring elements | 1, 2 |
# | how often an element is loaded | tiles in shared memory | 3 |
# | bank conflicts, L1 and shared memory | pad the rows | 2, 3 |
# | lanes per instruction | let whole warps take the same side | 6 |
# | local memory | indices that the compiler knows | 11 |
# | blocks and warps at a time | more or smaller blocks | 5, 11 |
# | loads and instructions per result | coarser threads | 7, 11 |
#
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("distances")

# %% tags=["exercise"]
lessons.exercise("votes")

# %% [markdown]
# **To remember**
# - An array that a thread indexes at run time is in local memory, a part of DRAM. Constant memory is for values that all
#   lanes read at the same time.
# - Registers, shared memory, warps and blocks limit how many blocks a multiprocessor holds. The other blocks wait.
# - Blocks run in any order and on any multiprocessor. So the same kernel runs on a small and on a large GPU.
# - A coarser thread shares more loads and computes fewer indices. But a grid of few blocks leaves multiprocessors empty.

# %%
lessons.score()
