# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 7. From 1 % to past cuBLAS
#
# **The question.** The tiled kernel of lesson 3 reaches a sixth of the speed of cuBLAS, NVIDIA's library. What does the
# library do that we do not? In this lesson, seven more kernels lead step by step to a kernel that is faster than cuBLAS.
# We call the kernels the *rungs* of a ladder. Each rung brings one new idea. For each idea, predict how much it gains,
# count what it costs, and compare with the measured times.
#
# **Time:** 100 minutes. **You need:** lessons [3](03_tiles_and_corner_turning.ipynb) and [5](05_row_and_column_sums.ipynb).
# You do not need a GPU, because the lesson shows times that were recorded on a GPU. The [glossary](glossary.md)
# explains the terms.

# %% tags=["install", "remove-cell"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("coalesce") is None:  # install it from this checkout
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "..[notebooks]"], check=True)

# %%
import json
from functools import cache
from pathlib import Path

import numpy as np

import coalesce
from coalesce import draw, lessons, plots

# %matplotlib inline

ladder = json.loads(Path("../docs/measured/ladder.json").read_text(encoding="utf-8"))


def shape_of(benchmark):
    """M, N and K of a recorded product."""
    a, b = (array["shape"] for array in benchmark["arrays"])
    return a[0], b[1], a[1]


def rungs_of(benchmark):
    """The times and the errors that `coalesce.benchmark` recorded."""
    return {
        row["variant"]: {
            "ms": row["timing"]["kernel_ms"],
            "tflops": row["timing"]["gflops"] / 1000,
            "norm": row["norm_error"],
        }
        for row in benchmark["rows"]
    }


by_shape = {shape_of(recorded): rungs_of(recorded) for recorded in ladder["shapes"]}
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
        for rung in ("naive", "coalesced", "tiled", "cublas")
    ],
    f"{ladder['gpu']['name']}, recorded {ladder['date']}: products of 4096 x 4096 float32",
)

# %% [markdown]
# `python benchmarks/ladder.py` recorded the times. The kernels and cuBLAS took turns, so that all of them had the same
# clock rate. Every result was compared with a product in float64. cuBLAS computed in float32, without TF32 (a format with
# fewer bits).
#
# You know the kernels `naive`, `coalesced` and `tiled`. These are their loops:

# %%
lessons.code("matmul", "naive", part=("const int row", "sum +="))

# %%
lessons.code("matmul", "coalesced", since="naive", part=("const int row", "sum +="))

# %%
lessons.code("matmul", "tiled", part=("for (int k0", "sum +="))

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
# cycles per second. So the **peak** of the GPU is 132 x 4 x 32 x 2 x 1.98 GHz = 66.9 TFLOP/s. Below, a *multiply-add*
# always means one instruction of a whole warp, `FFMA`.
#
# A kernel does not only execute multiply-adds: it also needs passes of the data stage. Suppose that it needs two passes
# for each multiply-add. The data stage makes one pass per cycle, so the kernel completes at most half a multiply-add per
# cycle. The peak is four multiply-adds per cycle. So the data stage allows this kernel at most an eighth of the peak.
# We call this limit a **ceiling**. The load-store unit and the schedulers set ceilings, too. All ceilings follow from
# counts.

# %% tags=["hide-input"]
PEAK = 132 * 4 * 32 * 2 * 1.98 / 1000  # TFLOP/s
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
# of two 4096 x 4096 matrices (`tests/data/models_h200.json`).

# %% tags=["hide-input"]
recorded = json.loads(Path("../tests/data/models_h200.json").read_text(encoding="utf-8"))


def recorded_at(n):
    """The counters of each rung for float32 products of n."""
    return {
        entry["kernel"]: dict(zip(recorded["metrics"], entry["values"], strict=True))
        for entry in recorded["launches"]
        if entry["case"] == f"matmul/{entry['kernel']} {n}x{n}x{n} float32"
    }


