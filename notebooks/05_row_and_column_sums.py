# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 5. Row sums and column sums
#
# **The question.** Row sums and column sums of a matrix need the same data and equally many additions. One kernel has a
# thread for each row, another has a thread for each column. One of the two kernels touches eight times as many sectors
# as the other. How do we repair the kernel that touches more sectors? And why do the measured times of the two kernels
# not differ by a factor of eight?
#
# **Time:** 60 minutes. **You need:** [lesson 3](03_tiles_and_corner_turning.ipynb), which explains banks. You do not need a GPU. The
# [glossary](glossary.md) explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

rng = np.random.default_rng(0)
a = rng.random((256, 256), dtype=np.float32)

# %% [markdown]
# ## Two directions
#
# A thread of `thread_per_row` walks along its row. A thread of `thread_per_column` walks down its column.

# %%
lessons.code("row_sums", "thread_per_row")

# %%
lessons.code("column_sums", "thread_per_column")

# %%
lanes = range(32)
walks = {
    f"iteration {i}": [
        draw.Matrix("a by rows", (256, 256), [(lane, i) for lane in lanes]),
        draw.Matrix("a by columns", (256, 256), [(i, lane) for lane in lanes]),
    ]
    for i in (0, 1)
}
kernels = {
    "thread_per_row": "row_sums",
    "block_per_row": "row_sums",
    "block_per_row_dynamic": "row_sums",
    "warp_per_row": "row_sums",
    "thread_per_column": "column_sums",
    "column_tiles": "column_sums",
}
profiles = {v: coalesce.profile(op, a, variant=v, device="sim") for v, op in kernels.items()}

# %% tags=["counts"]
lessons.predict(
    "walk along the row",
    "How many sectors does one load of `thread_per_row` touch?",
    guess=...,
    measured=lambda: profiles["thread_per_row"].sectors_per_request["load"],
    show=lambda: draw.matrices(
        walks,
        title="one warp: a thread for each row, a thread for each column",
        headline="A row for each thread: the lanes are in one column. A column for each: in one row",
    ),
)

# %% [markdown]
# ## Rows without the stride
#
# To make the loads contiguous, give **one** row to a whole block, or to a whole warp. Then neighbouring lanes load
# neighbouring elements of the row. Each thread adds up a part of the row. At the end, the sums of these parts must be
# added.

# %%
lessons.code("row_sums", "block_per_row")

# %% [markdown]
# The sums of the parts are added in shared memory, by a tree. A block has 256 threads, so there are 256 sums.
# In the first step, 128 threads add two sums each, and 128 sums are left. In the second step, 64 threads add two of
# these sums each, and so on. There are two other common trees. Here are all three:

# %%
TREES = {
    "halves": """
    for (int s = 128; s > 0; s /= 2) {
        __syncthreads();
        if (t < s) part[t] += part[t + s];
    }""",
    "t % (2 * s) == 0": """
    for (int s = 1; s < 256; s *= 2) {
        __syncthreads();
        if (t % (2 * s) == 0) part[t] += part[t + s];
    }""",
    "i = 2 * s * t": """
    for (int s = 1; s < 256; s *= 2) {
        __syncthreads();
        int i = 2 * s * t;
        if (i < 256) part[i] += part[i + s];
    }""",
}
for name, loop in TREES.items():
    print(f"{name}:{loop}\n")


# %% tags=["hide-input"]
def tree(name):
    """Return the profile of one block that adds 256 numbers with this tree."""
    text = """
extern "C" __global__ void tree(const float* x, float* out) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = x[t];
    TREE
    if (t == 0) *out = part[0];
}
"""
    out = np.zeros(1, np.float32)
    p = coalesce.Kernel(text.replace("TREE", TREES[name]), "tree").profile(1, 256, a[0], out)
    assert np.isclose(out[0], a[0].sum())
    return p


