# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 3. Tiles and corner turning
#
# **The question.** The coalesced kernel wastes no sector, but it reads every element of `a` and `b` many times from
# global memory. How often must it read them? With **shared memory**, the threads of a block can share the elements that
# they load. But there is a new problem: shared memory is slow if the lanes access it in a bad order.
#
# **Time:** 75 minutes. **You need:** [lesson 2](02_matmul_naive_to_coalesced.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

rng = np.random.default_rng(0)

# %% [markdown]
# ## An example small enough to draw
#
# Each multiprocessor has some shared memory, which is as fast as L1. If a kernel declares an array with `__shared__`, the
# array is in shared memory. Each block has its own copy of the array, and all threads of the block can read and write
# this copy.
#
# Take matrices of 8 x 8 elements, and divide them into squares of 4 x 4, called **tiles**. Block (0, 0) computes the
# upper left tile of the result. For this, it needs 4 rows of `a` and 4 columns of `b`. It loads them in two **phases**:
# one tile of `a` and one tile of `b` per phase. In each phase, each of the block's 16 threads loads one element of `a`
# and one of `b`, and stores them in shared memory. The threads wait until all elements are stored. Then each thread can
# use all elements of both tiles.

# %%
T = 4
threads = [(y, x) for y in range(T) for x in range(T)]
phases = {
    f"phase {phase}": [
        draw.Matrix("a", (8, 8), [(y, phase * T + x) for y, x in threads], boxes=[(0, 0, T, 8)]),
        draw.Matrix("b", (8, 8), [(phase * T + y, x) for y, x in threads], boxes=[(0, 0, 8, T)]),
        draw.Matrix(
            "a_tile", (T, T), threads, memory="shared", note="written by all, read by rows"
        ),
        draw.Matrix(
            "b_tile", (T, T), threads, memory="shared", note="written by all, read by columns"
        ),
    ]
    for phase in (0, 1)
}

# %% tags=["counts"]
lessons.predict(
    "phase 1",
    "Which elements does thread (x = 2, y = 1) load in phase 1?",
    choices=["a[1][2] and b[1][2]", "a[1][6] and b[5][2]", "a[5][2] and b[1][6]"],
    guess=...,
    show=lambda: draw.matrices(
        phases,
        title="block (0, 0): the numbers are the threads",
        headline="Each element is loaded once by one thread, and used by four",
    ),
)

# %% [markdown]
# Four threads use each element in shared memory: the threads of one row or of one column of the block. Without a tile,
# each of these threads would load the element from global memory. So a tile changes **how often** an element is loaded.
# In the tiled kernel, the loads of `a` and of `b` both go along rows, so both are coalesced. In the kernel without
# tiles (`coalesced`), the load of `b` goes along rows, too.
#
# ## The kernel

# %%
# %%cuda -D TILE=32
# __global__ void tiled(const float* a, const float* b, float* out, int M, int N, int K) {
#     __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
#     int tx = threadIdx.x, ty = threadIdx.y;
#     int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
#     float sum = 0;
#     for (int k0 = 0; k0 < K; k0 += TILE) {
#         a_tile[ty][tx] = row < M && k0 + tx < K ? a[row * K + k0 + tx] : 0;
#         b_tile[ty][tx] = k0 + ty < K && col < N ? b[(k0 + ty) * N + col] : 0;
#         __syncthreads();  // first
#         for (int k = 0; k < TILE; ++k) sum += a_tile[ty][k] * b_tile[k][tx];
#         __syncthreads();  // second
#     }
#     if (row < M && col < N) out[row * N + col] = sum;
# }

# %% [markdown]
# `__syncthreads()` is a **barrier**: no thread of the block continues before all of them have arrived. The kernel has two
# barriers per phase.
#
# Some threads have no element of the result, because their block reaches beyond the matrix. Such a thread must still load
# its elements of the tiles, because other threads of the block use them. And no thread may return before a barrier.
# Therefore the kernel tests `row` and `col` only after the loop.
#
# Watch one block of the small example. `step` runs a block line by line, and `play` shows what its warps do to shared
# memory. (Use the buttons above the picture.)