counters = recorded_at(4096)
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
    caption = f"Percent of the time at 4096, counters of an {recorded['gpu']}, recorded {recorded['date']}"
    return compared(columns, caption)


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
# number of operations that a kernel makes for each byte from DRAM. An H200 computes 66.9 TFLOP/s and moves 4.8 TB/s,
# which is 14 operations per byte. This point of the axis is called the **ridge**. According to the plot, a kernel to
# the left of the ridge is limited by memory, and a kernel to the right of it by arithmetic.


# %%
def work_of(rung):
    m = counters[rung]
    moved = m["dram__bytes_read.sum"] + m["dram__bytes_write.sum"]
    return plots.Work(2 * 4096**3, moved, speeds[rung]["ms"], measured=True)


def intensity(rung):
    return work_of(rung).flops / work_of(rung).dram_bytes


FEW = ["naive", "coalesced", "tiled"]


def roof(*rungs):
    points = {rung: work_of(rung) for rung in rungs}
    return plots.roofline(points, peak_gflops=1000 * PEAK, peak_gbps=4800, theme="transparent")


SIDES = ["left: bound by memory", "right: bound by arithmetic"]

lessons.predict(
    "roofline",
    "On which side of the ridge is `naive`, which reaches 1 % of the speed of cuBLAS?",
    choices=SIDES,
    guess=...,
    measured=lambda: SIDES[intensity("naive") > 1000 * PEAK / 4800],
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
    "The words fall again, from 1.125 to 0.25 for each multiply-add. How many times faster than `blocktiled_1d` is `blocktiled_2d`?",
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
# `warptiled` needs 40 % fewer wavefronts than `vectorized`, but it is only 6 % faster. The reason: in `vectorized`, the
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
    measured=lambda: profile("tma").block[0] // 32 * (228 * 1024 // profile("tma").shared_bytes),
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
sys.path.append("../benchmarks")
import cost_model


@cache
def main_loop(rung):
    listing = cost_model.compiled(coalesce.source("matmul", rung), arch="sm_90a")
    return cost_model.loop_cost(cost_model.main_loop(listing))


def loops(*rungs):
    columns = {}
    for rung in rungs:
        loop = main_loop(rung)
        columns[rung] = {
            "multiply-adds": str(loop.ffmas),
            "instructions": str(loop.instructions),
            "per multiply-add": f"{loop.instructions / loop.ffmas:.3f}",
            "cycles of a scheduler": str(loop.cycles),
            "ceiling, TFLOP/s": f"{PEAK * loop.efficiency:.1f}",
            "recorded, TFLOP/s": f"{tflops(rung):.2f}",
        }
    return compared(columns, f"Main loops, machine code of {cost_model.compiler()}")


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
RUNGS = ["naive", "coalesced", "tiled"]
RUNGS += ["blocktiled_1d", "blocktiled_2d", "vectorized", "warptiled", "pipelined"]
bars = {rung: tflops(rung) for rung in [*RUNGS, "tma", "tensor_map"]}
ax = plots.bars(
    bars | {"cuBLAS": tflops("cublas")},
    label=f"TFLOP/s at 4096, {ladder['gpu']['name']} (the peak is {PEAK:.1f})",
    highlight=["cuBLAS"],
    format="{:.1f}",
    theme="transparent",
)
line = ax.axvline(tflops("cublas"), linestyle=":", color="#d55e00")

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
at_512 = recorded_at(512)


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
# by up to a quarter. One reason: each recorded time is the time of a first run. A first run has costs that the model does
# not include, such as the fetch of instructions. When four of these kernels run again on the GPU, they are faster by 15
# to 24 %. (Empty caches are not the reason, because the model starts with empty caches, too.)
#
# The modelled time of `pipelined` is also much shorter than the recorded time of a repeated run. We do not know why. So
# for the kernels with register tiles, take the microseconds as a rough figure. The counts of these kernels are exact.
#
# ## Small products: `split_k` and `best`
#
# Large tiles are efficient. But a small product has only few large tiles, so most multiprocessors have no work. Therefore
# `split_k` takes smaller tiles, and several groups of warps can share the work on one tile. Each group adds up the
# products for a part of the values of `k`. At the end, the groups add up their sums. The groups belong to one block, or to
# two blocks, which form a [*cluster*](glossary.md#cluster): these blocks can read each other's shared memory.
#
# `split_k` also cuts the values of `k` into slices, if K is large and the result is small. An example is 64 x 64 x 8192
# (M x N x K). Each slice has its own blocks. A second kernel adds up the results of the slices.

# %%
lessons.code("matmul", "split_k", part=("// Writes the tile to", "v[j] +="))

# %% [markdown]
# Which tile is best, and into how many parts should `k` be divided? `variant="best"` predicts the time of each possibility
# from your shape, and takes the one with the shortest time. Is `best` always faster than cuBLAS?


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
# For 16384 x 128 x 2048, `split_k` is faster than cuBLAS by 3 %. But repeated measurements of one kernel differ by up
# to 2 %. An earlier version of `split_k` was slower than cuBLAS for this shape.
#
# For 8192 x 512 x 4096, `tensor_map` is faster than cuBLAS. An earlier version of `tensor_map` was slower, because it
# packed `a` first, as `tma` does. Packing reads and writes `a` once, so its time depends only on `M` and `K`. If `N` is
# small (the result has few columns), there is little to multiply, and packing takes a large share of the whole time.
# [The ladder, measured](../docs/ladder.md) says what limits the rungs, and which change to try next.
#
# ## Past the float32 pipes: tensor cores
#
# `tensor_map` reaches 85 % of the peak, and no kernel that multiplies in the float32 pipes can exceed the peak. But a
# multiprocessor has another unit, the **tensor core**. One instruction of this unit multiplies small matrices. Here is a
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
# 16 x 256. The tensor cores read these values from shared memory. (The simulator executes `wgmma`, and also
# `mma` and `wmma`, which one warp executes.) This is the inner loop of `bf16`:

# %%
lessons.code("matmul", "bf16", part=("multiply_begin();", "multiply_wait<1>();"))

# %% [markdown]
# In `tf32`, the tensor cores cannot read B from shared memory. For TF32, `wgmma` requires that values with successive
# `k` are adjacent in shared memory. But B is stored by rows, so these values are in different rows. `wgmma` can also
# take values from registers. So the threads read B into registers (`read_b`) while the tensor cores multiply:

# %%
lessons.code("matmul", "tf32", part=("multiply_begin();", "multiply_wait();"))

# %% [markdown]
# In `dmma`, all operands are in registers. With one instruction, a warp multiplies a matrix of 16 x 8 values by a
# matrix of 8 x 8. In the same loop, the warp reads the values for the next instructions:

# %%
lessons.code("matmul", "dmma", part=("for (int n = 0; n < STAGE / DEPTH", "__syncwarp"))

# %% [markdown]
# The results of `bf16` and `tf32` are less precise: bfloat16 has 8 significant bits, TF32 has 11, float32 has 24.
# `tf32x3` regains most of the precision. It writes each float32 as a sum of two TF32 values, a large one and a small
# one. A product of two such sums has four parts. `tf32x3` leaves out the product of the two small values, and computes
# the other three:

# %%
lessons.code("matmul", "tf32x3", part=("multiply_begin();", "multiply_wait();"))


# %% tags=["hide-input"]
tensor = {}
for recorded in ladder["tensor_cores"]:
    (rung, own), (library, theirs) = rungs_of(recorded).items()
    of = "tf32" if library == "cublas_tf32" else recorded["arrays"][0]["dtype"]
    out = recorded["options"].get("out")
    rung += f", {out} result" if out else ""
    of += " result" if out else ""
    tensor[rung, shape_of(recorded)[0]] = {rung: own, f"cublas {of}": theirs}


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
            print(f"{rung} at {size}: {ratio:.2f} of {name.replace('cublas', 'cuBLAS')}")

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
    f"{ladder['gpu']['name']}, driver {ladder['gpu']['driver_version']}, NVRTC {ladder['nvrtc']}, cuBLAS {cublas}, {ladder['date']}"
)