def trees():
    for name in TREES:
        p = tree(name)
        m = p.metrics()
        loads = {t.name: t.requests for t in p.totals()}["shared load"]
        print(
            f"{name:17} {p.bank_conflicts:3} bank conflicts, {loads:3} shared load requests, "
            f"{m['memory_l1_wavefronts_shared']:4} wavefronts, {m['smsp__inst_executed.sum']} instructions"
        )


# %% tags=["counts"]
lessons.predict(
    "conflicts of a tree",
    "Which of the three trees has bank conflicts?",
    choices=[*TREES, "none"],
    guess=...,
    measured=lambda: {name: tree(name).bank_conflicts for name in TREES},
    show=trees,
)

# %% [markdown]
# These are the threads that add in each step:


# %% tags=["hide-input"]
def adding(step):
    """A picture of the threads that add in a step of each tree. A row is a warp."""
    t, s = np.arange(256), 2**step
    adds = {
        "halves": t < 128 // s,
        "t % (2 * s) == 0": t % (2 * s) == 0,
        "i = 2 * s * t": 2 * s * t < 256,
    }
    return draw.board(
        [
            draw.Grid(
                name, np.where(who, "used", "").reshape(8, 32), note=f"{warps(who)} of 8 warps"
            )
            for name, who in adds.items()
        ],
        {"used": "a thread that adds"},
        headline=f"step {step + 1}: threads that add: {128 // s}",
    )


def warps(who):
    return int(who.reshape(8, 32).any(axis=1).sum())


draw.player({f"step {step + 1}": adding(step) for step in range(8)})

# %% [markdown]
# And these are the banks of the words that a warp reads with `i = 2 * s * t`, in the step with s = 4:

# %%
draw.bank_board([t * 8 * 4 for t in range(32)], 4, title="part[8 * t]")

# %% [markdown]
# In the last five steps of the tree, a single warp has all the sums that are left. Inside a warp, threads can exchange
# values without memory. With a **shuffle**, a lane reads a register of another lane: `__shfl_down_sync(mask, v, s)` returns the `v` of
# the lane whose number is higher by `s`. `warp_per_row` adds up the parts with shuffles alone.
#
# In `column_tiles`, the 32 warps of a block compute the sums of 32 columns. Each warp adds up a part of each column,
# and at the end the sums of the parts are added. Here are `warp_per_row` and `column_tiles`:

# %%
lessons.code("row_sums", "warp_per_row")

# %%
lessons.code("column_sums", "column_tiles")


