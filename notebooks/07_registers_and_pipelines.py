# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 7. From 1 % to half of the peak
#
# **The question.** The tiled kernel of lesson 3 reaches an eighth of the arithmetic peak of the GPU. What is missing? In
# this lesson, five more kernels lead step by step to more than half of the peak. We call the kernels the *rungs* of a
# ladder. Each rung brings one new idea. For each idea, predict how much it gains, count what it costs, and compare with
# the measured times. ([Lesson 10](10_past_cublas.ipynb) continues, past NVIDIA's library.)
#
# **Time:** 75 minutes. **You need:** lessons [3](03_tiles_and_corner_turning.ipynb) and [5](05_row_and_column_sums.ipynb).
# You do not need a GPU, because the lesson shows times that were recorded on a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
from functools import cache

import numpy as np

import coalesce
from coalesce import draw, lessons, plots

# %matplotlib inline
# %load_ext coalesce

RUNGS = ["naive", "coalesced", "tiled"]
RUNGS += ["blocktiled_1d", "blocktiled_2d", "vectorized", "warptiled", "pipelined"]
recording = lessons.recording()
speeds = recording.times("matmul", 4096)
PEAK = 132 * 4 * 32 * 2 * 1.98 / 1000  # TFLOP/s; the next section explains the factors


def tflops(rung):
    """The recorded speed at 4096 x 4096 x 4096, in TFLOP/s."""
    return speeds[rung].gflops / 1000


def gain(rung, over):
    return tflops(rung) / tflops(over)


lessons.Table(
    ["rung", "TFLOP/s", "of the peak"],
    [[rung, f"{tflops(rung):.2f}", f"{tflops(rung) / PEAK:.1%}"] for rung in RUNGS[:3]],
    f"{recording.where}: products of 4096 x 4096 float32",
)

# %% [markdown]
# You know the kernels `naive`, `coalesced` and `tiled`. This lesson shows the variants of `coalesce.matmul` themselves.
# They also compute `alpha` and `beta` (lesson 2) and work for any size, so some lines need a word: `REAL` is the type of
# an element, here `float`. `INDEX` is `int`, or a larger type for large matrices. `block_y` is `blockIdx.y`. `__restrict__`
# promises that the arrays do not overlap. `__launch_bounds__(THREADS)` tells the compiler the size of a block, so that it
# knows how many registers a thread may have. `#pragma unroll` asks it to write the iterations of a loop one after the
# other.

# %% [markdown]
# ## What a multiprocessor can do in one cycle
#
# | unit | in one cycle, at most |
# |---|---|
# | schedulers | issue 4 instructions, each of one warp |
# | float32 pipes | execute 4 multiply-adds, each of one warp (32 multiplications and 32 additions) |
# | load-store unit | take 0.8 requests (fitted: no recorded kernel exceeds this) |
# | data stage | make 1 pass: one wavefront of shared memory, or up to four lines of a request to L1 |
#
# According to this table, a multiprocessor executes at most 4 multiply-adds in one cycle, each for the 32 threads of a
# warp. For one thread, a multiply-add is 2 operations. An H200 has 132 multiprocessors, and there are 1.98 billion
# cycles per second. So the **peak** of the GPU is 132 x 4 x 32 x 2 x 1.98 GHz = 66.9 TFLOP/s. (The datasheet says 67.) Below, a *multiply-add*
# always means one instruction of a whole warp, `FFMA`.
#
# A kernel does not only execute multiply-adds: it also needs passes of the data stage. Suppose that it needs two passes
# for each multiply-add. The data stage makes one pass per cycle, so the kernel completes at most half a multiply-add per
# cycle. The peak is four multiply-adds per cycle. So the data stage allows this kernel at most an eighth of the peak.
# We call this limit a **ceiling**. The load-store unit and the schedulers set ceilings, too. All ceilings follow from
# counts.

