# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 1. One warp, one load
#
# **The question.** A warp executes one load: one instruction, with an address for each of the 32 lanes. What does the
# memory system do with such a load? And what does the load cost if the addresses are not side by side?
#
# **Time:** 60 minutes. **You need:** [lesson 0](00_threads_blocks_warps.ipynb). You do not need a GPU. The [glossary](glossary.md)
# explains the terms.

# %%
import numpy as np

import coalesce
from coalesce import draw, lessons

# %load_ext coalesce

# %% [markdown]
# ## The units
#
# | word | what it is |
# |---|---|
# | request | one load or store instruction of one warp |
# | sector | 32 bytes, the smallest piece that the caches move |
# | line | 128 bytes, four sectors: what the L1 cache looks up |
#
# Blocks run on the **multiprocessors** of a GPU (an H200 has 132). Each multiprocessor has a cache, **L1**. All
# multiprocessors share a larger cache, **L2**. Behind L2 is the memory itself, **DRAM**. The 32 addresses of a request
# first arrive at L1.
#
# This lesson counts the **distinct sectors** that the active lanes of a request touch. This number says how much data a
# request wants from the caches and from DRAM. (A lane is active if it has a thread that executes the instruction.) A
# request is **coalesced** if its lanes access neighbouring elements, so that hardly any byte of its sectors is
# left over. (Lesson 2 adds a second cost, inside L1.)
#
# The simulator counts sectors from the addresses that the compiled kernel computes. Hardware counters give the same numbers.
#
# ## Side by side
#
# This lesson uses small kernels, the variants of `coalesce.access`. In each kernel, a thread loads one element and
# stores it. The kernels differ in the index of the element that is loaded. In the variant `stride` below,
# thread `i` loads the element `x[i * stride]`. `ELEMENT` is a macro for the type of an element:

# %%
lessons.code("access", "stride")

# %% [markdown]
# `coalesce.profile` runs such a kernel and returns the counts. The cell below runs the variant `vector`, which loads
# elements of three sizes: a `float` (4 bytes), a `double` (8 bytes) and a `float4` (16 bytes). The type `float4` is a
# struct of four floats. A thread loads it with one instruction. On an H200, no instruction loads more than 16 bytes per
# lane.

# %%
x = np.arange(1 << 14, dtype=np.float32)


def load(**pattern):
    """Sectors per load request of an access kernel."""
    return coalesce.profile("access", x, device="sim", **pattern).sectors_per_request["load"]


def widths():
    for width in (4, 8, 16):
        sectors = load(pattern="vector", width=width)
        print(
            f"{width:2} bytes per lane: {sectors:4.1f} sectors per request, {32 * width} bytes wanted"
        )
    return [
        draw.warp_access(range(0, 32 * 4, 4), 4, title="float: x[i]"),
        draw.warp_access(range(0, 32 * 8, 8), 8, title="double: x[i]"),
        draw.warp_access(range(0, 32 * 16, 16), 16, title="float4: x[i]"),
    ]


# %% tags=["counts"]
lessons.predict(
    "contiguous floats",
    "32 lanes load 32 neighbouring floats of 4 bytes, `x[i]`. How many sectors per request?",
    guess=...,
    measured=lambda: load(pattern="vector", width=4),
    show=widths,
)

# %% [markdown]
# A tutorial claims that the GPU moves 32 bytes for each lane. If this were true, a lane that loads 4 or 8 bytes would
# waste the rest. Elements of 32 bytes would be ideal. Here is a kernel that loads elements of 32 bytes:

# %%
wide = coalesce.Kernel(
    """
struct alignas(16) Wide { float4 low, high; };  // 32 bytes
extern "C" __global__ void whole(const Wide *x, Wide *out) { out[threadIdx.x] = x[threadIdx.x]; }
""",
    "whole",
)


def uses():
    t = np.arange(32)
    print("4 bytes per lane: ", coalesce.transactions(4 * t, 4))
    print("8 bytes per lane: ", coalesce.transactions(8 * t, 8))
    p = wide.profile(1, 32, np.zeros((32, 8), np.float32), np.zeros((32, 8), np.float32))
    for row in p.accesses():
        print(
            f"32 bytes per lane, {row.kind}: {row.requests} requests of "
            f"{row.sectors / row.requests:.0f} sectors, {row.efficiency:.0%} of them used by each"
        )
    return {row.kind: row for row in p.accesses()}["load"].efficiency


