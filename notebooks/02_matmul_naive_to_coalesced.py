# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 2. Matrix multiplication, from naive to coalesced
#
# **The question.** Two kernels compute the same matrix product with the same arithmetic. Each thread computes one element
# of the result. The table below shows how long the kernels take. Why do the times differ, and could we have predicted
# this without a GPU?
#
# **Time:** 60 minutes. **You need:** [lesson 1](01_one_warp_one_load.ipynb). You do not need a GPU. The [glossary](glossary.md) explains
# the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

N = 128
rng = np.random.default_rng(0)
a, b = rng.random((2, N, N), dtype=np.float32)

# %%
lessons.times("matmul", ["naive", "coalesced"])

# %% [markdown]
# ## The first kernel
#
# `a` has M x K elements, `b` has K x N, and `out` has M x N. Each thread computes one element `(row, col)` of the result.
# For this, it walks along a row of `a` and down a column of `b`. (The table shows the times of two variants of
# `coalesce.matmul`, which have the same loop. At the end, this lesson says what else they do.)

# %%
# %%cuda
# __global__ void naive(const float* a, const float* b, float* out, int M, int N, int K) {
#     int row = blockIdx.x * 32 + threadIdx.x;
#     int col = blockIdx.y * 32 + threadIdx.y;
#     if (row >= M || col >= N) return;
#     float sum = 0;
#     for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
#     out[row * N + col] = sum;
# }

# %% [markdown]
# The number of blocks is rounded up (a **ceil division**), so that blocks of 32 x 32 threads cover all rows and columns.
# The last blocks may reach beyond the matrix.


