# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 6. Divergence and lockstep
#
# **The question.** A warp executes one instruction for 32 lanes. What happens at an `if` if half of the lanes want one
# side, and half want the other? And may a lane rely on the other lanes of its warp being at the same line?
#
# **Time:** 40 minutes. **You need:** [lesson 5](05_row_and_column_sums.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

x = np.random.default_rng(0).random(8192, dtype=np.float32)

# %% [markdown]
# ## Two sides of an `if`
#
# In the kernel below, half of the threads compute one thing, and half compute another. `WHO` chooses the threads. With
# `i & 1`, the even and the odd threads differ. With `(i >> 5) & 1`, the threads 0 to 31 differ from the threads 32 to 63,
# and so on. In both cases, half of all threads take each side.

# %%
source = """
__global__ void sides(const float* x, float* out) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float v = x[i];
    if (WHO) {
        for (int k = 0; k < 50; ++k) v = v * 1.01f + 1;
    } else {
        for (int k = 0; k < 50; ++k) v = v * 0.99f - 1;
    }
    out[i] = v;
}
"""


def profile(who):
    kernel = coalesce.Kernel(source, "sides", options=[f"-DWHO={who}"])
    return kernel.profile(32, 256, x, np.zeros_like(x), device="sim")


by_lane, by_warp = profile("i & 1"), profile("(i >> 5) & 1")


def instructions(p):
    return p.metrics()["smsp__inst_executed.sum"]


def table():
    for name, p in {"i & 1": by_lane, "(i >> 5) & 1": by_warp}.items():
        print(
            f"{name:13} {instructions(p):7,} instructions of warps, {p.lanes_per_instruction:4.1f} lanes each, "
            f"{p.sectors_per_request['load']:.0f} sectors per load"
        )


# %% tags=["counts"]
lessons.predict(
    "both sides",
    "How many times as many instructions do the warps execute with `i & 1` as with `(i >> 5) & 1`?",
    guess=...,
    measured=lambda: instructions(by_lane) / instructions(by_warp),
    within=0.1,
    show=table,
)

# %% [markdown]
# An instruction is executed for a whole warp. If the lanes of a warp take different sides of a branch, the warp **diverges**:
# it executes one side for the lanes that want it, while the others wait, and then the other side. After that, the lanes
# **reconverge**: they execute the rest together. The **active** lanes of an instruction are those that execute it.
#
# The loads and stores are outside the `if`. So no count of the earlier lessons shows the difference. The report of a
# profile says how many lanes execute an instruction, if they are few:

# %% tags=["counts"]
print(*by_lane.verdict, sep="\n")

# %% [markdown]
# ## Lanes without work

# %% tags=["counts"]
copy = coalesce.Kernel(
    """
__global__ void copy(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i];
}
""",
    "copy",
)
lessons.predict(
    "blocks of 40",
    "A kernel without any `if` runs with blocks of 40 threads. How many lanes execute an instruction on average?",
    guess=...,
    measured=lambda: copy.profile(64, 40, x, np.zeros_like(x), device="sim").lanes_per_instruction,
)

# %% [markdown]
# A loop can diverge, too. Below, lane `l` executes the loop `l + 1` times. A lane that has left the loop waits until the
# last lane leaves it.

# %% tags=["counts"]
triangle = coalesce.Kernel(
    """
__global__ void triangle(const float* x, float* out) {
    int lane = threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k <= lane; ++k) sum += x[k];
    out[lane] = sum;
}
""",
    "triangle",
)


def lanes_in_the_loop():
    """Active lanes of the load in the loop, on average."""
    p = triangle.profile(1, 32, x, np.zeros(32, np.float32), device="sim")
    (load,) = (i for i in p.instructions() if i.kind == "load")
    return load.threads / load.executed


def iterations():
    lane = np.arange(32)
    return draw.board(
        [
            draw.Grid(
                "a row is an iteration, a column is a lane",
                np.where(lane >= lane[:, None], "used", ""),
            )
        ],
        {"used": "active"},
        headline="The lanes that execute each iteration",
    )


lessons.predict(
    "a loop for each lane",
    "How many lanes execute the load in the loop, on average?",
    guess=...,
    measured=lanes_in_the_loop,
    within=0.05,
    show=iterations,
)

# %% [markdown]
# Not every `if` is a branch. If the two sides are short, the compiler lets all lanes execute both, and each lane keeps
# one of the results (with a **predicate** or a *select* instruction). Then the warp does not diverge:

# %% tags=["counts"]
clip = coalesce.Kernel(
    """
__global__ void clip(const float* x, float* out) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (x[i] > 0.5f) out[i] = 0.5f; else out[i] = x[i];
}
""",
    "clip",
)
p = clip.profile(32, 256, x, np.zeros_like(x), device="sim")
print(f"{p.lanes_per_instruction:.1f} lanes per instruction")
print("branches:", sum(i.opcode.startswith("BRA") and i.executed > 0 for i in p.instructions()))

# %% [markdown]
# ## Lockstep
#
# Older GPUs executed the lanes of a warp in **lockstep**: all lanes were always at the same instruction. Many programs
# relied on this, and left out barriers inside a warp. Since compute capability 7.0 (2017), each lane has a program counter
# of its own. After a branch, the hardware *may* let lanes run apart. The kernel below adds up the 32 elements of a warp in
# shared memory, without any barrier.

# %%
# %%cuda
# __global__ void warp_sum(const float* x, float* out) {
#     __shared__ float part[32];
#     int lane = threadIdx.x;
#     part[lane] = x[lane];
#     for (int s = 16; s > 0; s /= 2) {
#         if (lane < s) part[lane] += part[lane + s];
#     }
#     if (lane == 0) *out = part[0];
# }

# %% tags=["counts"]
total = np.zeros(1, np.float32)
warp_sum[1, 32](x, total)
print("right:", np.isclose(total[0], x[:32].sum()))

# %% tags=["counts"]
lessons.predict(
    "one warp, no barrier",
    "The result is right. Is the kernel correct?",
    choices=["yes: a warp runs in lockstep", "no"],
    guess=...,
    measured=lambda: warp_sum.check(1, 32, x, total),
    show=lambda: warp_sum.check(1, 32, x, total),
)

# %% [markdown]
# `__syncwarp()` is a barrier for the lanes of one warp. It costs one instruction. The functions that exchange values between
# lanes, such as `__shfl_down_sync`, also wait for the lanes that take part: therefore their names end in `_sync`, and their
# first argument names these lanes. But only `__syncwarp()` orders accesses to memory.
#
# Two more functions of this kind count or test for all lanes of a warp at once:
#
# - `__ballot_sync(mask, condition)` returns a number with a bit for each lane: 1 if its condition is true.
# - `__popc(number)` counts the bits that are 1.
#
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("polar")

# %% tags=["exercise"]
lessons.exercise("count_positive")

# %% tags=["exercise"]
lessons.exercise("warp_sums")

# %% [markdown]
# **To remember**
# - If the lanes of a warp take different sides of a branch, the warp executes both sides. It costs nothing if whole warps
#   take different sides.
# - Lanes without a thread, and lanes that have left a loop, wait. The number of lanes per instruction shows it.
# - Lanes of a warp need not run together. If a lane reads what another lane has stored, put `__syncwarp()` between.

# %%
lessons.score()
