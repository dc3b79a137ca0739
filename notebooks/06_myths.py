# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 6. Myths: twelve claims and their counts
#
# **The question.** Each of these twelve claims was taught somewhere, for example in a tutorial. Are the claims right? For
# each claim, read the kernel, give your verdict, and then look at the counts.
#
# **Time:** 60 minutes. **You need:** [lessons 1 to 5](01_one_warp_one_load.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

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
a, b = rng.random((2, 128, 128), dtype=np.float32)
VERDICTS = ["right", "half right", "wrong"]


def text(name):
    """Return a kernel of this lesson without its first comment, which would tell too much."""
    comment, _, rest = lessons.source(name).partition("\n\n")
    return lessons.Code(rest, 3 + comment.count("\n"))


def summary(p):
    """Sectors per load request, and the share of them that is needed (as in our reports)."""
    load = {t.name: t for t in p.totals()}["global load"]
    used = load.needed_per_request / load.per_request
    return f"{load.per_request:5.2f} sectors per load, {used:4.0%} of them needed"


def product(variant):
    return coalesce.profile("matmul", a, b, variant=variant, device="sim")


def show_counts(*variants):
    """Print what the profiles of variants of the product say."""
    for variant in variants:
        p = product(variant)
        print(f"{variant:20} {summary(p)}, {p.bank_conflicts:9,} bank conflicts")


def per_iteration(variant):
    return 2 * product(variant).sectors_per_request["load"]


# %% [markdown]
# ## 1. "Loads of 4 bytes waste bandwidth, since a transaction has at least 32"
#
# This would be true if each thread loaded alone. But does a thread load alone?

# %% tags=["counts"]
lessons.predict(
    "myth 1",
    "A warp loads `x[i]` with `float x[]`. Which share of the bytes of its sectors does it use?",
    guess=...,
    measured=lambda: 100 * 32 * 4 / (32 * coalesce.transactions(4 * np.arange(32), 4).sectors),
    unit="%",
    show=lambda: draw.warp_access(range(0, 128, 4), 4, title="x[i] with float x[]"),
)

# %% [markdown]
# ## 2. "One lane far away costs a whole transaction of 128 bytes"

# %%
far = [*range(0, 31 * 4, 4), 4096]

# %% tags=["counts"]
lessons.predict(
    "myth 2",
    "31 lanes side by side, one far away. How many bytes does the far lane add?",
    guess=...,
    measured=lambda: 32 * (coalesce.transactions(far, 4).sectors - 4),
    unit="bytes",
    show=lambda: draw.warp_access(far, 4, title="31 lanes side by side, one far away"),
)

# %% [markdown]
# ## 3. "The lanes must be in order"

# %%
x = rng.random(1 << 14, dtype=np.float32)
orders = {"in order": {"pattern": "offset", "offset": 0}, "reversed": {"pattern": "permuted"}}
orders = {name: coalesce.profile("access", x, device="sim", **o) for name, o in orders.items()}


def in_order():
    for name, p in orders.items():
        print(f"{name:20} {summary(p)}")


# %% tags=["counts"]
lessons.predict(
    "myth 3",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: (
        "wrong" if len({p.sectors_per_request["load"] for p in orders.values()}) == 1 else "right"
    ),
    show=in_order,
)

# %% [markdown]
# ## 4. "Here is the coalesced kernel: flatten the block, divide, take the remainder"
#
# Some tutorials flatten the block of the kernel: they make it one-dimensional. Then they compute the column with `/`
# and the row with `%`, as in the kernel below. (The kernel below also exchanges the axes of the grid. This makes no
# difference within a warp.)

# %%
lessons.code("matmul", "coalesced_swapped")

# %% tags=["counts"]
lessons.predict(
    "myth 4",
    "How many sectors per iteration do its loads touch?",
    guess=...,
    measured=lambda: per_iteration("coalesced_swapped"),
    show=lambda: [
        show_counts("naive", "coalesced", "coalesced_swapped"),
        lessons.times("matmul", ["naive", "coalesced", "coalesced_swapped"]),
    ],
)

# %% [markdown]
# ## 5. "This one cannot coalesce: it is the naive kernel"
#
# One of the tutorials of claim 4 begins with the kernel below. The tutorial calls this kernel slow, and then "improves"
# it: the result is the kernel of claim 4.

# %%
lessons.code("matmul", "naive_2d")

# %% tags=["counts"]
lessons.predict(
    "myth 5",
    "How many sectors per iteration do its loads touch?",
    guess=...,
    measured=lambda: per_iteration("naive_2d"),
    show=lambda: [
        show_counts("naive_2d"),
        lessons.times("matmul", ["naive", "naive_2d", "coalesced"]),
    ],
)

# %% [markdown]
# ## 6. "The tiled kernel's load of B is strided; write the tile transposed and it coalesces"
#
# A tutorial promises that a transposed tile alone raises the speed from 300 to nearly 2,000 GFLOP/s. The reason, it
# says, is that this change "reduces the number of load and store instructions". Here is the tiled kernel with the tile
# of `b` written by columns:

