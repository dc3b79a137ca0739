# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 6. Myths: eight detective stories
#
# **The question.** Everything below was taught somewhere, with confidence. For each story: read the claim, **predict** the
# count, then run the cell. A counter is a witness that does not argue.

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
a, b = rng.random((2, 128, 128), dtype=np.float32)


def sectors(p):
    """Sectors a load request, and how much of them is used."""
    m = p.metrics()
    used = m["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"]
    return f"{p.sectors_per_request['load']:.2f} sectors a load, {used:.0f} % of the bytes used"


# %% [markdown]
# ## 1. "Loads of 4 bytes waste bandwidth, since a transaction has at least 32"
#
# True of a thread alone. But who loads alone?

# %%
draw.warp_access(range(0, 128, 4), 4, title="x[i] with float x[]")

# %% [markdown]
# **Verdict: wrong.** The unit is the warp: 32 lanes of 4 bytes fill 4 sectors to the last byte. Loads of 8 and 16 bytes take 8
# and 16 sectors, also full. Wider loads help for another reason: fewer instructions and requests for the same bytes.
#
# ## 2. "One lane far away costs a whole transaction of 128 bytes"

# %%
draw.warp_access([*range(0, 31 * 4, 4), 100_000], 4, title="31 lanes side by side, one far away")

# %% [markdown]
# **Verdict: nearly.** It costs one more *sector*: 32 bytes, not 128. Lines have 128 bytes, but a line is filled sector by
# sector.
#
# ## 3. "The lanes must be in order"

# %% tags=["counts"]
x = rng.random(1 << 14, dtype=np.float32)
orders = {"in order": {"pattern": "offset", "offset": 0}, "reversed": {"pattern": "permuted"}}
for name, options in orders.items():
    print(f"{name:9} {sectors(coalesce.profile('access', x, device='sim', **options))}")

# %% [markdown]
# **Verdict: wrong.** Any order of the same addresses touches the same sectors.
#
# ## 4. "This kernel is the coalesced one"
#
# A block of 1024 threads in a row, `col = t / 32`, `row = t % 32`. The text beside it said 12 times faster.

# %% tags=["counts"]
for variant in ("naive", "coalesced", "coalesced_swapped"):
    print(
        f"{variant:18} {sectors(coalesce.profile('matmul', a, b, variant=variant, device='sim'))}"
    )

# %% [markdown]
# **Verdict: wrong as printed.** Division and remainder are exchanged, and it is the naive kernel again. The result is right, so no test
# of the *values* can notice.
#
# ## 5. "The tiled kernel's load of B is strided; write the tile transposed and it coalesces"
#
# **Predict** what the profile of the tiled kernel says of its two global loads, and what the cure does to shared memory.

# %% tags=["counts"]
for variant in ("tiled", "tiled_transposed"):
    p = coalesce.profile("matmul", a, b, variant=variant, device="sim")
    print(
        f"{variant:17} {sectors(p)}, bank conflicts: {'none' if p.bank_conflicts == 0 else 'many'}"
    )

# %% [markdown]
# **Verdict: wrong.** There was nothing to cure: both loads go along rows. The cure leaves them as they were, and writes and reads the tile by
# columns, into one bank. It is slower on a GPU, and the profile shows why before anybody owns one.
#
# ## 6. "Without shared memory the tiles are simply loaded by each thread"
#
# An "unoptimised" tiled product, for comparison: each thread, in each tile, loads *its* element of `a` and of `b` and multiplies them.

# %% tags=["counts"]
untiled = coalesce.Kernel(
    """
extern "C" __global__ void untiled(const float *a, const float *b, float *out, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < n / 16; ++tile)
        sum += a[row * n + tile * 16 + threadIdx.x] * b[(tile * 16 + threadIdx.y) * n + col];
    out[row * n + col] = sum;
}
""",
    "untiled",
)
out = np.empty_like(a)
untiled[(8, 8), (16, 16)](a, b, out, 128)
print("equals a @ b:", np.allclose(out, a @ b))
print(f"products summed for each element: {128 // 16} of 128")

# %% [markdown]
# **Verdict: a wrong result.** Fast, coalesced, and not a matrix product: each element gets one product a tile. Compare with NumPy *before* comparing times.
#
# ## 7. "Slow, so its access must be uncoalesced"
#
# Two kernels that scale an array. The second takes ages. **Predict** its sectors a request.

# %% tags=["counts"]
source = """
extern "C" __global__ void once(float *x, int n) {
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) x[i] *= 2.0f;
}
extern "C" __global__ void again(const float *x, float *out, int n) {
    for (int start = 0; start < n; start += blockDim.x) {  // every block does every element
        int i = start + threadIdx.x;
        if (i < n) out[i] = x[i] * 2.0f;
    }
}
"""
p_once = coalesce.Kernel(source, "once").profile(16, 256, x.copy(), x.size)
p_again = coalesce.Kernel(source, "again").profile(16, 256, x, np.empty_like(x), x.size)
for name, p in {"once": p_once, "again": p_again}.items():
    requests = p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"{name:6} {sectors(p)}; {requests:5.0f} requests for {x.size // 32} warps' worth of data"
    )

# %% [markdown]
# **Verdict: not guilty.** Every request is perfectly coalesced; there are sixteen times too many of them, since each block does all the work. Sectors *a
# request* say how a load is done, requests say how often. Look at both.
#
# ## 8. "Column sums beat row sums, because they coalesce"
#
# One thread for each column, or one for each row.

# %% tags=["counts"]
rows = coalesce.profile("row_sums", a, variant="thread_per_row", device="sim")
columns = coalesce.profile("column_sums", a, variant="thread_per_column", device="sim")
for name, p in {"a thread a row": rows, "a thread a column": columns}.items():
    threads = p.grid[0] * p.block[0]
    print(f"{name:18} {sectors(p)}; {threads} threads")

# %% [markdown]
# **Verdict: right in the counters, hardly in time.** The columns move an eighth of the sectors. But with one thread for each row or column a few
# warps are all there is, each waiting for its own chain of loads, and a GPU with room for thousands of them is idle. Coalescing is about
# how much a load moves; keeping enough loads in flight is another matter (lesson 5).
#
# **To remember**
# - Check the result first, then requests, then sectors a request, then time.
# - A claim about memory that comes without a count is a guess.
