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
# **The question.** You wrote a kernel, and its result is right. Is it *correct*, and is it wasteful? Neither shows in the
# result. Four tools answer, here on a small kernel each, and then it is your turn.

# %% tags=["install", "remove-cell"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # install it from this checkout
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "..[notebooks]"], check=True)

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
# `%%cuda` compiles a cell of CUDA C++ and runs it on the notebook's variables. `--profile` shows what its memory accesses cost.
#
# **Predict:** each thread reads the three colours of its pixel. How many sectors does one load of one warp touch, and how many of
# their bytes does *that load* use?

# %%
# %%cuda --grid "n // 256" --block 256 --profile pixels grey n
# __global__ void to_grey(const float* pixels, float* grey, int n) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     if (i >= n) return;
#     grey[i] = 0.30f * pixels[3 * i] + 0.59f * pixels[3 * i + 1] + 0.11f * pixels[3 * i + 2];
# }

# %% [markdown]
# The lanes are 12 bytes apart, so 32 of them span 12 sectors, and each of the three loads visits all 12 for a third of
# their bytes. On a GPU the second and third usually find them in the first-level cache: the *traffic* may be fine, the *requests* are three times as
# heavy as they need to be. Three separate planes, red, green, blue, would be contiguous.
#
# ## Check it: a race that gives the right answer
#
# This kernel adds to each element the one 32 places before it in its block. It passes the values through shared memory.

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
# Right. **Predict:** is the kernel correct?

# %% tags=["counts"]
print(add_previous.check(4, 256, x, out))

# %% [markdown]
# No: a warp reads what *another* warp wrote, and nothing makes it wait. The result was right because the warps happened to run in order.
# It may be right a million times on a GPU too. The check does not judge by what happened but by what was ordered, and names both lines.
# One `__syncthreads()` between them:

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
# ## Keep it so: assertions
#
# Counts do not depend on the machine or its load, so a test may demand them. A failing one shows the line and a warp of it, and
# pytest does the same.

# %% tags=["counts"]
p = to_grey.profile(n // 256, 256, pixels, grey, n)
p.assert_sectors_per_request(store=4)  # passes
try:
    p.assert_sectors_per_request(load=4)
except AssertionError as error:
    print(error)

# %% [markdown]
# ## Your turn
#
# Three kernels that compute the right thing, wastefully. Edit the cell, run it, and run the check below it, until it says *solved*. The launch stays as it is. The check
# runs the kernel on two shapes, looks for races and reads outside the arrays, compares with NumPy, and then reads the profile.
# What it says is what the tools above say. (Solutions: [notebooks/solutions](solutions/08_your_own_kernel.ipynb). Not yet.)
#
# ### Exercise 1

# %%
lessons.exercise("brighten")

# %%
# %%cuda
# __global__ void brighten(const float* image, float* out, int rows, int cols, float gain) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     int row = i % rows;
#     int col = i / rows;
#     if (col < cols) out[row * cols + col] = gain * image[row * cols + col];
# }

# %% tags=["counts"]
print(lessons.exercise("brighten").check(brighten))

# %% [markdown]
# ### Exercise 2
#
# Before you start: which side suffers now, and what did lesson 4 do about it?

# %%
lessons.exercise("rotate")

# %%
# %%cuda
# __global__ void rotate(const float* image, float* out, int rows, int cols) {
#     int row = blockIdx.y * 32 + threadIdx.y;
#     int col = blockIdx.x * 32 + threadIdx.x;
#     if (row < rows && col < cols) {
#         out[col * rows + (rows - 1 - row)] = image[row * cols + col];
#     }
# }

# %% tags=["counts"]
print(lessons.exercise("rotate").check(rotate))

# %% [markdown]
# ### Exercise 3
#
# Look at sectors per request first: is coalescing the problem?

# %%
lessons.exercise("smooth")

# %%
# %%cuda
# __global__ void smooth(const float* x, float* out, int n) {
#     int i = blockIdx.x * 256 + threadIdx.x;
#     if (i >= n) return;
#     float sum = 0;
#     for (int j = i - 8; j <= i + 8; ++j) {
#         sum += x[min(max(j, 0), n - 1)];
#     }
#     out[i] = sum / 17;
# }

# %% tags=["counts"]
print(lessons.exercise("smooth").check(smooth))

# %% [markdown]
# **To remember**
# - Right is not correct: check, then profile, then assert.
# - Sectors per request say how well a load is done, requests say how often. Waste can be in either.
# - A kernel that passes today can be kept so by a test that needs no GPU.