# %% tags=["hide-input"]
N = 512
rng = np.random.default_rng(0)
a, b = rng.random((2, N, N), dtype=np.float32)
UNITS = {"issue": "issue", "requests": "load-store unit", "data": "data stage"}


@cache
def profile(rung):
    return coalesce.profile("matmul", a, b, variant=rung, device="sim")


def costs(rung):
    """Instructions, requests, passes and sectors from L2, for each multiply-add of a warp."""
    p = profile(rung)
    work = p.modelled.work
    counts = {
        "instructions": work["instructions"],
        "requests": work["requests"],
        "passes": work["tag_lookups"] + work["shared_wavefronts"],
        "L2 sectors": p.metrics()["lts__t_sectors_srcunit_tex_op_read.sum"],
    }
    return {name: count / (N**3 / 32) for name, count in counts.items()}


def ceilings(rung):
    """The speed in TFLOP/s that each unit allows."""
    cycles = profile(rung).modelled.cycles
    return {name: PEAK * min(1, cycles["fp32"] / cycles[unit]) for unit, name in UNITS.items()}


def ceiling(rung):
    """The lowest ceiling, and its unit."""
    return min((speed, unit) for unit, speed in ceilings(rung).items())


def warps(rung):
    """How many warps are on a multiprocessor at once, of 64."""
    p = profile(rung)
    return p.modelled.blocks_per_multiprocessor * int(np.prod(p.block)) // 32


def compared(columns, caption):
    """A table of a dictionary for each rung: side by side, or many of them one below the other."""
    names = list(next(iter(columns.values())))
    if len(columns) > 4:
        rows = [[rung, *column.values()] for rung, column in columns.items()]
        return lessons.Table(["rung", *names], rows, caption)
    rows = [[name, *(column[name] for column in columns.values())] for name in names]
    return lessons.Table(["", *columns], rows, caption)


def counted(*rungs):
    """What rungs cost, their lowest ceiling, their recorded speed."""
    columns = {}
    for rung in rungs:
        speed, unit = ceiling(rung)
        columns[rung] = {
            **{name: f"{count:.3g}" for name, count in costs(rung).items()},
            "warps, of 64": str(warps(rung)),
            "ceiling": f"{speed:.1f}",
            "set by": unit,
            "recorded": f"{tflops(rung):.2f}",
            "of the ceiling": f"{tflops(rung) / speed:.0%}",
        }
    caption = (
        f"Per multiply-add of a warp, counted for products of {N} (L2: modelled). Speeds in TFLOP/s; "
        f"the peak is {PEAK:.1f}; recorded at 4096."
    )
    return compared(columns, caption)


# %% tags=["counts"]
lessons.predict(
    "two loads",
    "`coalesced` executes two loads for each multiply-add, one of `a` and one of `b`. What is its ceiling, in percent of the peak?",
    guess=...,
    measured=lambda: 100 * ceiling("coalesced")[0] / PEAK,
    unit="%",
    show=lambda: counted("naive", "coalesced", "tiled"),
)

# %% [markdown]
# ## What the GPU's counters say
#
# No kernel can be faster than its lowest ceiling. Does a kernel reach it? The GPU's counters answer this question. They
# say how busy the units were, and what a warp was doing on average. They were recorded with Nsight Compute, for products
# of two 4096 x 4096 matrices.

# %% tags=["hide-input"]
counters = recording.counters("matmul", 4096)
ACTIVITIES = {  # of a warp, with Nsight Compute's names
    "can issue": ("selected", "not_selected", "dispatch_stall", "math_pipe_throttle"),
    "full queue": ("lg_throttle", "mio_throttle"),
    "shared memory": ("short_scoreboard",),
    "L1, L2, DRAM": ("long_scoreboard",),
    "barrier": ("barrier",),
}


def waits(rung):
    """What a warp does, in percent of its time."""
    stalled = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    m = counters[rung]
    whole = m["smsp__average_warp_latency_per_inst_issued.ratio"]
    return {
        activity: 100 * sum(m[stalled.format(name)] for name in names) / whole
        for activity, names in ACTIVITIES.items()
    }


