# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 8. Your own kernel
#
# **The question.** You wrote a kernel, and its result is right. Will the result be right in every run (is the kernel
# *correct*)? And is the kernel wasteful? One right result does not answer these questions. Three tools do: profiles,
# checks and assertions. This lesson shows each tool with a small kernel, and then it is your turn.
#
# **Time:** 30 minutes. **You need:** [lessons 0 to 5](00_threads_blocks_warps.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
import numpy as np

from coalesce import lessons

# %load_ext coalesce

rng = np.random.default_rng(0)
n = 4096
pixels = rng.random((n, 3), dtype=np.float32)  # red, green, blue, red, green, ...
grey = np.zeros(n, np.float32)

# %% [markdown]
# ## Write it in a cell, and profile it
#
# `%%cuda` compiles a cell of CUDA C++ and runs its kernel on the notebook's variables. With `--profile`, it also shows what the
# kernel's memory accesses cost.
#
# In the kernel below, each thread reads the three colours of its pixel.

# %%
# %%cuda --grid "(n + 255) // 256" --block 256 pixels grey n
# __global__ void to_grey(const float* pixels, float* grey, int n) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     if (i >= n) return;
#     grey[i] = 0.30f * pixels[3 * i] + 0.59f * pixels[3 * i + 1] + 0.11f * pixels[3 * i + 2];
# }

# %% tags=["counts"]
lessons.predict(
    "three colours",
    "How many sectors does one load of one warp touch?",
    guess=...,
    measured=lambda: to_grey.profile((n + 255) // 256, 256, pixels, grey, n).sectors_per_request[
        "load"
    ],
    show=lambda: to_grey.profile((n + 255) // 256, 256, pixels, grey, n),
)

# %% [markdown]
# ## Check it: a race that gives the right answer
#
# In the kernel below, each thread adds two elements: its own, and the element 32 places before it. The first 32 threads
# of a block have no such element in their block: these threads only copy their own element. The threads of a block pass
# the elements to each other through shared memory.

# %%
# %%cuda
# __global__ void add_previous(const float* x, float* out) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * 256 + t;
#     tile[t] = x[i];
#     out[i] = t < 32 ? tile[t] : tile[t] + tile[t - 32];
# }

# %% tags=["counts"]
x = rng.random(1024, dtype=np.float32)
out = np.zeros_like(x)
add_previous[4, 256](x, out)

blocks = x.reshape(4, 256)
expected = blocks.copy()
expected[:, 32:] += blocks[:, :-32]
print("right:", np.array_equal(out, expected.ravel()))

# %% [markdown]
# The result is right.

# %% tags=["counts"]
lessons.predict(
    "right and correct",
    "Is the kernel correct?",
    choices=["yes: the result is right", "no"],
    guess=...,
    measured=lambda: add_previous.check(4, 256, x, out),
    show=lambda: add_previous.check(4, 256, x, out),
)

# %% [markdown]
# With one `__syncthreads()` between the last two lines, the kernel is correct:

# %%
# %%cuda --grid 4 --block 256 --check x out
# __global__ void add_previous(const float* x, float* out) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     int i = blockIdx.x * 256 + t;
#     tile[t] = x[i];
#     __syncthreads();
#     out[i] = t < 32 ? tile[t] : tile[t] + tile[t - 32];
# }

# %% [markdown]
# ## Keep it correct: assertions
#
# Counts are the same on every machine, no matter what else runs there. So a test can assert them. If an assertion fails,
# its message shows the source line, and one of the warps that executed this line. In a test, pytest shows this message.

# %% tags=["counts"]
p = to_grey.profile((n + 255) // 256, 256, pixels, grey, n)
p.assert_sectors_per_request(store=4)  # passes
try:
    p.assert_sectors_per_request(load=4)
except AssertionError as error:
    print(error)

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.


# %% tags=["exercise"]
lessons.exercise("brighten")

# %% tags=["exercise"]
lessons.exercise("rotate")

# %% tags=["exercise"]
lessons.exercise("smooth")

# %% [markdown]
# **To remember**
# - A right result does not prove that a kernel is correct. Check the kernel, then profile it, then write
#   assertions.
# - The sectors per request say how much one load costs. The number of requests says how often the kernel loads. A kernel
#   wastes memory traffic if one of these numbers is too large.
# - Write a test. It needs no GPU, and it fails if a later change makes the accesses worse.

# %%
lessons.score()