# %% [markdown]
# If you have a GPU, measure yourself:
#
# ```sh
# coalesce bench matmul --variants tiled,pipelined,best,cublas --size 4096
# ```
#
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
# ### Exercise 7.1

# %%
lessons.exercise("register_tile")

# %%
# %%cuda
# __global__ void register_tile(const float* a, const float* b, float* out, int n) {
#     __shared__ float a_tile[64][17], b_tile[16][64];  // 16 steps of k; a word of padding
#     int t = threadIdx.x;
#     int block_row = blockIdx.y * 64, block_col = blockIdx.x * 64;
#     int row = t / 64 * 16, col = t % 64;  // the thread's first element in the block's 64 x 64
#     float sum[16] = {};
#     for (int k0 = 0; k0 < n; k0 += 16) {
#         for (int i = t; i < 64 * 16; i += 256) {
#             int r = block_row + i / 16, s = block_col + i % 64;
#             int ka = k0 + i % 16, kb = k0 + i / 64;
#             a_tile[i / 16][i % 16] = r < n && ka < n ? a[r * n + ka] : 0;
#             b_tile[i / 64][i % 64] = s < n && kb < n ? b[kb * n + s] : 0;
#         }
#         __syncthreads();
#         for (int k = 0; k < 16; ++k) {
#             for (int i = 0; i < 16; ++i) sum[i] += a_tile[row + i][k] * b_tile[k][col];
#         }
#         __syncthreads();
#     }
#     for (int i = 0; i < 16; ++i) {
#         int r = block_row + row + i, s = block_col + col;
#         if (r < n && s < n) out[r * n + s] = sum[i];
#     }
# }