def busy(rung):
    """How busy the units are, in percent."""
    m = counters[rung]
    return {
        "issue": m["smsp__issue_active.avg.pct_of_peak_sustained_active"],
        "load-store unit": m["l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"] / 0.8,
        "data stage": m["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"],
    }


def on_the_gpu(*rungs):
    """How busy the units were, and what the warps did."""
    columns = {}
    for rung in rungs:
        columns[rung] = {f"{unit} busy": f"{x:.0f}" for unit, x in busy(rung).items()}
        columns[rung] |= {f"a warp: {what}": f"{x:.0f}" for what, x in waits(rung).items()}
    return compared(columns, f"Percent of the time at 4096, counters of an {recording.gpu}")


# %%
on_the_gpu("naive", "coalesced", "tiled")

# %% [markdown]
# The first three lines of the table say how busy the units were. A request takes 1.25 cycles of the load-store unit
# (lesson 2), so for this unit, 100 % means 0.8 requests per cycle. The lines that begin with "a warp" say what a warp
# was doing:
#
# - *Can issue*: the next instruction of the warp is ready. The warp waits only until a scheduler chooses it.
# - *Full queue*: the warp cannot start a load or store, because the queue of the load-store unit is full.
# - *Shared memory*: the warp waits for the result of a load from shared memory.
# - *L1, L2, DRAM*: the warp waits for the result of a load from global memory.
# - *Barrier*: the warp waits for other warps.
#
# The table leaves out branches and short fixed delays. It shows why each kernel is as fast as it is:
#
# - `naive`: the data stage is busy all the time (lesson 2). The requests must wait for it, so the queue of the load-store
#   unit is full. The warps wait for space in this queue.
# - `coalesced`: the load-store unit is busy for 94 % of the time.
# - `tiled`: the load-store unit and the data stage are both busy for about 90 % of the time. There are few global loads
#   now. But the loads of **shared memory** keep both units busy: for each multiply-add, these loads take 1.25 requests
#   and 1.5 wavefronts.
#
# ## Could we blame the memory? The roofline
#
# People often draw a **roofline** plot to find out whether memory limits a kernel. The horizontal axis of the plot is the
# number of operations that a kernel makes for each byte from DRAM. Our H200 computes 66.9 TFLOP/s and moves 4.8 TB/s,
# which is 14 operations per byte. This point of the axis is called the **ridge**. According to the plot, a kernel to
# the left of the ridge is limited by memory, and a kernel to the right of it by arithmetic.


# %%
def work_of(rung):
    m = counters[rung]
    moved = m["dram__bytes_read.sum"] + m["dram__bytes_write.sum"]
    return plots.Work(2 * 4096**3, moved, speeds[rung].kernel_ms, measured=True)


def intensity(rung):
    return work_of(rung).flops / work_of(rung).dram_bytes


FEW = ["naive", "coalesced", "tiled"]


def roof(*rungs):
    points = {rung: work_of(rung) for rung in rungs}
    return plots.roofline(points, peak_gflops=1000 * PEAK, peak_gbps=4800, theme="transparent")


SIDES = ["left: bound by memory", "right: bound by arithmetic"]

lessons.predict(
    "roofline",
    "On which side of the ridge is `naive`, which reaches 1 % of the peak?",
    choices=SIDES,
    guess=...,
    measured=lambda: intensity("naive") / (1000 * PEAK / 4800),
    show=lambda: [f"{r}: {intensity(r):.0f} operations per byte" for r in FEW] + [roof(*FEW)],
)

# %% [markdown]
# ## Rung 1: a thread computes 8 elements of a column
#
# `blocktiled_1d`: a thread computes 8 elements of the result and keeps their sums in registers. It reads one word of `b`
# and uses it 8 times. The elements that a thread computes are its **register tile**, here 8 x 1. In the code below, a
# plus marks the lines that `tiled` does not have.