# %%
def tiled_by(tile, source=tiled.source):
    """The kernel with tiles of this width."""
    return coalesce.Kernel(source, "tiled", options=[f"-DTILE={tile}"])


small_a, small_b = np.arange(128, dtype=np.float32).reshape(2, 8, 8)
small_out = np.zeros((8, 8), np.float32)
tiled_by(4).step((2, 2), (4, 4), small_a, small_b, small_out, 8, 8, 8).play()

# %% [markdown]
# Are both barriers needed? The warps of a block do not run at the same speed. The next cells remove one of the two
# barriers. Then they run the kernel, and check it for races:

# %%
N = 128
a, b = rng.random((2, N, N), dtype=np.float32)


def stripped(barrier):
    """The source of the kernel without one of its barriers."""
    lines = tiled.source.splitlines()
    return "\n".join(line for line in lines if not line.endswith(f"// {barrier}"))


def without(barrier):
    """Run the kernel without one barrier. Print how many elements are right, and what the check finds."""
    kernel = tiled_by(16, stripped(barrier))
    out = np.zeros_like(a)
    kernel[(8, 8), (16, 16)](a, b, out, N, N, N)
    findings = kernel.check((8, 8), (16, 16), a, b, out, N, N, N)
    print(
        f"without {barrier:7}: {np.isclose(out, a @ b, atol=1e-3).sum():6,} of {out.size:,} right here;"
    )
    print(f"    {findings[0].title if findings else 'the check finds nothing'}")
    return bool(findings)


def runs_ahead():
    """A block of two warps without the first barrier."""
    kernel = tiled_by(8, stripped("first"))
    return kernel.step(1, (8, 8), small_a, small_b, small_out, 8, 8, 8).play()


# %% tags=["counts"]
lessons.predict(
    "barriers",
    "Which of the two barriers is needed?",
    choices=["only the first", "only the second", "both"],
    guess=...,
    measured=lambda: (without("first"), without("second")),
    show=runs_ahead,
)

# %% [markdown]
# ## Count the traffic
#
# Without tiles, each of the N² threads loads 2 N elements, so all threads together load 2 N³ elements. With tiles of
# T x T elements, each loaded element is used by T threads. So all threads together load only 2 N³ / T elements.

# %%
# Counts of the variants of `coalesce.matmul`, which have the loops of lesson 2 and of this lesson.
kernels = {
    "coalesced": ("coalesced", {}),
    "tiled, 16": ("tiled", {"tile": 16}),
    "tiled, 32": ("tiled", {"tile": 32}),
}


def loads(variant, **options):
    m = coalesce.profile("matmul", a, b, variant=variant, device="sim", **options).metrics()
    return (
        m["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"],
        m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
    )


def traffic():
    for name, (variant, options) in kernels.items():
        requests, sectors = loads(variant, **options)
        print(
            f"{name:10} {requests:7,} requests, {sectors:7,} sectors, {8 * sectors / N**3:.4f} N³ floats in them"
        )


# %% tags=["counts"]
lessons.predict(
    "fewer requests",
    "How many times fewer load requests has `tiled` with tiles of 32 than `coalesced`?",
    guess=...,
    measured=lambda: loads("coalesced")[0] / loads("tiled", tile=32)[0],
    show=traffic,
)

# %% [markdown]
# ## How fast, and what binds?
#
# The counters below were recorded on an H200, at the size of the times: 4096.

# %%
measured = lessons.times("matmul", ["coalesced", "tiled"])
recorded = lessons.recording().counters("matmul", 4096)