# %%
lessons.code("matmul", "tiled_transposed")


# %% tags=["counts"]
def instructions():
    show_counts("tiled", "tiled_transposed")
    for variant in ("tiled", "tiled_transposed"):
        m = product(variant).metrics()
        print(
            f"{variant:20} {m['l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum']:7,} global load requests"
        )
    return lessons.times("matmul", ["tiled", "tiled_transposed"])


lessons.predict(
    "myth 6",
    "`tiled` executes 4,096 global load requests. How many of them does the change save?",
    guess=...,
    measured=lambda: (
        product("tiled").metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
        - product("tiled_transposed").metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    ),
    show=instructions,
)

# %% [markdown]
# The tutorial's own code stores the tile **twice**. First it stores the tile transposed. A few lines later, it stores the
# same tile again, not transposed.

# %%
twice = coalesce.Kernel(
    """
extern "C" __global__ void twice(const float* A, const float* B, float* C, int N) {
    __shared__ float tile_A[16][16], tile_B[16][16];
    int ty = threadIdx.y, tx = threadIdx.x;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float value = 0;
    for (int t = 0; t < N / 16; t++) {
        tile_A[ty][tx] = A[row * N + t * 16 + tx];
        tile_B[tx][ty] = B[(t * 16 + ty) * N + col];  // transposed
        tile_B[ty][tx] = B[(t * 16 + ty) * N + col];  // and again, as it was
        __syncthreads();
        for (int k = 0; k < 16; k++) value += tile_A[ty][k] * tile_B[k][tx];
        __syncthreads();
    }
    C[row * N + col] = value;
}
""",
    "twice",
)
a64, b64 = rng.random((2, 64, 64), dtype=np.float32)
c64 = np.zeros((64, 64), np.float32)
twice_check = twice.check((4, 4), (16, 16), a64, b64, c64, 64)

# %% tags=["counts"]
lessons.predict(
    "stored twice",
    "What is the result of this kernel?",
    choices=["right: the second store wins", "unknown: it is a race"],
    guess=...,
    measured=lambda: "unknown: it is a race" if twice_check else "right: the second store wins",
    show=lambda: [
        f"right here: {np.isclose(c64, a64 @ b64, atol=1e-3).sum()} of {c64.size:,} elements",
        twice_check,
    ],
)

# %% [markdown]
# ## 7. "Once it is in shared memory, any order of access is fast"
#
# In this kernel, `b` is stored column by column. The lanes load a tile of `b` along its columns, so the loads coalesce.
# Then the lanes read the tile across the columns.

# %%
lessons.code("matmul", "corner_turned")

# %% tags=["counts"]
lessons.predict(
    "myth 7",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: (
        "half right"
        if product("corner_turned").sectors_per_request["load"] == 4
        and product("corner_turned").bank_conflicts
        else "right"
    ),
    show=lambda: [
        show_counts("corner_turned", "corner_turned_padded"),
        lessons.times("matmul", ["corner_turned", "corner_turned_padded"]),
    ],
)

# %% [markdown]
# ## 8. "Then pad every tile: it costs nothing but a few bytes"
#
# Padding makes the rows of a tile longer, to avoid bank conflicts. The kernel below is a tiled product. With `PAD` = 0,
# the rows of its tile of `a` have 32 words. With `PAD` = 1, they have 33.

# %%
text("padding")

# %%
out = np.empty_like(a)


def padded(pad):
    kernel = coalesce.Kernel(lessons.source("padding"), "product", options=[f"-DPAD={pad}"])
    p = kernel.profile((4, 4), (32, 32), a, b, out, 128)
    assert np.allclose(out, a @ b, atol=1e-3)
    requests = sum(t.requests for t in p.totals() if t.name == "shared load")
    print(f"PAD = {pad}: {p.bank_conflicts} bank conflicts, {requests:7,} shared load requests")
    return requests


# %% tags=["counts"]
lessons.predict(
    "myth 8",
    "How many times as many loads of shared memory does the padded kernel execute?",
    guess=...,
    measured=lambda: (1 / padded(0)) * padded(1),
    show=lambda: lessons.times("lesson", ["padding 0", "padding 1"]),
)

# %% [markdown]
# ## 9. "Transpose B first, then both matrices are read along rows"

# %%
lessons.code("matmul", "transposed_b")

# %% tags=["counts"]
lessons.predict(
    "myth 9",
    "How many sectors per iteration do its loads touch?",
    guess=...,
    measured=lambda: per_iteration("transposed_b"),
    show=lambda: [
        show_counts("naive_2d", "transposed_b"),
        lessons.times("matmul", ["naive_2d", "transposed_b"]),
    ],
)