# %%
lessons.code("matmul", "blocktiled_1d", since="tiled", part=("const int row = t", "sum[i] +="))


# %% tags=["hide-input"]
def shared_loads(*rungs):
    """The loads from shared memory."""
    columns = {}
    for rung in rungs:
        for x in profile(rung).accesses():
            if (x.space, x.kind) == ("shared", "load"):
                columns[f"{rung}, {x.array}"] = {
                    "bytes per lane": str(x.width),
                    "loads per multiply-add": f"{x.requests / (N**3 / 32):.3g}",
                    "wavefronts per load": f"{x.wavefronts / x.requests:g}",
                    "wavefronts needed": f"{x.ideal / x.requests:g}",
                }
    return compared(columns, "Loads from shared memory")


# %%
def words(rung):
    """Words of shared memory that a lane loads for each of its multiply-adds."""
    accesses = profile(rung).accesses()
    loaded = sum(x.bytes for x in accesses if (x.space, x.kind) == ("shared", "load"))
    return loaded / 4 / N**3


# %% tags=["counts"]
lessons.predict(
    "words of 8 x 1",
    "In `tiled`, a thread loads 2 words of shared memory for each multiply-add. How many in `blocktiled_1d`?",
    guess=...,
    measured=lambda: words("blocktiled_1d"),
    show=lambda: shared_loads("tiled", "blocktiled_1d"),
)

# %%
lessons.predict(
    "gain of 8 x 1",
    "How many times faster than `tiled` is `blocktiled_1d`, at 4096?",
    guess=...,
    measured=lambda: gain("blocktiled_1d", "tiled"),
    within=0.15,
    show=lambda: [counted("tiled", "blocktiled_1d"), on_the_gpu("tiled", "blocktiled_1d")],
)

# %% [markdown]
# ## What a block occupies
#
# Before the next rung, look at what a block needs. When a kernel starts, the GPU gives each multiprocessor as many blocks
# as fit. When a block ends, the next one takes its place. Blocks are started in any order, and a block never moves. So the
# same kernel runs on a small GPU and on a large one: the large one only holds more blocks at a time.
#
# How many blocks fit depends on four resources of a multiprocessor of an H200:
#
# | resource | there are | a block takes |
# |---|---|---|
# | registers | 65,536 | the registers of a thread, times its threads |
# | shared memory | 228 KiB | its shared arrays, and 1 KiB |
# | warps | 64 | its warps |
# | blocks | 32 | 1 |
#
# The share of the 64 warps that a multiprocessor holds is the **occupancy**. If a thread needs more registers than it may
# have, the compiler *spills* some of them to local memory, which is a part of DRAM. Then each use costs a load.
#
# The elements of a thread are kept in registers. The next kernel, `blocktiled_2d`, has 64 of them. Its threads take 100
# registers, and its blocks have 256 threads and 8 KiB of shared arrays.

# %%
LIMITS = ("registers", "shared_mem", "warps", "blocks")


def fitting(rung):
    """How many blocks of a rung fit, by each resource (recorded)."""
    return {name: counters[rung][f"launch__occupancy_limit_{name}"] for name in LIMITS}


def occupancy():
    return compared(
        {
            rung: {
                "registers of a thread": str(counters[rung]["launch__registers_per_thread"]),
                **{f"blocks by {name}": str(count) for name, count in fitting(rung).items()},
                "warps, of 64": str(warps(rung)),
            }
            for rung in ("tiled", "blocktiled_1d", "blocktiled_2d")
        },
        "How many blocks fit on a multiprocessor",
    )


lessons.predict(
    "warps of 8 x 8",
    "How many warps of `blocktiled_2d` does a multiprocessor hold?",
    guess=...,
    measured=lambda: min(fitting("blocktiled_2d").values()) * 256 / 32,
    show=occupancy,
)