# %% tags=["counts"]
lessons.predict(
    "wide elements",
    "32 lanes load one element of 32 bytes each. Which share of the bytes of its sectors does one load request use?",
    guess=...,
    measured=lambda: 100 * uses(),
    unit="%",
)

# %% [markdown]
# ## Reverse order, and one lane far away

# %% tags=["counts"]
lessons.predict(
    "reversed",
    "The same 32 floats in reverse order: lane 0 loads the last one. How many sectors?",
    guess=...,
    measured=lambda: load(pattern="permuted"),
    show=lambda: draw.warp_access(range(31 * 4, -4, -4), 4, title="x[31 - lane]"),
)

# %% tags=["counts"]
lessons.predict(
    "far lane",
    "31 lanes side by side, and lane 31 far away. How many sectors?",
    guess=...,
    measured=lambda: load(pattern="far_lane"),
    show=lambda: draw.warp_access([*range(0, 31 * 4, 4), 4096], 4, title="lane 31 at x[1024]"),
)

# %% [markdown]
# ## Misalignment


# %%
def offsets():
    for offset in (0, 1, 4, 7, 8, 16):
        print(f"offset {offset:2}: {load(pattern='offset', offset=offset):.1f} sectors per request")
    return draw.warp_access(range(4, 33 * 4, 4), 4, title="x[i + 1]")


# %% tags=["counts"]
lessons.predict(
    "offset 1",
    "All lanes side by side, but starting 4 bytes late: `x[i + 1]`. How many sectors per request?",
    guess=...,
    measured=lambda: load(pattern="offset", offset=1),
    show=offsets,
)


# %%
def behind_l1():
    """Print where the sectors come from (modelled). Return how many times more come from L2 with an offset of 1."""
    reads = {}
    for offset in (0, 1):
        p = coalesce.profile("access", x, pattern="offset", offset=offset, device="sim")
        c = p.modelled.caches
        reads[offset] = c["l2_reads"] + c["l2_merged"]
        print(
            f"offset {offset}: {p.metrics()['l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum']:5} sectors touched by the loads; "
            f"modelled: {c['l1_load_hits']:3} found in L1, {reads[offset]:5} from L2"
        )
    return reads[1] / reads[0]  # without merging


lessons.predict(
    "offset behind L1",
    "64 blocks of 256 threads load `x[i + 1]`. The loads touch 25 % more sectors than `x[i]`. "
    "How much does the traffic from L2 to L1 grow (modelled)?",
    choices=["by 25 %", "by about 10 %", "by less than 4 %"],
    guess=...,
    measured=behind_l1,
)

# %% [markdown]
# ## Strides


# %%
def strides():
    for stride in (1, 2, 3, 4, 8, 16, 32):
        print(
            f"stride {stride:2}: {load(pattern='stride', stride=stride):4.1f} sectors per request"
        )
    lanes = np.arange(32)
    frames = {f"x[{s} * i]": memory(lanes * s) for s in (1, 2, 3, 4, 8, 16, 32)}
    frames["x[i + 1]"] = memory(lanes + 1)
    frames["float4 x[i]"] = memory(np.arange(128))
    return draw.player(frames)


