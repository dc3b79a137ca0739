# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 9. Myths: ten claims and their counts
#
# **The question.** Each of these claims was taught somewhere, for example in a tutorial. Are they right? Give your
# verdict, and then look at the counts.
#
# **Time:** 40 minutes. **You need:** [lessons 1 to 5](01_one_warp_one_load.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

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


# %% [markdown]
# ## A quiz: what you know from lessons 1 to 5
#
# **1.** "Loads of 4 bytes waste bandwidth, since a transaction has at least 32."

# %% tags=["counts"]
lessons.predict(
    "myth 1",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: coalesce.transactions(4 * np.arange(32), 4).sectors,
    show=lambda: draw.warp_access(range(0, 128, 4), 4, title="x[i] with float x[]"),
)

# %% [markdown]
# **2.** "One lane far away costs a whole transaction of 128 bytes."

# %% tags=["counts"]
far = [*range(0, 31 * 4, 4), 4096]
lessons.predict(
    "myth 2",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: coalesce.transactions(far, 4).sectors - 4,
    show=lambda: draw.warp_access(far, 4, title="31 lanes side by side, one far away"),
)

# %% [markdown]
# **3.** "The lanes must be in order."

# %% tags=["counts"]
x = rng.random(1 << 14, dtype=np.float32)
lessons.predict(
    "myth 3",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: [
        coalesce.transactions(4 * order, 4).sectors
        for order in (np.arange(32), np.arange(32)[::-1], rng.permutation(32))
    ],
)

# %% [markdown]
# **4.** "Once it is in shared memory, any order of access is fast." (The variant `corner_turned` of lesson 3 is an example.)

# %% tags=["counts"]
turned = product("corner_turned")
lessons.predict(
    "myth 4",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: (turned.sectors_per_request["load"], turned.bank_conflicts),
    show=lambda: show_counts("corner_turned", "corner_turned_padded"),
)

# %% [markdown]
# **5.** "Column sums beat row sums, because they coalesce." (A thread for each column, and a thread for each row.)

# %% tags=["counts"]
sums = [
    coalesce.profile(operation, a, variant=variant, device="sim").sectors_per_request["load"]
    for operation, variant in (("row_sums", "thread_per_row"), ("column_sums", "thread_per_column"))
]
lessons.predict(
    "myth 5",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: sums,
    show=lambda: [
        lessons.times("row_sums", ["thread_per_row", "block_per_row"]),
        lessons.times("column_sums", ["thread_per_column", "column_tiles"]),
    ],
)

# %% [markdown]
# **6.** "Powers of two are the best sizes."

# %%
PAIRS = [
    ("matmul", "naive"),
    ("matmul", "coalesced"),
    ("row_sums", "thread_per_row"),
    ("transpose", "naive_write"),
    ("transpose", "padded"),
]


def slower(operation, variant):
    """How many times as long a kernel takes for each element at 4096 as at 4097."""
    at = {n: lessons.times(operation, [variant], n=n)[variant] for n in (4096, 4097)}
    rate = "gflops" if operation == "matmul" else "gbps"
    return getattr(at[4097], rate) / getattr(at[4096], rate)


def sizes():
    for pair in PAIRS:
        print(
            f"{' '.join(pair):25} at 4097 {slower(*pair):4.2f} times as fast as at 4096 (measured)"
        )


lessons.predict(
    "myth 6",
    "Your verdict?",
    choices=VERDICTS,
    guess=...,
    measured=lambda: [slower(*pair) for pair in PAIRS],
    show=sizes,
)

# %% [markdown]
# ## 7. "The tiled kernel's load of B is strided; write the tile transposed and it coalesces"
#
# A tutorial promises that a transposed tile alone raises the speed from 300 to nearly 2,000 GFLOP/s. The reason, it
# says, is that this change "reduces the number of load and store instructions". Here is the tiled kernel with the tile
# of `b` written by columns:

# %%
lessons.code("matmul", "tiled_transposed", part=("for (int k0", "__syncthreads();"))


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
    "myth 7",
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
    measured=lambda: twice_check,
    show=lambda: [
        f"right here: {np.isclose(c64, a64 @ b64, atol=1e-3).sum()} of {c64.size:,} elements",
        twice_check,
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
# ## 9. "Without shared memory each thread simply loads the tiles itself"
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
    "myth 9",
    "How many of the 16,384 elements of the result are right?",
    guess=...,
    measured=right_elements,
)

# %% [markdown]
# ## 10. "Slow, so its access must be uncoalesced"
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
    "myth 10",
    "How many sectors per load request does `again` touch?",
    guess=...,
    measured=lambda: (doubled("once"), doubled("again"))[1].sectors_per_request["load"],
    show=lambda: [
        lessons.times("lesson", ["once", "again"], n=1 << 24),
        "The timed launches have 264 blocks, so `again` does the work 264 times there.",
    ],
)

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("double_all")

# %% tags=["exercise"]
lessons.exercise("untiled")

# %% tags=["exercise"]
lessons.exercise("histogram")

# %% [markdown]
# **To remember**
# - Check the result first, then requests, then sectors per request, then time.
# - If a claim about memory comes without a count, it is a guess.

# %%
lessons.score()