# %% [markdown]
# ## Rung 2: 8 x 8 elements
#
# `blocktiled_2d`: a register tile has R x C elements. For each `k`, the thread needs R words of `a` and C words of `b`,
# and uses them for R x C multiply-adds. With 8 x 8 elements, these are 16 words for 64 multiply-adds: a quarter of a word
# per multiply-add. A thread now has 64 sums in registers, and a block computes 128 x 128 elements. The picture shows a
# corner of the block's tiles.


# %%
def one_step(rows, cols, k=3):
    """What a thread with rows x cols elements reads in one step of k, and what it adds to."""
    elements = [(i, j) for i in range(rows) for j in range(cols)]
    return [
        draw.Matrix("a_tile", (16, 8), [(i, k) for i in range(rows)], memory="shared"),
        draw.Matrix("b_tile", (8, 16), [(k, j) for j in range(cols)], memory="shared"),
        draw.Matrix("sum", (16, 16), elements, memory="shared", note="in registers"),
    ]


draw.matrices(
    {
        "tiled: 1 x 1": one_step(1, 1),
        "blocktiled_1d: 8 x 1": one_step(8, 1),
        "blocktiled_2d: 8 x 8": one_step(8, 8),
    },
    title="one thread, one step of k: the words that it reads, the elements that it adds to",
    headline="1 multiply-add with 2 words, 8 with 9, 64 with 16",
)

# %%
lessons.code(
    "matmul", "blocktiled_2d", since="blocktiled_1d", part=("const int row = t", "sum[i][j] +=")
)

# %%
lessons.predict(
    "gain of 8 x 8",
    "The words fall again, from 1.1 to 0.25 for each multiply-add. How many times faster than `blocktiled_1d` is `blocktiled_2d`?",
    guess=...,
    measured=lambda: gain("blocktiled_2d", "blocktiled_1d"),
    within=0.15,
    show=lambda: [
        counted("blocktiled_1d", "blocktiled_2d"),
        on_the_gpu("blocktiled_1d", "blocktiled_2d"),
    ],
)

# %% [markdown]
# ## Rung 3: 16 bytes per load
#
# `vectorized`: one load can read 16 bytes (four words) per lane, if these bytes are adjacent. In `blocktiled_2d`, the 8
# words of `b` that a thread needs for each `k` are adjacent in shared memory, so the compiler merged their loads into
# two. The 8 words of `a` are not adjacent, so they need 8 loads. They become adjacent if the tile of `a` is stored
# transposed, `a_tile[k][row]`. For each `k`, a thread then needs 2 + 2 loads, not 2 + 8.

# %%
lessons.code(
    "matmul", "vectorized", since="blocktiled_2d", part=("REAL sum[ROWS]", "a_values[i / WIDTH].v")
)


# %%
lessons.predict(
    "gain of vectors",
    "Multiply-adds and words stay the same. There are fewer, wider loads. How many times faster than `blocktiled_2d` is `vectorized`?",
    guess=...,
    measured=lambda: gain("vectorized", "blocktiled_2d"),
    within=0.15,
    show=lambda: [
        shared_loads("blocktiled_2d", "vectorized"),
        counted("blocktiled_2d", "vectorized"),
        on_the_gpu("blocktiled_2d", "vectorized"),
    ],
)

# %% [markdown]
# ## Rung 4: the lanes of a warp share a compact tile
#
# Each lane loads 16 bytes, so the 32 lanes of a warp load 512 bytes. This takes 4 wavefronts at best, because one
# wavefront has 128 bytes. In `vectorized`, the load of `b_tile` takes 8 wavefronts instead of 4:


# %%
def first_load(rung, array):
    """The first load of warp 0 from a tile, on the banks of shared memory."""
    ones = np.ones((128, 128), np.float32)
    trace = coalesce.trace(
        "matmul", ones, ones, variant=rung, device="sim", blocks=0, warps=0, limit=2000
    )
    events = trace.select(array=array, kind="load", space="shared")
    return draw.event(events, 0, title=f"{rung}: lanes 0 to 31 load 16 bytes each of {array}")