def memory(words):
    """A picture of the memory around x: the words that the lanes load, and the rest of their sectors."""
    states = np.full(1024, "", object)
    states[(words // 8 * 8)[:, None] + np.arange(8)] = "beside"
    states[words] = "used"
    sectors = len(np.unique(words // 8))
    return draw.board(
        [draw.Grid("memory: each row is a line of 32 words", states.reshape(32, 32))],
        {"used": "loaded by a lane", "beside": "in a touched sector, but not loaded"},
        headline=f"{sectors} sectors, {100 * len(words) / sectors / 8:.3g} % of their bytes used",
    )


# %% tags=["counts"]
lessons.predict(
    "stride 2",
    "The lanes are 2 floats apart: `x[2 * i]`. How many sectors per request?",
    guess=...,
    measured=lambda: load(pattern="stride", stride=2),
)

# %% tags=["counts"]
lessons.predict(
    "worst stride",
    "With larger strides, a request touches more sectors. From which stride on does this number stop growing?",
    guess=...,
    measured=lambda: max(range(1, 33), key=lambda s: (load(pattern="stride", stride=s), -s)),
    show=strides,
)

# %% [markdown]
# ## Who decides? The same machine code, coalesced or not
#
# Does the compiler decide whether a load is coalesced? The kernel below gets its stride as an argument, so the compiler
# does not know the stride. Compare the machine code that the kernel executes with two strides:

# %% tags=["counts"]
text = """
extern "C" __global__ void pick(const float *x, float *out, int stride) {
    out[threadIdx.x] = x[threadIdx.x * stride];
}
"""
pick = coalesce.Kernel(text, "pick")
programs = set()
for stride in (1, 32):
    p = pick.profile(1, 32, x, np.zeros(32, np.float32), stride)
    programs.add(tuple((i.opcode, i.executed) for i in p.instructions()))
    print(f"stride {stride:2}: {p.sectors_per_request['load']:2.0f} sectors per request")
print("different programs:", len(programs))

# %% [markdown]
# The kernel executes the same machine code for both strides. So the compiler does not decide. The hardware decides:
# when a request arrives, the hardware finds the distinct sectors of the 32 addresses.
#
# ## The clock
#
# The upper plot below shows the sectors per request. The lower plot shows the bandwidth, measured on a GPU. If this
# machine has no GPU, the bandwidth was recorded on the GPU of another machine. The legend names this GPU. The bandwidth
# counts only the bytes that the lanes *ask for*: 4 bytes per lane for the load, and 4 for the store.

# %%
data = lessons.sweep("stride", range(1, 33))
axes = coalesce.plots.sweep(data, theme="transparent")

# %% [markdown]
# **Why only about 2,700 GB/s at stride 1?** According to its datasheet, the memory of an H200 delivers 4,800 GB/s. At stride
# 1 every loaded byte is used, and yet the memory is not busy all the time. According to our time model, the limit is
# the **latency** of the memory: the time until the data of a load arrive.
#
# Each thread makes one load of 4 bytes and ends. So at any moment, only a few bytes are on their way from the memory to
# the GPU. These are too few to keep the memory busy. If this explanation is right, wider loads must help: a request
# with 16 bytes per lane brings 4 times as many bytes as a request with 4 bytes per lane.

# %%
large = np.zeros(1 << 24, np.float32)
recorded = lessons.sweep("vector", (1, 2, 4, 8, 16))
for width in (4, 16):
    p = coalesce.profile("access", large, pattern="vector", width=width, device="sim")
    gbps = 2 * large.nbytes / p.modelled_ms / 1e6
    note = ""
    if recorded.gbps is not None:
        note = f", {recorded.gbps[recorded.values.tolist().index(width)]:,.0f} GB/s measured"
    print(f"{width:2} bytes per lane: {gbps:5,.0f} GB/s modelled{note}; {p.modelled.why}")
    c = p.modelled.cycles
    print(f"{'':19}latency {c['latency']:,.0f} cycles, L2 {c['l2']:,.0f}, DRAM {c['dram']:,.0f}")
print(f"loaded and stored: {2 * large.nbytes / 1e6:.0f} MB")
if recorded.gbps is not None:
    rates = dict(zip(recorded.values.tolist(), recorded.gbps, strict=True))
    print(f"measured: 16 bytes per lane are {rates[16] / rates[4]:.2f} times as fast as 4 bytes")

# %% [markdown]
# Wider loads did help, and the limit is no longer latency. According to the model, **L2** is the next limit: all bytes
# that are loaded and stored pass through it. (The model is not precise here. The measured bandwidth is higher.)
#
# ## What the memory behind the caches moves
#
# From stride 8 to stride 16 the number of sectors stays the same, but the bandwidth falls to half. So far we counted the
# bytes that the lanes ask for. Now count the bytes that the memory must move to deliver them. Let us first assume that
# the memory moves single sectors:


# %%
def moved(piece):
    """Print the bandwidth if memory moves pieces of this many bytes."""
    print(f"in pieces of {piece} bytes:")
    for stride in (1, 2, 4, 8, 16, 32):
        asked = data.gbps[stride - 1]
        pieces = len(np.unique(np.arange(32) * 4 * stride // piece))
        whole = asked * (pieces * piece + 128) / 256  # 128 bytes are stored
        print(f"    stride {stride:2}: asked for {asked:5,.0f} GB/s, moved {whole:5,.0f} GB/s")


if data.gbps is not None:
    moved(32)

# %% [markdown]
# Suppose that the memory moves single sectors. Then a request moves the same number of bytes with strides 8 and 16, so
# both strides would be equally fast. But stride 16 is half as fast. So the memory must move larger pieces.
#
# How large are these pieces? To test a size, assume that the memory moves pieces of this size. Then compute for each
# stride how many bytes per second the memory moves. They cannot be more than 4,800 GB/s, the bandwidth of the memory.


# %%
def memory_bytes(stride):
    p = coalesce.profile("access", large[: 1 << 22], pattern="stride", stride=stride, device="sim")
    return p.metrics()["dram__bytes_read.sum"]


def pieces():
    if data.gbps is not None:
        for piece in (64, 128):
            moved(piece)
    for stride in (8, 16, 32):
        print(
            f"stride {stride:2}: DRAM reads {memory_bytes(stride) / 1e6:4.1f} of 16.8 MB (modelled)"
        )


lessons.predict(
    "piece of memory",
    "Which size of piece explains the bandwidths of strides 8, 16 and 32?",
    choices=["32 bytes", "64 bytes", "128 bytes"],
    guess=...,
    measured=lambda: [memory_bytes(stride) for stride in (8, 16)],
    show=pieces,
)

# %% [markdown]
# So scattered accesses waste bandwidth: the GPU reads DRAM in pieces of 64 bytes. (CUDA calls this the fetch
# granularity of L2. A program can ask for another size, so 64 bytes need not be the smallest piece of the DRAM itself.)
#
# A tutorial reports that the bandwidth falls from 110 to 15 GB/s, a factor of 7.3, if the accesses are scattered. On
# this GPU, the factors are smaller, because the memory is only partly busy at stride 1:

# %%
if data.gbps is not None:
    for stride in (8, 16, 32):
        print(
            f"stride {stride:2}: {data.gbps[0] / data.gbps[stride - 1]:.1f} times slower than stride 1"
        )

# %% [markdown]
# ## Broadcast and gather

# %% tags=["counts"]
lessons.predict(
    "broadcast",
    "All 32 lanes load the same element. How many sectors?",
    guess=...,
    measured=lambda: load(pattern="broadcast"),
    show=lambda: draw.warp_access([64] * 32, 4, title="x[16], every lane"),
)

# %%
index = np.random.default_rng(0).integers(0, x.size, x.size, dtype=np.int32)


def gathered():
    p = coalesce.profile("access", x, pattern="gather", index=index, device="sim")
    for row in p.accesses():
        print(
            f"gather, {row.kind} of {row.array:5}: {row.sectors / row.requests:4.1f} sectors per request"
        )
    return {(row.kind, row.array): row.sectors / row.requests for row in p.accesses()}


# %% tags=["counts"]
lessons.predict(
    "gather",
    "Each lane loads a random one of 16,384 floats, `x[index[i]]`. Sectors per request of that load, on average?",
    guess=...,
    measured=lambda: max(gathered().values()),
    within=0.03,
)

# %% [markdown]
# ## Exercises
#
# [Lesson 0](00_threads_blocks_warps.ipynb) says how the exercises work.

# %% tags=["exercise"]
lessons.exercise("copy_four")

# %% tags=["exercise"]
lessons.exercise("pair_means")

# %% [markdown]
# **To remember**
# - A request wants as much data as it touches distinct sectors of 32 bytes. If the 32 lanes of a warp load
#   adjacent elements of 4 bytes, the request touches 4 sectors. With elements of 8 bytes it touches 8 sectors, and with
#   16 bytes, 16 sectors.
# - It does not matter in which order the lanes access the elements. A broadcast costs one sector. An offset costs at most
#   one sector more.
# - With a stride of s elements, a request touches s times as many sectors as with stride 1, but at most one
#   sector per lane.
# - Sectors are counted at L1. The GPU reads DRAM in pieces of 64 bytes. DRAM is fast only if, at any moment, many
#   bytes are on their way to the GPU.

# %%
lessons.score()