def binds():
    for name in ("coalesced", "tiled"):
        m = recorded[name]
        data = m["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"]
        requests = m["l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"] / 0.8
        print(
            f"{name:10} at 4096: load-store unit busy {requests:.0f} %, data stage of L1 {data:.0f} %"
        )
        p = coalesce.profile("matmul", a, b, variant=name, device="sim")
        each = sum(t.requests for t in p.totals()) / (N**3 / 32)
        print(f"{'':10} {each:.2f} requests per multiply-add of a warp (counted at {N})")
    return measured


lessons.predict(
    "gain of the tile",
    "With tiles of 32, `tiled` has 32 times fewer load requests of global memory and 20 times fewer sectors than "
    "`coalesced`. How many times faster is it at 4096?",
    guess=...,
    measured=lambda: measured.ratio("tiled"),
    within=0.15,
    show=binds,
)

# %% [markdown]
# A tile saves loads. Does it also save reads of DRAM?


# %%
def gigabytes_of_dram():
    for name in ("naive", "coalesced", "tiled"):
        print(f"{name:10} reads {recorded[name]['dram__bytes_read.sum'] / 1e9:.2f} GB")
    print(f"the operands have {2 * 4096**2 * 4 / 1e9:.2f} GB")


lessons.predict(
    "bytes of the tile",
    "At 4096, `coalesced` reads 8.0 GB from DRAM. How many GB does `tiled` read?",
    guess=...,
    measured=lambda: recorded["tiled"]["dram__bytes_read.sum"] / 1e9,
    unit="GB",
    within=0.1,
    show=gigabytes_of_dram,
)

# %% [markdown]
# **Arithmetic intensity** is the number of operations per loaded byte. Many texts use this number to explain why a
# kernel is fast or slow. Let us compute the number. With a tile of `a` and a tile of `b`, a block makes T · T · T
# multiplications and as many additions: 2 T³ operations. The two tiles have 2 T² floats of 4 bytes. So the arithmetic
# intensity is 2 T³ / (2 T² · 4 bytes) = T / 4 operations per byte.
#
# According to its datasheet, an H200 computes 67 TFLOP/s (10¹² operations per second) and moves 4.8 TB/s. The ratio
# is 14 operations per byte. With a tile of 32, the kernel makes only 8 operations per loaded byte, so the memory seems to
# be the limit. If this were true, the kernel would keep the memory busy. But 8.4 GB in 15.5 ms are 540 GB/s, a ninth of
# what the memory can deliver.
#
# The limit is inside the multiprocessor. For every multiplication, a warp loads from *shared* memory, and the load-store
# unit takes one request at a time. To load less, each thread must compute several elements and keep its operands in
# registers. Lesson 7 does this.
#
# ## What repeats between blocks
#
# A tutorial says: "blocks with the same `bx` and different `by` still load the same tile of M". (Its M is our `a`; `bx`
# and `by` are `blockIdx.x` and `blockIdx.y`.) Is this true? In `tiled`, `by` chooses the rows of the result, and `bx`
# chooses the columns. In lesson 2's `coalesced` it was the other way round. `coalesce.trace` records
# the addresses of every load. From these addresses, the next cell finds out which blocks load the first element.

# %%
blocks = {
    f"block ({x}, 0)": [
        draw.Matrix("a", (8, 8), [(row, col) for row in range(T) for col in range(8)]),
        draw.Matrix("b", (8, 8), [(row, x * T + col) for row in range(8) for col in range(T)]),
    ]
    for x in (0, 1)
}
trace = coalesce.trace("matmul", a, b, variant="tiled", device="sim", limit=None)