first_load("vectorized", "b_tile")

# %% [markdown]
# In `vectorized`, each lane has 8 neighbouring columns (32 bytes). A load takes only 16 of these bytes, and the load of
# the next lane begins 32 bytes later. `warptiled` changes only one thing: the positions of the elements that each
# thread computes. A warp computes 32 x 64 elements. They are divided into four quarters of 16 x 32 elements. In each
# quarter, a thread computes 4 x 4 elements, and its neighbour computes the next 4 columns. So neighbouring lanes load
# neighbouring pieces of 16 bytes.

# %%
lessons.code(
    "matmul",
    "warptiled",
    since="vectorized",
    part=("__device__ int row_of", "const int col = warp"),
)


# %% tags=["hide-input"]
def elements(lane):
    """The elements of the warp's tile that a lane computes."""
    states = np.full((32, 64), "", object)
    rows = lane // 8 * 4 + np.array([0, 1, 2, 3, 16, 17, 18, 19])
    cols = lane % 8 * 4 + np.array([0, 1, 2, 3, 32, 33, 34, 35])
    states[np.ix_(rows, cols)] = "used"
    return draw.board(
        [draw.Grid("the 32 x 64 elements of a warp", states)],
        {"used": f"computed by lane {lane}"},
        headline=f"lane {lane}: 4 x 4 elements in each quarter",
    )


draw.player({f"lane {lane}": elements(lane) for lane in (0, 1, 2, 7, 8, 31)})

# %% tags=["counts"]
lessons.predict(
    "wavefronts of a warp tile",
    "How many wavefronts does a load of `b_tile` take in `warptiled`?",
    guess=...,
    measured=lambda: {
        x.array: x.wavefronts / x.requests
        for x in profile("warptiled").accesses()
        if (x.space, x.kind) == ("shared", "load")
    }["b_tile"],
    show=lambda: [
        first_load("warptiled", "b_tile"),
        shared_loads("vectorized", "warptiled"),
        counted("vectorized", "warptiled"),
    ],
)

# %%
print(f"warptiled is {gain('warptiled', 'vectorized'):.2f} times as fast as vectorized")
on_the_gpu("vectorized", "warptiled")

# %% [markdown]
# The loads of `warptiled` take 40 % fewer wavefronts than those of `vectorized`, but it is only 6 % faster. The reason: in `vectorized`, the
# data stage was busy for only 60 % of the time. So the data stage did not limit the speed of `vectorized`.
#
# What do the warps of `warptiled` wait for? Mostly for `L1, L2, DRAM`. In each iteration, all warps of a block load the
# next tiles, wait for the values, store them, and wait at a barrier. Meanwhile none of them multiplies.
#
# ## Rung 5: copies that start early
#
# `pipelined`: shared memory holds four **stages**, each with a tile of `a` and a tile of `b`. `cp.async` copies from
# global to shared memory. Such a copy needs no registers, and the thread does not wait for it. While the block
# multiplies the tiles of one stage, copies fill the other three. A thread reads from shared memory in the same way:
# while it multiplies the words of iteration `k`, it already reads the words of iteration `k + 1`.

# %%
lessons.code(
    "matmul",
    "pipelined",
    since="warptiled",
    part=("for (int s = 0; s < STAGES - 1", "stage = (stage + 1)"),
)


# %% tags=["hide-input"]
def stages(now):
    """What the four stages hold while the block multiplies tile `now`."""
    states = np.full((4, 8), "", object)
    for tile in range(8):
        if tile <= now + 3:
            states[tile % 4, tile] = "held" if tile < now else "used" if tile == now else "new"
    return draw.board(
        [draw.Grid("a row is a stage, a column is a pair of tiles", states)],
        {"used": "multiplied now", "new": "copy on its way", "held": "done: the stage is free"},
        headline=f"The block multiplies tile {now}. Copies for three more tiles have begun",
    )


draw.player({f"tile {tile}": stages(tile) for tile in range(5)})

