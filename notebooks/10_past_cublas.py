# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 10. Past cuBLAS: copy engines and tensor cores
#
# **The question.** The last kernel of lesson 7 reaches half of the arithmetic peak. NVIDIA's library, cuBLAS, reaches more.
# What does the library do that we do not? This lesson is optional. Its kernels use units that only GPUs of compute
# capability 9.0 have.
#
# **Time:** 50 minutes. **You need:** [lesson 7](07_registers_and_pipelines.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
from functools import cache

import numpy as np

import coalesce
from coalesce import lessons, plots

# %matplotlib inline

ladder = lessons.recording().ladder
by_shape = {tuple(product["shape"]): product["rungs"] for product in ladder["shapes"]}
speeds = by_shape[4096, 4096, 4096]


def tflops(rung):
    """The recorded speed at 4096 x 4096 x 4096, in TFLOP/s."""
    return speeds[rung]["tflops"]


def gain(rung, over):
    return tflops(rung) / tflops(over)


lessons.Table(
    ["rung", "TFLOP/s", "of cuBLAS"],
    [
        [rung.replace("cublas", "cuBLAS"), f"{tflops(rung):.2f}", f"{gain(rung, 'cublas'):.1%}"]
        for rung in ("tiled", "pipelined", "cublas")
    ],
    f"{ladder['gpu']}, recorded {ladder['date']}: products of 4096 x 4096 float32",
)

# %% [markdown]
# `python benchmarks/ladder.py` recorded the times. The kernels and cuBLAS took turns, so that all of them had the same
# clock rate. Every result was compared with a product in float64. cuBLAS computed in float32, without TF32 (a format with
# fewer bits).

# %% tags=["hide-input"]
PEAK = 132 * 4 * 32 * 2 * 1.98 / 1000  # TFLOP/s (lesson 7)
N = 512
rng = np.random.default_rng(0)
a, b = rng.random((2, N, N), dtype=np.float32)


@cache
def profile(rung):
    return coalesce.profile("matmul", a, b, variant=rung, device="sim")


def words(rung):
    """Words of shared memory that a lane loads for each of its multiply-adds."""
    accesses = profile(rung).accesses()
    loaded = sum(x.bytes for x in accesses if (x.space, x.kind) == ("shared", "load"))
    return loaded / 4 / N**3


def compared(columns, caption):
    """A table of a dictionary for each rung."""
    names = list(next(iter(columns.values())))
    rows = [[name, *(column[name] for column in columns.values())] for name in names]
    return lessons.Table(["", *columns], rows, caption)


# %% [markdown]
# ## Rung 6: a copy engine, and nothing but multiply-adds
#
# Now the schedulers are busy. But a third of the issued instructions are not multiply-adds. These instructions compute
# addresses, test conditions or copy. The next kernel, `tma`, leaves the copying to a separate unit, the TMA (tensor
# memory accelerator). GPUs of compute capability 9.0 have this unit. `tma` differs from `pipelined` in three ways:
#
# - One instruction copies 16 KB of `a`. These bytes must be adjacent. Therefore another kernel first *packs*
#   `a`: it stores strips of 128 rows one after the other, each strip transposed.
# - A thread computes 16 x 8 elements. For each `k`, it loads 16 + 8 words (6 loads of 16 bytes) and executes 128
#   multiply-adds.
# - A block computes one tile after the other until the whole product is done. So the GPU does not start a new block for
#   each tile.
#
# This is the loop over the stages. `full` and `empty` are barriers in shared memory
# ([mbarriers](glossary.md#mbarrier)). The TMA arrives at `full` when the bytes of the stage are in shared memory. The
# warps arrive at `empty` when they have read these bytes.

# %%
lessons.code("matmul", "tma", part=("while (schedule.next(part)) {", "barrier_arrive(empty"))

# %% tags=["counts"]
lessons.predict(
    "warps of tma",
    "A block has 256 threads. Its ring of four stages takes 192 of the 228 KiB of shared memory. A multiprocessor has room for 64 warps. How many does it hold here?",
    guess=...,
    measured=lambda: (profile("tma").block[0], profile("tma").shared_bytes),
    show=lambda: [
        f"words of shared memory per multiply-add: {words('tma'):.3f}, in pipelined {words('pipelined'):.3f}"
    ],
)

