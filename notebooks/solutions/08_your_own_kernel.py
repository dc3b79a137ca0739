# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Solutions of lesson 8
#
# One solution of each exercise; any other that passes the check is as good.

# %% tags=["install", "remove-cell"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # install it from this checkout
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "../..[notebooks]"], check=True)

# %%
from coalesce import lessons

# %load_ext coalesce

# %% [markdown]
# ## brighten
#
# Division and remainder change places, and the column follows the lane.

# %%
# %%cuda
# __global__ void brighten(const float* image, float* out, int rows, int cols, float gain) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     int row = i / cols;
#     int col = i % cols;
#     if (row < rows) out[row * cols + col] = gain * image[row * cols + col];
# }

# %% tags=["counts"]
print(lessons.exercise("brighten").check(brighten))

# %% [markdown]
# ## rotate
#
# A tile is read along the rows of the image and written along the rows of the result; the corner is
# turned in shared memory. The rows of the tile have 33 words, so that its columns have no conflicts.

# %%
# %%cuda
# __global__ void rotate(const float* image, float* out, int rows, int cols) {
#     __shared__ float tile[32][33];
#     int tx = threadIdx.x, ty = threadIdx.y;
#     int row = blockIdx.y * 32 + ty;
#     int col = blockIdx.x * 32 + tx;
#     if (row < rows && col < cols) tile[ty][tx] = image[row * cols + col];
#     __syncthreads();
#
#     // The tile's column ty is a row of the result, back to front.
#     int from = blockIdx.y * 32 + 31 - tx;
#     int out_row = blockIdx.x * 32 + ty;
#     if (from < rows && out_row < cols) {
#         out[out_row * rows + (rows - 1 - from)] = tile[31 - tx][ty];
#     }
# }

# %% tags=["counts"]
print(lessons.exercise("rotate").check(rotate))

# %% [markdown]
# ## smooth
#
# Neighbouring threads want nearly the same 17 elements. The block loads what its threads want
# together, 256 elements and 8 at each end, once.

# %%
# %%cuda
# __global__ void smooth(const float* x, float* out, int n) {
#     __shared__ float near[256 + 16];
#     int first = blockIdx.x * 256 - 8;
#     for (int j = threadIdx.x; j < 256 + 16; j += 256) {
#         near[j] = x[min(max(first + j, 0), n - 1)];
#     }
#     __syncthreads();
#
#     int i = blockIdx.x * 256 + threadIdx.x;
#     if (i >= n) return;
#     float sum = 0;
#     for (int j = 0; j < 17; ++j) sum += near[threadIdx.x + j];
#     out[i] = sum / 17;
# }

# %% tags=["counts"]
print(lessons.exercise("smooth").check(smooth))