# %%
def table():
    print(
        f"{'kernel':22} {'warps':>6} {'loads':>6} {'sectors each':>13} {'sectors':>8} {'bank conflicts':>15}"
    )
    for variant, p in profiles.items():
        warps = int(np.prod(p.grid)) * -(-int(np.prod(p.block)) // 32)
        m = p.metrics()
        print(
            f"{variant:22} {warps:6} {m['l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum']:6} "
            f"{p.sectors_per_request['load']:13.1f} {m['l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum']:8} {p.bank_conflicts:15}"
        )


# %% tags=["counts"]
lessons.predict(
    "warps of a thread per row",
    "The matrix has 256 x 256 elements. How many warps does `thread_per_row` have?",
    guess=...,
    measured=lambda: int(np.prod(profiles["thread_per_row"].grid)) * 8,
    show=table,
)

# %% [markdown]
# ## Why the clock disagrees, twice
#
# `thread_per_column` touches an eighth of the sectors of `thread_per_row`. So one might expect
# `thread_per_column` to be eight times as fast.

# %%
rows = lessons.times("row_sums", ["thread_per_row", "block_per_row", "warp_per_row"])
columns = lessons.times("column_sums", ["thread_per_column", "column_tiles"])


recorded = {
    name: counters
    for operation in ("row_sums", "column_sums")
    for name, counters in lessons.recording().counters(operation, 4096).items()
}


def behind():
    for name in ("thread_per_row", "thread_per_column"):
        m = recorded[name]
        print(
            f"{name:18} at 4096: L1 hits {m['l1tex__t_sector_hit_rate.pct']:3.0f} %, "
            f"{m['lts__t_sectors_srcunit_tex_op_read.sum']:,.0f} sectors from L2"
        )
    for n in (4096, 4097):
        ms = [
            lessons.times(kernels[name], [name], n=n)[name].kernel_ms
            for name in ("thread_per_row", "thread_per_column")
        ]
        print(f"n = {n}: thread_per_row {ms[0]:.3f} ms, thread_per_column {ms[1]:.3f} ms")
    return [rows, columns]


lessons.predict(
    "not eight times",
    "How many times faster is `thread_per_column`, at n = 4096?",
    guess=...,
    measured=lambda: rows["thread_per_row"].kernel_ms / columns["thread_per_column"].kernel_ms,
    within=0.25,
    show=behind,
)

# %% [markdown]
# Counts and times disagree a second time. `column_tiles` and `thread_per_column` both take 4 sectors per request, but
# `column_tiles` is more than six times as fast. The reason is the number of warps: `thread_per_column` has too few. An H200 has 132
# multiprocessors, and each of them has room for 64 warps.

# %%
capacity = 132 * 64  # NVIDIA H100/H200 architecture whitepaper


def occupancy():
    for n in (256, 4096, 65536):
        print(
            f"{n:6} columns: {n // 32:5} warps, {n / 32 / capacity:7.2%} of what an H200 holds at once"
        )
    for name in ("thread_per_column", "column_tiles"):
        share = recorded[name]["sm__warps_active.avg.pct_of_peak_sustained_active"]
        print(f"{name:18} at 4096: {share:.0f} % of the warps of a multiprocessor that has work")
    print(f"\n{'GB/s at n =':18}" + "".join(f"{n:>8}" for n in (256, 1024, 4096, 16384)))
    for name in ("thread_per_row", "thread_per_column", "block_per_row", "column_tiles"):
        rates = [lessons.times(kernels[name], [name], n=n) for n in (256, 1024, 4096, 16384)]
        print(f"{name:18}" + "".join(f"{t[name].gbps:8.0f}" if t else "       -" for t in rates))


# %% tags=["counts"]
lessons.predict(
    "share of the GPU",
    "An H200 can hold 132 x 64 warps at once. Which share of them does a kernel with one thread for each of 4,096 columns have?",
    guess=...,
    unit="%",
    within=0.1,
)

# %%
occupancy()

# %% [markdown]
# Each warp of `thread_per_column` waits several hundred nanoseconds for its loads, and meanwhile there are no other
# warps that could run. The counts say how many sectors a load costs. They do not say how many loads the memory serves
# at the same time. A larger matrix has more columns, so there are more warps, and the bandwidth of `thread_per_column`
# grows. Kernels with enough warps come near the bandwidth of the memory, as the last column of the table shows.
#
# (In the table, the speeds for n = 256 and n = 1024 say nothing about the memory. Matrices of these two sizes fit into
# L2, and each measurement runs the kernel many times. From the second run on, the kernel reads the matrix from L2.)
#
# ## The profiler's table of kernels
#
# A system profiler prints a table of kernels, with the share of each kernel in the total time. Some people think that
# such a table shows whether a kernel *accesses* memory well. Here is such a table, made of the times above:

# %%
both = [(f"{t.operation} {name}", t[name].kernel_ms) for t in (rows, columns) for name in t]
total = sum(ms for _, ms in both)
for name, ms in sorted(both, key=lambda row: -row[1]):
    print(f"{ms / total:6.1%} {1e6 * ms:12,.0f} ns  {name}")

# %% [markdown]
# The table says where to look first. It cannot say why a kernel takes long: the kernel in the second row is perfectly coalesced.
#
# ## The puzzle of 6.5 and 150 ms
#
# A tutorial computes the row sums and the column sums of a matrix of 16384 x 16384 floats on an AMD GPU (MI250X).
# `row_sums` takes 165 ms, `column_sums` takes 6.5 ms. In a second version of `row_sums`, each row has a block of its
# own, and the loads are coalesced. But this version still takes 150 ms, and the author of the tutorial wonders why.
# Compute the bandwidth from each time:

# %% tags=["counts"]
size = 16384**2 * 4
for name, ms in {
    "row_sums, a thread per row": 165.1,
    "row_sums, a block per row": 150.2,
    "column_sums": 6.47,
}.items():
    print(f"{name:27} {ms:6.1f} ms  {size / ms / 1e6:6.1f} GB/s")

# %%
lessons.times("row_sums", ["thread_per_row", "block_per_row"], n=16384)

# %% [markdown]
# Which explanation fits? Slow shared memory, an access pattern that is still bad, or something that is not in the kernel?
#
# <details><summary>Our answer</summary>
#
# The third: something outside the kernel. A speed of 7 GB/s is typical of the bus between the host and a GPU. The
# memory of the tutorial's GPU gives 1,600 GB/s. And on the GPU of the table above, coalesced loads do help:
# `block_per_row` is nine times as fast as `thread_per_row`. Even `thread_per_row` reaches more than 500 GB/s there.
#
# In both of the tutorial's programs, `row_sums` is launched first, so it is the first kernel that accesses the data.
# Perhaps the data are moved to the GPU only at the first access. Then the first kernel must wait for the bus, whatever it
# computes. We cannot run the tutorial's programs here, so this is a guess. To test it, launch `column_sums` first, or
# launch each kernel twice and take the second time.
#
# </details>
#
# The same programs ran on a V100 of the computer Summit (900 GB/s, 80 multiprocessors). There, the order flips: with a
# thread per row, the row sums take longer than the column sums; with a block per row, they take less. Your table of
# bandwidths explains it: `column_sums` has 512 warps for a GPU that can hold 5,120, and a block per row has enough.

# %% tags=["counts"]
for name, ms in {
    "row_sums, a thread per row": 3.264,
    "column_sums": 2.177,
    "row_sums, a block per row": 1.342,
}.items():
    print(f"{name:27} {ms:6.2f} ms  {size / ms / 1e6:6.0f} GB/s")

# %% [markdown]
# ## Static and dynamic shared memory
#
# There are two ways to choose the size of an array in shared memory. `__shared__ float partial[256]` fixes the size when
# the kernel is compiled (static). `extern __shared__ float partial[]` takes the size from the launch (dynamic):
# `kernel[grid, block, shared_bytes]`.


# %% tags=["counts"]
def differences():
    static, dynamic = (profiles[v].metrics() for v in ("block_per_row", "block_per_row_dynamic"))
    memory = [
        name for name in static if "sectors" in name or "requests" in name or "wavefronts" in name
    ]
    return sum(static[name] != dynamic[name] for name in memory if "lts" not in name)


lessons.predict(
    "dynamic shared memory",
    "How many of the counts of requests, sectors and wavefronts differ between the two?",
    guess=...,
    measured=differences,
    show=lambda: coalesce.compare(profiles["block_per_row"], profiles["block_per_row_dynamic"]),
)

# %% [markdown]
# ## The same in HIP
#
# HIP is AMD's counterpart of CUDA. The text of the kernel is the same as in CUDA. Only the functions that the host
# calls have other names:
#
# ```cpp
# #include <hip/hip_runtime.h>
#
# __global__ void column_sums(const float* x, float* sums, int rows, int cols) {  // as in CUDA
#     int col = blockIdx.x * blockDim.x + threadIdx.x;
#     if (col >= cols) return;
#     float sum = 0;
#     for (int row = 0; row < rows; ++row) sum += x[row * cols + col];
#     sums[col] = sum;
# }
#
# hipMalloc(&x, bytes);                                  // cudaMalloc
# hipMemcpy(x, host, bytes, hipMemcpyHostToDevice);      // cudaMemcpy
# column_sums<<<(cols + 255) / 256, 256>>>(x, sums, rows, cols);
# hipDeviceSynchronize();                                // cudaDeviceSynchronize
# ```
#
# Some terms are different, and so is the number of lanes:
#
# | CUDA | HIP on AMD's GPUs |
# |---|---|
# | warp of 32 | wavefront, of 64 lanes on CDNA (MI200, MI300), of 32 or 64 on RDNA |
# | shared memory, up to 227 KiB per block (H100, H200) | LDS, local data share, up to 64 KiB per block (MI200, MI300) |
# | multiprocessor (SM) | compute unit (CU) |
# | shared memory has 32 banks of 4 bytes | LDS has 32 banks of 4 bytes (MI200, MI300) |
# | line of 128 bytes in 4 sectors | lines of 64 bytes in the L1 of MI200, of 128 bytes in the L1 of MI300 and in L2 |
#
# Be careful with the word *wavefront*. For AMD, a wavefront is what CUDA calls a warp. In Nsight Compute, it is the work
# that shared memory does in one cycle: an access with a bank conflict takes several wavefronts.
#
# AMD's profilers are `rocprof` and, in newer versions of ROCm, `rocprofv3`. The command `rocprof -i counters.txt
# ./program` reads names of counters from the file `counters.txt`, for example from the line `pmc: SQ_INSTS_VMEM_RD
# TCP_TOTAL_CACHE_ACCESSES_sum`. These counters answer the questions of this lesson ([AMD's list for the
# MI200](https://rocm.docs.amd.com/en/docs-6.0.0/conceptual/gpu-arch/mi200-performance-counters.html)):
#
# | question | Nsight Compute | rocprof |
# |---|---|---|
# | how many loads? | `l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum` | `SQ_INSTS_VMEM_RD` |
# | how many pieces does L1 look up? | `l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum` | `TCP_TOTAL_CACHE_ACCESSES_sum` (lines) |
# | what does the memory deliver? | `dram__bytes_read.sum` | `TCC_EA_RDREQ_sum` (requests of L2) |
# | bank conflicts? | wavefronts above the ideal | `SQ_LDS_BANK_CONFLICT` (cycles) |
#
# The question is the same as before: which memory do the lanes of *one* instruction touch? The next cell counts
# cache lines of 128 bytes, for the row sums and the column sums of a matrix with rows of 256 floats.


# %% tags=["counts"]
def in_lines():
    lanes = np.arange(64)
    for name, addresses in {"row sums": lanes * 1024, "column sums": lanes * 4}.items():
        for size in (32, 64):
            t = coalesce.transactions(addresses, itemsize=4, warp_size=size)
            print(
                f"{name:12} {size} lanes: {t.requests} instruction(s), {t.lines / t.requests:2.0f} lines each"
            )
    return coalesce.transactions(lanes * 4, itemsize=4, warp_size=64).lines


lessons.predict(
    "wavefront of 64",
    "64 lanes of one wavefront load 64 neighbouring floats. How many lines of 128 bytes do they touch?",
    guess=...,
    measured=in_lines,
    show=lambda: coalesce.transactions(np.arange(64) * 4, itemsize=4, warp_size=64).picture(),
)

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("row_means")

# %% tags=["exercise"]
lessons.exercise("block_sums")

# %% tags=["exercise"]
lessons.exercise("column_max")

# %% tags=["exercise"]
lessons.exercise("prefix")

# %% [markdown]
# **To remember**
# - If each thread walks along its own row, neighbouring lanes access elements that are a row apart.
# - For contiguous loads, give each row to a warp or a block. Add up the parts of the row by a tree or by shuffles.
# - Fewer sectors make a kernel faster only if the sectors limit its speed. The sectors may be no limit, because L1 can
#   keep the unused bytes of a sector for the next load.
# - Coalesced loads are necessary, but not sufficient: without enough warps, the GPU waits for memory.

# %%
lessons.score()