# %% [markdown]
# The simulator executes `tma`, but it does not model how long copies by the TMA take. Therefore we count something
# else: the instructions of the main loop in the machine code. `benchmarks/cost_model.py` computes how many cycles a
# scheduler needs to issue them. Like shared memory, registers have banks: a multiply-add that needs two words from the
# same bank takes two cycles. The computed cycles include these conflicts.


# %% tags=["hide-input"]
def loops(*rungs):
    columns = {}
    for rung in rungs:
        loop = ladder["loops"][rung]
        columns[rung] = {
            "multiply-adds": str(loop["ffmas"]),
            "instructions": str(loop["instructions"]),
            "per multiply-add": f"{loop['instructions'] / loop['ffmas']:.3f}",
            "cycles of a scheduler": str(loop["cycles"]),
            "ceiling, TFLOP/s": f"{PEAK * loop['ffmas'] / loop['cycles']:.1f}",
            "recorded, TFLOP/s": f"{tflops(rung):.2f}",
        }
    return compared(columns, f"Main loops, machine code of {ladder['compiler']}")


# %%
lessons.predict(
    "gain of tma",
    "How many times faster than `pipelined` is `tma`?",
    guess=...,
    measured=lambda: gain("tma", "pipelined"),
    within=0.15,
    show=lambda: loops("tma"),
)

# %% [markdown]
# The ceiling of this table holds only for the main loop. The kernel also needs time to pack `a` (the measured time
# includes this), to start copies, and to write the results.
#
# Note that the fastest kernels do *not* have many warps. A warp starts its loads long before it needs the values. Until
# the values arrive, it has enough other work.
#
# ## Rung 7: one warpgroup copies, two multiply
#
# In `tma`, the TMA copies each of the 32 rows of a stage of `b` separately, and the warps that multiply must start these
# 32 copies. In the next kernel, `tensor_map`, a tensor map describes the matrix to the TMA. Then one instruction copies a
# whole box, that is, a rectangular part of the matrix.
#
# A block has three warpgroups (four warps each). Two of them multiply. The third starts the copies, and transposes the
# tiles of `a` in shared memory. So no other kernel has to pack `a` first:

# %%
lessons.code("matmul", "tensor_map", part=("if (threadIdx.x >= THREADS) {", "setmaxnreg.inc.sync"))

# %% [markdown]
# The warps that start copies need few registers, so they give the rest of their registers to the other warps
# (`setmaxnreg`). The simulator executes the kernel `tensor_map`, but cannot model its time.

# %%
print(f"needs {coalesce.variants('matmul')['tensor_map'].needs}")
print(f"tensor_map is {gain('tensor_map', 'tma'):.3f} times as fast as tma")
print(f"tensor_map is {gain('tensor_map', 'cublas'):.3f} times as fast as cuBLAS")
loops("tma", "tensor_map")

# %% [markdown]
# According to this count, the main loops of `tma` and `tensor_map` are about equally fast. But `tensor_map` is faster
# than `tma`. The count leaves out two differences: the kernels copy in different ways, and only `tma` needs time for
# packing. **A model of one part does not predict the whole.**
#
# ## The ladder

# %%
bars = {rung: tflops(rung) for rung in ("tiled", "blocktiled_2d", "pipelined", "tma", "tensor_map")}
ax = plots.bars(
    bars | {"cuBLAS": tflops("cublas")},
    label=f"TFLOP/s at 4096, {ladder['gpu']} (the peak is {PEAK:.1f})",
    highlight=["cuBLAS"],
    format="{:.1f}",
    theme="transparent",
)
line = ax.axvline(tflops("cublas"), linestyle=":", color="#d55e00")