# %% tags=["counts"]
print(lessons.exercise("register_tile").check(register_tile))

# %% [markdown]
# ### Exercise 7.2

# %%
lessons.exercise("turned_tile")

# %%
# %%cuda
# __global__ void turned_tile(const float* a, const float* b, float* out, int n) {
#     __shared__ float a_tile[16][64], b_tile[16][64];  // 16 steps of k
#     int t = threadIdx.x;
#     int block_row = blockIdx.y * 64, block_col = blockIdx.x * 64;
#     int row = t / 16 * 4, col = t % 16 * 4;  // the thread's first element in the block's 64 x 64
#     float sum[4][4] = {};
#     for (int k0 = 0; k0 < n; k0 += 16) {
#         for (int i = t; i < 64 * 16; i += 256) {
#             int r = block_row + i / 16, s = block_col + i % 64;
#             int ka = k0 + i % 16, kb = k0 + i / 64;
#             a_tile[i % 16][i / 16] = r < n && ka < n ? a[r * n + ka] : 0;
#             b_tile[i / 64][i % 64] = s < n && kb < n ? b[kb * n + s] : 0;
#         }
#         __syncthreads();
#         for (int k = 0; k < 16; ++k) {
#             float a_values[4], b_values[4];
#             for (int i = 0; i < 4; ++i) a_values[i] = a_tile[k][row + i];
#             for (int j = 0; j < 4; ++j) b_values[j] = b_tile[k][col + j];
#             for (int i = 0; i < 4; ++i) {
#                 for (int j = 0; j < 4; ++j) sum[i][j] += a_values[i] * b_values[j];
#             }
#         }
#         __syncthreads();
#     }
#     for (int i = 0; i < 4; ++i) {
#         for (int j = 0; j < 4; ++j) {
#             int r = block_row + row + i, s = block_col + col + j;
#             if (r < n && s < n) out[r * n + s] = sum[i][j];
#         }
#     }
# }

# %% tags=["counts"]
print(lessons.exercise("turned_tile").check(turned_tile))

# %% [markdown]
# **To remember**
# - Count what one multiply-add costs: instructions, requests, wavefronts. Each unit of a multiprocessor sets a ceiling.
# - With register tiles, a kernel reads fewer words from shared memory. Wide loads save requests. Compact warp tiles save
#   wavefronts. If copies start early, warps wait less.
# - Reducing the work of a unit helps little if this unit does not limit the speed. Look at what the warps wait for, and
#   then choose the next idea.
# - The fastest float32 kernel has few warps, and each of them has much work. So do not aim at high occupancy for its own
#   sake.

# %%
lessons.score()