# %% [markdown]
# ## 10. "Without shared memory each thread simply loads the tiles itself"
#
# A tutorial compares its tiled kernel with the "unoptimised" kernel below. For each tile, a thread of the kernel below
# loads *its own* element of `a` and *its own* element of `b`, and multiplies the two.

# %%
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


def right_elements():
    p = untiled.profile((8, 8), (16, 16), a, b, out, 128)
    print(summary(p))
    return int(np.isclose(out, a @ b).sum())


# %% tags=["counts"]
lessons.predict(
    "myth 10",
    "How many of the 16,384 elements of the result are right?",
    guess=...,
    measured=right_elements,
)

# %% [markdown]
# ## 11. "Slow, so its access must be uncoalesced"
#
# Here are two kernels that multiply each element of an array by 2. The second kernel takes far longer.

# %%
text("repeats")

# %%
GRID, BLOCK = 16, 256


def doubled(name):
    p = coalesce.Kernel(lessons.source("repeats"), name).profile(
        GRID, BLOCK, x, np.empty_like(x), x.size
    )
    requests = p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"{name:6} {summary(p)}; {requests:6,} requests of {GRID} blocks for {x.size // 32:,} warps of data"
    )
    return p


# %% tags=["counts"]
lessons.predict(
    "myth 11",
    "How many sectors per load request does `again` touch?",
    guess=...,
    measured=lambda: (doubled("once"), doubled("again"))[1].sectors_per_request["load"],
    show=lambda: [
        lessons.times("lesson", ["once", "again"], n=1 << 24),
        "The timed launches have 264 blocks, so `again` does the work 264 times there.",
    ],
)

# %% [markdown]
# ## 12. "Column sums beat row sums, because they coalesce"
#
# One kernel has a thread for each column, the other has a thread for each row.

# %%
rows = coalesce.profile("row_sums", a, variant="thread_per_row", device="sim")
columns = coalesce.profile("column_sums", a, variant="thread_per_column", device="sim")


def sums():
    for name, p in {"a thread per row": rows, "a thread per column": columns}.items():
        hits = p.metrics()["l1tex__t_sector_hit_rate.pct"]
        print(f"{name:20} {summary(p)}; L1 hits {hits:.0f} %; {p.modelled.why}")
    return [
        lessons.times("row_sums", ["thread_per_row", "block_per_row"]),
        lessons.times("column_sums", ["thread_per_column", "column_tiles"]),
    ]


# %%
lessons.predict(
    "myth 12",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: (
        "half right"
        if columns.modelled.bound == "latency"
        and columns.sectors_per_request["load"] < rows.sectors_per_request["load"]
        else "right"
    ),
    show=sums,
)

# %% [markdown]
# ## Exercises
#
# Each exercise has two cells: one with a kernel, and one with a check. Change the kernel, run both cells, and repeat this
# until the check says *solved*. (`%%cuda` compiles the kernel. After that, the notebook knows the kernel by its name.)
# The exercise sets the grid and the block; you cannot change them.
#
# The check runs the kernel on arrays of two sizes, and tests three things:
#
# - The kernel accesses nothing outside its arrays, and has no race. In a race, two threads access the same element in
#   no fixed order, and at least one of them writes.
# - The result equals NumPy's result.
# - The counts are within the limits that the exercise lists.
#
# If something is wrong, the last line of the message contains a Python call that shows a hint. Copy this call into a
# cell and run it. If the check fails again, the message contains the call for a stronger hint. After the last hint, the
# message contains the call for a solution.

# %%
# %load_ext coalesce

# %% [markdown]
# ### Exercise 6.1

# %%
lessons.exercise("double_all")

# %%
# %%cuda
# __global__ void double_all(const float* x, float* out, int n) {
#     for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2 * x[i];
# }

# %% tags=["counts"]
print(lessons.exercise("double_all").check(double_all))

# %% [markdown]
# ### Exercise 6.2

# %%
lessons.exercise("untiled")

# %%
# %%cuda
# __global__ void untiled(const float* a, const float* b, float* out, int n) {
#     int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
#     float sum = 0;
#     for (int tile = 0; tile < n / 16; ++tile) {
#         sum += a[row * n + tile * 16 + threadIdx.x] * b[(tile * 16 + threadIdx.y) * n + col];
#     }
#     out[row * n + col] = sum;
# }

# %% tags=["counts"]
print(lessons.exercise("untiled").check(untiled))

# %% [markdown]
# ### Exercise 6.3

# %%
lessons.exercise("histogram")

# %%
# %%cuda
# __global__ void histogram(const int* values, int* counts, int n) {
#     for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
#         atomicAdd(&counts[values[i]], 1);  // 64 bins
#     }
# }

# %% tags=["counts"]
print(lessons.exercise("histogram").check(histogram))

# %% [markdown]
# **To remember**
# - Check the result first, then requests, then sectors per request, then time.
# - If a claim about memory comes without a count, it is a guess.

# %%
lessons.score()