# %% [markdown]
# ## Small products: `split_k` and `best`
#
# Large tiles are efficient. But a small product has only few large tiles, so most multiprocessors have no work. Therefore
# `split_k` takes smaller tiles, and several groups of warps can share the work on one tile. Each group adds up the
# products for a part of the values of `k`. At the end, the groups add up their sums. The groups belong to one block, or to
# two blocks, which form a [*cluster*](glossary.md#cluster): these blocks can read each other's shared memory.
#
# `split_k` also cuts the values of `k` into slices, if K is large and the result is small. An example is 64 x 64 x 8192
# (M x N x K). Each slice has its own blocks. A second kernel adds up the results of the slices.
#
# Which tile is best, and into how many parts should `k` be divided? `variant="best"` predicts the time of each possibility
# from your shape, and takes the one with the shortest time.


# %% tags=["hide-input"]
def fastest(shape):
    """The fastest rung of a shape, and its speed relative to cuBLAS."""
    rungs = by_shape[shape]
    name = min((r for r in rungs if r != "cublas"), key=lambda r: rungs[r]["ms"])
    return name, rungs["cublas"]["ms"] / rungs[name]["ms"]


def all_shapes():
    rows = []
    for shape in sorted(by_shape, key=lambda s: -fastest(s)[1]):
        name, ratio = fastest(shape)
        mine, library = (by_shape[shape][rung]["tflops"] for rung in (name, "cublas"))
        rows.append(
            [" x ".join(map(str, shape)), name, f"{mine:.1f}", f"{library:.1f}", f"{ratio:.2f}"]
        )
    heads = ["fastest rung", "TFLOP/s", "cuBLAS", "relative to cuBLAS"]
    return lessons.Table(["M x N x K", *heads], rows)


# %% tags=["counts"]
lessons.predict(
    "behind cuBLAS",
    f"{len(by_shape)} shapes were recorded, from 64 x 64 x 8192 to 8192 x 8192 x 8192. In how many of them is cuBLAS faster than our fastest rung?",
    guess=...,
    measured=lambda: sum(fastest(shape)[1] < 1 for shape in by_shape),
    show=all_shapes,
)

# %% [markdown]
# Repeated measurements of one kernel differ by up to 2 %, so the last shape of the table is nearly a draw.
#
# For 8192 x 512 x 4096, `tma` is slower than cuBLAS, and `tensor_map` is not, because only `tma` packs `a` first. Packing
# reads and writes `a` once, so its time depends only on `M` and `K`. If `N` is small (the result has few columns), there
# is little to multiply, and packing takes a large share of the whole time.
# [The ladder, measured](../docs/ladder.md) says what limits the rungs, and which change to try next.
#
# ## Past the float32 pipes: tensor cores
#
# `tensor_map` reaches 85 % of the peak, and no kernel that multiplies in the float32 pipes can exceed the peak. But a
# multiprocessor also has four **tensor cores**. One of their instructions multiplies small matrices. Here is a
# product of float16 matrices; each warp computes 16 x 16 elements:

# %%
on_tensor_cores = coalesce.Kernel(
    """
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void product(const half* a, const half* b, float* out, int n) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(x, a + row * n + k, n);
        wmma::load_matrix_sync(y, b + k * n + col, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(out + row * n + col, sum, n, wmma::mem_row_major);
}
""",
    "product",
)