# %%
lessons.predict(
    "gain of a pipeline",
    "`cp.async` transposes the tile of `a` one element at a time, which costs 10 % more instructions, and the ceiling falls. How many times faster than `warptiled` is `pipelined`?",
    guess=...,
    measured=lambda: gain("pipelined", "warptiled"),
    within=0.15,
    show=lambda: [counted("warptiled", "pipelined"), on_the_gpu("warptiled", "pipelined")],
)

# %% [markdown]
# ## The ladder

# %%
ax = plots.bars(
    {rung: tflops(rung) for rung in RUNGS},
    label=f"TFLOP/s at 4096, {recording.gpu} (the peak is {PEAK:.1f})",
    format="{:.1f}",
    theme="transparent",
)

# %%
on_the_gpu(*RUNGS)

# %%
counted(*RUNGS)

# %% [markdown]
# Read the tables from top to bottom. In the first kernels, the data stage and the load-store unit are busy all the time.
# In the next kernels, no unit is busy all the time: the warps wait for shared memory, and then for global memory. In the
# last kernels, the schedulers are busy. To make such a kernel faster, we must remove instructions that are not
# multiply-adds.
#
# What does the roofline plot below say? Even the first kernels lie to the right of the ridge, so DRAM is not their limit.
# Larger tiles move a kernel further to the right. According to the plot, arithmetic limits all these kernels, so larger
# tiles cannot make them faster. Yet `pipelined` is 73 times as fast as `naive`:

# %%
ax = roof(*RUNGS)

# %% [markdown]
# ## How good is the time model?
#
# The simulator does not measure the time of a GPU; it estimates the time with a model. For products of 512 x 512 matrices
# we have both: the estimate, and a time recorded on a GPU. So we can test the model:

# %% tags=["hide-input"]
at_512 = recording.counters("matmul", 512)


def modelled():
    columns = {}
    for rung in RUNGS:
        p = profile(rung)
        us = 1000 * p.modelled_ms
        cold, warm = (at_512[rung][run + "gpu__time_duration.sum"] / 1000 for run in ("", "warm "))
        columns[rung] = {
            "blocks": f"{np.prod(p.grid)}",
            "us, modelled": f"{us:.0f}",
            "us, recorded": f"{cold:.0f}",
            "error": f"{us / cold - 1:+.0%}",
            "us, recorded warm": f"{warm:.0f}",
            "bound, modelled": p.modelled.bound,
        }
    return compared(columns, "Products of 512. Warm: the kernel has just run before.")


# %%
lessons.predict(
    "small product",
    "At 4096, `blocktiled_2d` is 1.8 times as fast as `tiled`. And at 512? Give its speed relative to `tiled`.",
    guess=...,
    measured=lambda: (
        at_512["tiled"]["gpu__time_duration.sum"]
        / at_512["blocktiled_2d"]["gpu__time_duration.sum"]
    ),
    within=0.3,
    show=modelled,
)

# %% [markdown]
# The model puts the kernels in the right order. But for the kernels with register tiles, the modelled times are too short
# by up to a quarter. One reason: a first run also fetches the instructions, which the model leaves out. A second run is
# faster by 15 to 24 % for four of these kernels, but not for `pipelined`. So take these microseconds as a rough figure.
# The counts are exact.

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("register_tile")

# %% tags=["exercise"]
lessons.exercise("turned_tile")

# %% [markdown]
# **To remember**
# - Count what one multiply-add costs: instructions, requests, wavefronts. Each unit of a multiprocessor sets a ceiling.
# - With register tiles, a kernel reads fewer words from shared memory. Wide loads save requests. Compact warp tiles save
#   wavefronts. If copies start early, warps wait less.
# - Reducing the work of a unit helps little if this unit does not limit the speed. Look at what the warps wait for, and
#   then choose the next idea.
# - The fastest of these kernels has few warps, and each of them has much work. So do not aim at high occupancy for its own
#   sake.

# %%
lessons.score()