# %%
def profile(kernel, a, b, block=(32, 32)):
    """Profile a kernel for the product a @ b. Its first grid axis chooses rows."""
    (M, K), N = a.shape, b.shape[1]
    out = np.zeros((M, N), np.float32)
    p = kernel.profile((-(-M // 32), -(-N // 32)), block, a, b, out, M, N, K, device="sim")
    assert np.allclose(out, a @ b, atol=1e-2)
    return p


# %% tags=["counts"]
M, width = 100, 70


def threads():
    p = profile(naive, a[:M].copy(), b[:, :width].copy())
    print(f"grid {p.grid[:2]} of blocks {p.block[:2]} for {M * width} elements")
    return int(np.prod(p.grid) * np.prod(p.block))


lessons.predict(
    "threads without work",
    "The result has 100 x 70 elements. How many threads have nothing to do?",
    guess=...,
    measured=lambda: threads() - M * width,
)

# %% [markdown]
# Because of the `if` on `row` and `col`, the threads beyond the matrix do nothing. What happens if the kernel tests
# only the row? The next kernel does so. The result has 100 rows and 70 columns, but the blocks cover 96 columns. In
# each of the 100 rows, 26 threads write to wrong places: 2,600 threads in all.
#
# `check` finds two kinds of mistakes here: accesses outside the arrays, and **races**. In a race, two threads access
# the same element in no fixed order, and at least one of them writes. For example, blocks run in any order. So a thread
# of one block may come before or after a thread of another block.

# %%
# %%cuda
# __global__ void no_column_test(const float* a, const float* b, float* out, int M, int N, int K) {
#     int row = blockIdx.x * 32 + threadIdx.x;
#     int col = blockIdx.y * 32 + threadIdx.y;
#     if (row >= M) return;
#     float sum = 0;
#     for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
#     out[row * N + col] = sum;
# }


# %% tags=["counts"]
def stray():
    row, col = np.meshgrid(np.arange(M), np.arange(width, 96), indexing="ij")
    place = row * width + col
    print(f"{place.size} stray writes, {(place >= M * width).sum()} of them past the end of out")
    return int((place < M * width).sum())


def checked():
    small_a, small_b, out = a[:M].copy(), b[:, :width].copy(), np.zeros((M, width), np.float32)
    return no_column_test.check((4, 3), (32, 32), small_a, small_b, out, M, width, N)


lessons.predict(
    "stray writes",
    "How many of the 2,600 stray writes stay inside `out`, where no bounds check can see them?",
    guess=...,
    measured=stray,
    show=checked,
)

# %% [markdown]
# ## Where do the lanes read?
#
# The lanes of a warp differ in `threadIdx.x`. In the naive kernel, `threadIdx.x` decides the row. So the 32 lanes have 32
# different rows, and all of them have the same column.

# %%
lanes = range(32)
reads = {
    f"k = {k}": [
        draw.Matrix("a", (N, N), [(lane, k) for lane in lanes]),
        draw.Matrix("b", (N, N), [(k, 0) for lane in lanes]),
    ]
    for k in (0, 1, 2)
}
p_naive = profile(naive, a, b)


def per_iteration(p):
    """Sectors of the two loads of one iteration."""
    return 2 * p.sectors_per_request["load"]


# %% tags=["counts"]
lessons.predict(
    "naive sectors",
    "In one iteration `k` a warp loads from `a` and from `b`. How many sectors do both loads touch together?",
    guess=...,
    measured=lambda: per_iteration(p_naive),
    show=lambda: draw.matrices(reads, title="naive: what one warp reads"),
)

# %% [markdown]
# ## The fix: two lines
#
# `threadIdx.x` must decide the column. Then the 32 lanes of a warp have 32 neighbouring *columns* of one row. It is
# enough to swap `threadIdx.x` and `threadIdx.y`. Here is another way, which you find in many tutorials: the block has
# 1024 x 1 threads, and `/` and `%` compute the row and the column of a thread. As lesson 0 showed, the shape of the
# block alone changes nothing. What matters is that neighbouring lanes have neighbouring values of `col`.

# %%
# %%cuda
# __global__ void coalesced(const float* a, const float* b, float* out, int M, int N, int K) {
#     int row = blockIdx.x * 32 + threadIdx.x / 32;
#     int col = blockIdx.y * 32 + threadIdx.x % 32;
#     if (row >= M || col >= N) return;
#     float sum = 0;
#     for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
#     out[row * N + col] = sum;
# }

# %%
reads = {
    f"k = {k}": [
        draw.Matrix("a", (N, N), [(0, k) for lane in lanes]),
        draw.Matrix("b", (N, N), [(k, lane) for lane in lanes]),
    ]
    for k in (0, 1, 2)
}
p_coalesced = profile(coalesced, a, b, block=1024)

# %% tags=["counts"]
lessons.predict(
    "coalesced sectors",
    "How many sectors do the two loads of one iteration touch now?",
    guess=...,
    measured=lambda: per_iteration(p_coalesced),
    show=lambda: draw.matrices(reads, title="coalesced: what one warp reads"),
)

# %% tags=["counts"]
for name, p in {"naive": p_naive, "coalesced": p_coalesced}.items():
    m = p.metrics()
    requests = m["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    sectors = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    print(
        f"{name:10} {requests:7,} load requests, {sectors:9,} sectors, {per_iteration(p):2.0f} per iteration"
    )

# %% [markdown]
# The number of requests did not change, nor did the arithmetic.
#
# ## Why more than 12 times, if the sectors fall 6.6 times?
#
# At 4096, the kernel became more than 12 times as fast, but the number of sectors fell only by a factor of 6.6. Does `naive` read
# more from L2, or from DRAM? Each load of `a` uses 4 bytes of each of its sectors. The next iteration wants the 4 bytes
# beside them.

# %%
lessons.predict(
    "the other bytes",
    "Where does `naive` find the 4 bytes beside those that it has loaded?",
    choices=["in L1", "in L2", "in DRAM: the sector is moved again"],
    guess=...,
    measured=lambda: profile(naive, a, b),
)

# %% [markdown]
# Watch the first nine iterations of one warp. It loads one column of `a` after the other. (Use the buttons.)


# %% tags=["hide-input"]
column = coalesce.Kernel(
    """
__global__ void column(const float* a, float* out, int n, int iterations) {
    float sum = 0;
    for (int k = 0; k < iterations; ++k) sum += a[threadIdx.x * n + k];  // each lane has a row
    out[threadIdx.x] = sum;
}
""",
    "column",
)


def sectors(iterations):
    """Sectors that the loads of one warp touch, and sectors that come from L2 (modelled)."""
    out = np.zeros(32, np.float32)
    p = column.profile(1, 32, a, out, N, iterations, device="sim")
    return p.totals()[0].cost, p.metrics()["lts__t_sectors_srcunit_tex_op_read.sum"]


def step(k):
    """A picture of iteration k: the first 16 columns of the 32 rows of `a`."""
    touched, from_l2 = sectors(k + 1)
    new = from_l2 > (sectors(k)[1] if k else 0)
    states = np.full((32, 16), "", object)
    states[:, : 8 * (k // 8 + 1)] = "beside"
    states[:, k] = "new" if new else "used"
    return draw.board(
        [draw.Grid("a: 32 rows, 16 of the columns", states)],
        {"new": "loaded now: from L2", "used": "loaded now: found in L1", "beside": "is in L1"},
        headline=f"k = {k}: {touched} sectors touched so far, {from_l2} of them came from L2",
    )


draw.player({f"k = {k}": step(k) for k in range(9)})

# %% [markdown]
# So neither L2 nor DRAM explains the factor. The next cells profile the product of two matrices of 512 x 512. It is
# large enough to fill the GPU. The counts are exact. The caches and the time are modelled: the time model estimates how
# long each resource of the GPU is busy. A request passes through several resources:
#
# 1. The **load-store unit** of a multiprocessor accepts one request at a time. In our recordings of an H200, a request
#    took at least 1.25 cycles of this unit. So our time model counts 1.25 cycles per request.
# 2. The **data stage** of L1 reads the data. The data of L1 are in 32 **banks**: the word at address `x` is in bank
#    `(x / 4) % 32`. In each pass, a bank delivers one word, and up to four lines of 128 bytes can take part.
# 3. Data that is not in L1 comes from L2.
# 4. Data that is not in L2 comes from DRAM.
#
# While data passes through these resources, the multipliers compute. The resource that needs the most time decides how
# long the kernel takes. This resource is called the **bound**.


# %%
large = rng.random((2, 512, 512), dtype=np.float32)
big = {"naive": profile(naive, *large), "coalesced": profile(coalesced, *large, block=1024)}
RESOURCES = {"requests": "load-store unit", "data": "data stage of L1", "l2": "L2", "dram": "DRAM"}


def busy():
    for name, p in big.items():
        c = p.modelled.cycles
        listed = ", ".join(f"{resource} {c[key]:,.0f}" for key, resource in RESOURCES.items())
        print(f"{name:10} cycles: {listed}")
    return lessons.times("matmul", ["naive", "coalesced"], n=512)


lessons.predict(
    "what binds naive",
    "Which resource is busy all the time while `naive` runs?",
    choices=["DRAM", "the data stage of L1", "the load-store unit", "the multipliers"],
    guess=...,
    measured=lambda: big["naive"].modelled.bound,
    show=busy,
)

# %% [markdown]
# ## One column more
#
# The 32 words that `naive` loads from `a` are in 32 lines, but this alone does not take 32 passes. What if the rows have
# 513 words? The kernel has the same number of requests per iteration, and each load of `a` still touches 32 sectors.


# %% tags=["counts"]
larger = rng.random((2, 513, 513), dtype=np.float32)
odd = {"naive": profile(naive, *larger), "coalesced": profile(coalesced, *larger, block=1024)}


def passes(p):
    """Passes of the data stage for the two loads of one iteration."""
    return 2 * p.modelled.work["tag_lookups"] / p.modelled.work["requests"]


def one_more():
    print("passes of the data stage per iteration, and time (modelled)")
    for n, profiles in {512: big, 513: odd}.items():
        for name, p in profiles.items():
            print(f"{n} {name:10} {passes(p):5.1f} passes {1000 * p.modelled_ms:7.1f} us")
    for n in (512, 513, 4096, 4097):
        measured = lessons.times("matmul", ["naive", "coalesced"], n=n)
        if measured:
            print(
                f"{n:4} measured: coalesced is {measured.ratio('coalesced'):.1f} times as fast as naive"
            )


lessons.predict(
    "one column more",
    "The matrices grow from 512 x 512 to 513 x 513. What happens to the time of `naive`?",
    choices=["it grows a little", "it stays the same", "it falls to less than half"],
    guess=...,
    measured=lambda: odd["naive"].modelled_ms / big["naive"].modelled_ms,
    show=one_more,
)

# %% [markdown]
# The report of a profile says all this. In the report below, read the first line that is marked ▲. Then look at the line
# of the source with the loads of `a` and `b`. For each load, the report shows the sectors per request, and how many
# sectors are needed.

# %%
big["naive"]

# %% [markdown]
# So most of the factor of 12 is a bank conflict inside L1, which rows of 32, 512 or 4096 words cause. It has a simple
# cure: give the rows of the array in memory one element more than the matrix needs. (BLAS calls the length of these rows
# the **leading dimension**.) Lesson 3 uses the same cure for shared memory. The rest of the factor is the coalescing:
# `coalesced` needs fewer sectors and fewer lines at every size.
#
# Keep this in mind when you read that coalescing makes a kernel ten times as fast. Such measurements nearly always use
# powers of two.
#
# ## What L1 does between warps
#
# Many warps of a block want the same data at nearly the same time. In `coalesced`, the 32 warps of a block compute 32
# rows of the same 32 columns. So in iteration `k`, all of them read the same 32 elements of `b`. One warp fetches these
# elements into L1, and the other warps hit in L1.

# %%
for name, p in big.items():
    m = p.metrics()
    asked = 32 * m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    from_l2 = 32 * m["lts__t_sectors_srcunit_tex_op_read.sum"]
    print(
        f"{name:10} at 512: loads ask for {asked / 1e6:7,.0f} MB, L2 delivers {from_l2 / 1e6:5.1f} MB, "
        f"DRAM {m['dram__bytes_read.sum'] / 1e6:.1f} MB (modelled)"
    )

# %% [markdown]
# **At 4096, DRAM reads much more.** The two operands have 134 MB there, and L2 has 50 MB, so L2 cannot keep them. These
# counters were recorded on the GPU of the table above. (A request takes 1.25 cycles of the load-store unit, so 100 % means
# 0.8 requests per cycle.)

# %%
recorded = lessons.recording().counters("matmul", 4096)
for name in ("naive", "coalesced"):
    m = recorded[name]
    read, ns = m["dram__bytes_read.sum"], m["gpu__time_duration.sum"]
    data = m["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"]
    requests = m["l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"] / 0.8
    print(
        f"{name:10} at 4096: DRAM reads {read / 1e9:.1f} GB, {read / (2 * 4096**2 * 4):.0f} times the operands: "
        f"{read / ns:.0f} GB/s of 4,800"
    )
    print(f"{'':10} data stage busy {data:.0f} %, load-store unit {requests:.0f} %")

# %% [markdown]
# So DRAM is not the bound at 4096 either. The bounds are the same as at 512: the data stage for `naive`, and the load-store
# unit for `coalesced`.
#
# ## The trap
#
# A published version of this optimisation has a mistake. It flattens the block to 1024 threads and computes
#
# ```
# col = blockIdx.x * 32 + threadIdx.x / 32;
# row = blockIdx.y * 32 + threadIdx.x % 32;
# ```
#
# The kernel below does the same: `/` for the column and `%` for the row. (The exchange of `blockIdx.x` and `blockIdx.y`
# makes no difference within a warp.) Its result is right.

# %%
# %%cuda
# __global__ void swapped(const float* a, const float* b, float* out, int M, int N, int K) {
#     int col = blockIdx.y * 32 + threadIdx.x / 32;
#     int row = blockIdx.x * 32 + threadIdx.x % 32;
#     if (row >= M || col >= N) return;
#     float sum = 0;
#     for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
#     out[row * N + col] = sum;
# }

# %% tags=["counts"]
lessons.predict(
    "swapped",
    "How many sectors per iteration does it touch?",
    guess=...,
    measured=lambda: per_iteration(profile(swapped, a, b, block=1024)),
    show=lambda: lessons.times("matmul", ["naive", "coalesced", "coalesced_swapped", "naive_2d"]),
)

# %% [markdown]
# ## The same numbers from a GPU: Nsight Compute
#
# Nsight Compute (`ncu`) is NVIDIA's profiler for kernels. It needs a GPU and the permission to read the GPU's counters.
# In coalesce, `metrics()` of a profile returns counts under the names of Nsight Compute. These are commands from a
# tutorial, with the metrics that matter here:
#
# ```sh
# ncu --metrics l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,\
# smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct,l1tex__t_sector_hit_rate.pct,dram__bytes_read.sum ./program
# ncu --set full -o naive ./program         # everything, for the screens of ncu-ui
# ncu --import naive.ncu-rep --page details # the same as text
# ```
#
# | Nsight Compute's metric | what it is | on its screens |
# |---|---|---|
# | `l1tex__t_requests_...op_ld.sum` | load requests | Memory Workload Analysis, table L1/TEX Cache: Requests |
# | `l1tex__t_sectors_...op_ld.sum` | their sectors | the same row: Sectors |
# | `l1tex__average_t_sectors_per_request_...op_ld.ratio` | sectors per request | the same row: Sectors/Req |
# | `smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct` | distinct bytes that the lanes ask for, as a share of the bytes of the sectors | Source page: L2 Theoretical Sectors Global Excessive counts the wasted sectors |
# | `l1tex__t_sector_hit_rate.pct` | share of the sectors that were in L1 | the same row: Hit Rate |
# | `dram__bytes_read.sum` | bytes from the memory | the chart: Device Memory |
#
# The tutorial also has a table of expected results:
#
# - The "Global Load Efficiency", the share of the loaded bytes that are used, is about 50 % for the naive kernel, and
#   90 to 100 % for the coalesced one.
# - The L1 hit rate is below 5 % in both kernels.
# - The coalesced kernel has less "memory replay overhead". This counter of older profilers says how often memory
#   instructions must be issued again.
#
# These are the counts:

# %% tags=["counts"]
for name, p in big.items():
    m = p.metrics()
    for metric in (
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    ):
        print(f"{name:10} {metric:72} {m[metric]:6.4g}")

# %% [markdown]
# **Bytes used, two definitions.** Nsight Compute counts the distinct bytes that the lanes ask for, as a share of the
# bytes of the sectors. In `coalesced`, the broadcast uses 4 bytes of 1 sector, and the other load all 128 bytes of 4
# sectors: 132 of 160 bytes, or 82.5 %, although no load could be cheaper. In `naive`, the loads use 132 of 1,056 bytes,
# or 12.5 %.
#
# In our reports, a broadcast counts as a load that uses its whole sector, because no load could touch less. So the
# loads of `naive` use 160 of 1,056 bytes, or 15 %.
#
# ## alpha and beta
#
# BLAS, a standard interface of libraries, defines a matrix product as `out = alpha * a @ b + beta * c`. The variants of
# `coalesce.matmul` compute this, too. `beta` decides whether the kernel reads `c`: BLAS requires that `c` is not read if
# `beta == 0`.

# %%
c = rng.random((N, N), dtype=np.float32)


def requests(beta):
    options = {"variant": "coalesced", "alpha": 2.0, "beta": beta, "c": c, "device": "sim"}
    assert np.allclose(coalesce.matmul(a, b, **options), 2 * a @ b + beta * c, atol=1e-3)
    p = coalesce.profile("matmul", a, b, **options)
    return p.metrics()["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]


# %% tags=["counts"]
lessons.predict(
    "beta",
    "How many more load requests does `beta = 1` cost than `beta = 0`, for matrices of 128 x 128?",
    guess=...,
    measured=lambda: requests(1.0) - requests(0.0),
)

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("crop")

# %% tags=["exercise"]
lessons.exercise("product")

# %% tags=["exercise"]
lessons.exercise("gram")

# %% tags=["exercise"]
lessons.exercise("pad")

# %% [markdown]
# **To remember**
# - For each load ask: which elements do lane 0, lane 1 and lane 2 read in the same iteration?
# - If all lanes read the same element (a broadcast), the load touches 1 sector. If they read neighbouring floats, it
#   touches 4 sectors. If their elements are a row apart, it touches 32 sectors.
# - A column of rows of 32, 512 or 4096 words is in one bank of L1. One word more per row is the cure.
# - If L1 holds nearly all data, DRAM has little to do. But then L1 itself can be the limit. Always ask which resource is
#   the limit.
# - If you exchange `/` and `%` where `row` and `col` are computed, the result is still right, but the kernel is slow.
#   Count the sectors.

# %%
lessons.score()