def tensor_instructions(n=64):
    x, y = rng.random((2, n, n)).astype(np.float16)
    out = np.zeros((n, n), np.float32)
    p = on_tensor_cores.profile((n // 16, n // 16), 32, x, y, out, n)
    assert np.allclose(out, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-3)
    return p.metrics()["sm__inst_executed_pipe_tensor.sum"]


# %% tags=["counts"]
lessons.predict(
    "one HMMA",
    "How many multiply-adds of a warp (`FFMA`) does one of its tensor core instructions (`HMMA`) replace?",
    guess=...,
    measured=lambda: 64**3 / 32 / tensor_instructions(64),
)

# %% [markdown]
# Four variants of `matmul` use tensor cores: `bf16` for [bfloat16](glossary.md#bfloat16-tf32), `tf32` and `tf32x3` for
# float32, and `dmma` for float64. The first three use the instruction `wgmma`, which four warps execute together. One
# `wgmma` multiplies larger matrices than one `HMMA`: in `bf16`, a matrix of 64 x 16 bfloat16 values by a matrix of
# 16 x 256. The tensor cores read these values from shared memory.
#
# The results of `bf16` and `tf32` are less precise: bfloat16 has 8 significant bits, TF32 has 11, float32 has 24.
# `tf32x3` regains most of the precision. It writes each float32 as a sum of two TF32 values, a large one and a small
# one. A product of two such sums has four parts. `tf32x3` leaves out the product of the two small values, and computes
# the other three. ([The ladder, measured](../docs/ladder.md) and `coalesce.source("matmul", "tf32x3")` show how.)


# %% tags=["hide-input"]
tensor = {}
for product in ladder["tensor_cores"]:
    (rung, own), (library, theirs) = product["rungs"].items()
    of = "tf32" if library == "cublas_tf32" else product["dtype"]
    if product["out"]:
        rung += f", {product['out']} result"
        of += " result"
    tensor[rung, product["shape"][0]] = {rung: own, f"cublas {of}": theirs}


def of_tensor_cores(size=4096):
    rows = []
    for (rung, n), rungs in tensor.items():
        if n == size:
            for name, row in rungs.items():
                error = f"{row['norm']:.1e}"
                rows.append(
                    [
                        name.replace("cublas", "cuBLAS"),
                        f"{row['tflops']:.1f}",
                        error,
                        f"{row['tflops'] / rungs[rung]['tflops']:.2f}",
                    ]
                )
    heads = ["TFLOP/s", "relative error", "speed, our rung = 1"]
    return lessons.Table(["product", *heads], rows, f"At {size}, recorded {ladder['date']}")


# %%
lessons.predict(
    "three products",
    "`tf32x3` computes three products instead of one. Its result is as accurate as that of float32. How many times faster than cuBLAS in float32 is it, at 4096?",
    guess=...,
    measured=lambda: (
        tensor["tf32x3", 4096]["tf32x3"]["tflops"]
        / tensor["tf32x3", 4096]["cublas float32"]["tflops"]
    ),
    within=0.2,
    show=of_tensor_cores,
)

# %% [markdown]
# The matrices for `bf16` were bfloat16 already, so the error of `bf16` does not include the rounding of the operands.
#
# The kernels on tensor cores draw so much power that the GPU lowers its clock. For `bf16`, `tf32` and `dmma`, the bound
# is **power**. Not all of these kernels are faster than cuBLAS. The next cell lists the slower ones:

# %%
for (rung, size), rungs in tensor.items():
    for name, row in rungs.items():
        ratio = row["ms"] / rungs[rung]["ms"]
        if ratio < 1:
            print(f"{rung} at {size}: {ratio:.3f} of {name.replace('cublas', 'cuBLAS')}")

# %% [markdown]
# ## What this is worth, and what not
#
# - The figures hold for one GPU, one version of the compiler and one version of the library; the next cell names them.
#   With another compiler, these kernels can be several percent slower. The reason: the compiler chooses the registers,
#   and this choice decides how many bank conflicts the main loop has.
# - cuBLAS runs on all of NVIDIA's GPUs, with many types and layouts. Our fastest rungs need compute capability 9.0. `tma`
#   and `tensor_map` are worthwhile only for large products.
# - In a program, call the library. Write a kernel of your own for a product that no library has, or to learn what is
#   possible.

# %%
cublas = f"{ladder['cublas'] // 10000}.{ladder['cublas'] // 100 % 100}"
print(
    f"{ladder['gpu']}, driver {ladder['driver']}, NVRTC {ladder['nvrtc']}, cuBLAS {cublas}, {ladder['date']}"
)

# %% [markdown]
# If you have a GPU, measure yourself:
#
# ```sh
# coalesce bench matmul --variants tiled,pipelined,best,cublas --size 4096
# ```

# %% [markdown]
# **To remember**
# - Copy engines take the copying from the warps, so that nearly all instructions are multiply-adds.
# - The two fastest float32 kernels multiply with only 8 warps per multiprocessor. Each warp has much independent work.
# - Small products need small tiles, or several blocks for one tile. Otherwise most multiprocessors have no work.
# - Tensor cores multiply matrices in one instruction, in formats with fewer bits. Three such products regain the precision.

# %%
lessons.score()