def sharers(array):
    """The blocks that load the first sector of an array."""
    chosen = trace.select(array=array, kind="load")
    first = min(int(np.min(np.asarray(x))) for x in chosen.addresses) // 32
    return sorted(
        {
            (int(block[0]), int(block[1]))
            for block, addresses in zip(chosen.block.tolist(), chosen.addresses, strict=True)
            if first in np.unique(addresses // 32)
        }
    )


def shared_by():
    for array in ("a", "b"):
        print(f"the first sector of {array} is loaded by blocks (bx, by) = {sharers(array)}")


# %% tags=["counts"]
lessons.predict(
    "who repeats a",
    "Tiles of 32, N = 128; bx chooses columns of the result, by chooses rows. Which blocks load the same elements of `a`?",
    choices=["those with the same bx", "those with the same by"],
    guess=...,
    measured=lambda: sharers("a"),
    show=lambda: [
        shared_by(),
        draw.matrices(
            blocks,
            title="what two blocks of the small example load, in all phases",
            headline="The elements that two blocks load",
        ),
    ],
)

# %% [markdown]
# Several blocks load the same elements. Shared memory cannot avoid these loads, because each block has its own shared
# memory. But L2 can help, because all blocks share it: if two blocks load the same sector at nearly the same time, the
# second one finds it in L2. At 4096, a tile of `a` is needed by 128 blocks. They do not run at the same time, and L2 is
# too small to keep all tiles. Therefore DRAM delivers each element about 60 times, with and without tiles.
#
# ## Exercise: 69 GB
#
# A tutorial sets this exercise for N = 2048. Each of the N x N threads reads 2 N floats, 69 GB in all. A memory of 900
# GB/s would need 77 ms for 69 GB. The kernel took 150 ms. So, the tutorial says, the kernel reaches 51 % of the memory's
# bandwidth.
#
# The tutorial's kernel has no tiles. It reads the transpose of `b`, so that each thread walks along a row. The tutorial
# believes that this makes the loads coalesced. It is our variant `transposed_b`, with this loop:
#
# ```c
# int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
# for (int k = 0; k < K; ++k) sum += a[row * K + k] * bt[col * K + k];
# ```
#
# How many bytes do its loads really ask for?


# %%
def gigabytes(variant, n=2048):
    return 32 * loads(variant)[1] * (n / N) ** 3 / 1e9


def bytes_of_2048():
    n = 2048
    print(f"{'the threads want':28} {2 * n**3 * 4 / 1e9:7.2f} GB")
    for variant in ("coalesced", "transposed_b"):
        print(f"{'loads of ' + variant + ' ask for':28} {gigabytes(variant):7.2f} GB")
    print(f"{'a and b have':28} {2 * n**2 * 4 / 1e9:7.2f} GB")


# %% tags=["counts"]
lessons.predict(
    "69 GB",
    "How many GB do the loads of the tutorial's kernel (`transposed_b`) ask L1 for?",
    guess=...,
    measured=lambda: gigabytes("transposed_b"),
    unit="GB",
    within=0.1,
    show=bytes_of_2048,
)

# %% [markdown]
# Which share of the peak bandwidth does a kernel really reach? Take the bytes that *the memory* delivered
# (`dram__bytes_read.sum`), not the bytes that the threads read. Divide them by the time, and divide the result by the
# peak bandwidth.
#
# ## Shared memory has banks
#
# Shared memory consists of 32 **banks**. Word w (4 bytes) is in bank w mod 32. All banks work at the same time, but each
# bank serves one word at a time. Suppose that the lanes of a warp want different words of the same bank. Then the bank
# serves these words one after the other. This is a **bank conflict**: the load takes several passes, called
# **wavefronts**. In the first example, the lanes of a warp read one column of words:

# %%
column = """
extern "C" __global__ void column(const float* x, float* out) {
    __shared__ float tile[32][WIDTH];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];  // lanes step down a column
}
"""


def wavefronts(width):
    """Wavefronts per load request of shared memory."""
    kernel = coalesce.Kernel(column, "column", options=[f"-DWIDTH={width}"])
    x = rng.random((32, 32), dtype=np.float32)
    out = np.empty_like(x)
    p = kernel.profile(1, (32, 32), x, out)
    assert np.array_equal(out, x.T)
    return {t.name: t.per_request for t in p.totals()}["shared load"]


def board(width):
    words = [lane * width * 4 for lane in range(32)]
    return draw.bank_board(
        words, 4, rows="words", title=f"tile[lane][0] of float tile[32][{width}]"
    )


# %% tags=["counts"]
lessons.predict(
    "a column of words",
    "`float tile[32][32]`, and lane l reads `tile[l][0]`. How many wavefronts does the load take?",
    guess=...,
    measured=lambda: wavefronts(32),
    show=lambda: board(32),
)

# %% tags=["counts"]
lessons.predict(
    "padded rows",
    "And with rows of 33 words, the last one unused: `float tile[32][33]`?",
    guess=...,
    measured=lambda: wavefronts(33),
    show=lambda: board(33),
)

# %% [markdown]
# ## Corner turning
#
# Now suppose that `b` is stored column by column, as in `transposed_b` above. The lanes of a warp need neighbouring
# elements of a row of `b`. But in memory, two neighbours of a row are a whole column apart.

# %% tags=["counts"]
lessons.predict(
    "transposed b",
    "How many sectors per iteration do the two loads of the untiled kernel `transposed_b` touch?",
    guess=...,
    measured=lambda: (
        2
        * coalesce.profile(
            "matmul", a, b, variant="transposed_b", device="sim"
        ).sectors_per_request["load"]
    ),
)

# %% [markdown]
# A tile solves this problem, because the threads can load it in one order and use it in another order. When the threads
# load the tile, the lanes of a warp read neighbouring elements of **one column** of `b`, which is contiguous. When the
# threads use the tile in shared memory, each lane reads from a **different column**. This is called corner turning.
# Textbooks say that every order is fast in shared memory. Is that true?

# %%
lessons.code("matmul", "corner_turned", part=("for (int k0", "__syncthreads();"))

# %%
turned = {
    v: coalesce.profile("matmul", a, b, variant=v, device="sim")
    for v in ("tiled", "corner_turned", "corner_turned_padded")
}


def conflicts():
    for variant, p in turned.items():
        print(
            f"{variant:21} {p.sectors_per_request['load']:.0f} sectors per load, {p.bank_conflicts:9,} bank conflicts; {p.modelled.why}"
        )
    return turned["corner_turned"]


# %%
lessons.predict(
    "corner turned",
    "`corner_turned` loads 4 sectors per request, as `tiled` does. Is it as fast?",
    choices=["yes", "no: its reads of the tile have bank conflicts", "no: it executes more loads"],
    guess=...,
    measured=lambda: turned["corner_turned"],
    show=lambda: [
        conflicts(),
        lessons.times("matmul", ["tiled", "transposed_b", "corner_turned", "corner_turned_padded"]),
    ],
)

# %% [markdown]
# **Why is it an 8-way conflict, and not a 32-way one?** The assembler has merged the loads of four iterations: each lane
# loads four neighbouring words (16 bytes) at once. So one load of the warp reads four columns, 128 words, which take 4
# wavefronts at best. But all words of a column are in one bank. Each of the four banks must serve 32 words, so the load
# takes 32 wavefronts: 8 times as many.

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("grey")

# %% tags=["exercise"]
lessons.exercise("barriers")

# %% tags=["exercise"]
lessons.exercise("tiled")

# %% tags=["exercise"]
lessons.exercise("corner")

# %% [markdown]
# **To remember**
# - Tiles reduce how *often* global memory is read. Without tiles, T threads of a block load the same element. With tiles
#   of width T, one of these threads loads the element for all. A kernel with tiles needs two barriers per phase.
# - With a tile, threads can load elements in the order that is best for global memory. Then the threads can use the
#   elements in the order that the algorithm needs.
# - Shared memory has 32 banks. If the rows of a tile have an odd number of words, reading a column has no bank conflicts.
# - A tile need not save reads of DRAM: at 4096, `tiled` reads as much as `coalesced`.
# - Is the memory the limit? Divide the bytes that the memory delivered by the time, and compare with its peak bandwidth.

# %%
lessons.score()
