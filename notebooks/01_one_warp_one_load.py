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
# **The question.** A warp executes one load: 32 lanes, 32 addresses, one instruction. What does the memory
# system do with it, and what does it cost when the addresses are not side by side?

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

# %% [markdown]
# ## The units
#
# | word | what it is |
# |---|---|
# | request | one load or store instruction of one warp |
# | sector | 32 bytes, the smallest piece the memory system moves |
# | line | 128 bytes, four sectors: what the first-level cache looks up |
#
# A request costs the **distinct sectors** its active lanes touch. That is the whole rule; everything below is the
# rule applied. The simulator counts it from the addresses that the compiled kernel computes, and hardware counters give the
# same numbers.
#
# ## Side by side
#
# **Predict** the sectors for loads of 4, 8 and 16 bytes per lane, and how much of what is moved gets used.

# %%
draw.warp_access(range(0, 32 * 4, 4), 4, title="float: x[i]")

# %%
draw.warp_access(range(0, 32 * 8, 8), 8, title="double: x[i]")

# %%
draw.warp_access(range(0, 32 * 16, 16), 16, title="float4: x[i]")

# %% [markdown]
# Four, eight, sixteen sectors: always every byte used. Nothing is wasted by small elements, and wide ones do not
# "coalesce better"; they move more with one instruction. The `access` kernels do the same loads; what do the counts say?

# %% tags=["counts"]
x = np.arange(1 << 14, dtype=np.float32)


def load(**pattern):
    """Sectors per load request of an access kernel."""
    return coalesce.profile("access", x, device="sim", **pattern).sectors_per_request["load"]


for width in (4, 8, 16):
    print(
        f"{width:2} bytes per lane: {load(pattern='vector', width=width):4.1f} sectors per request"
    )

# %% [markdown]
# A tutorial says that lanes of 4 or 8 bytes leave the rest of each 32-byte transaction unused, and that an element of 32 bytes is ideal.
# **Predict:** which of these three uses less than all of what it moves?

# %% tags=["counts"]
wide = coalesce.Kernel(
    """
struct alignas(16) Wide { float4 low, high; };  // 32 bytes
extern "C" __global__ void halves(const Wide *x, float4 *out) {
    out[threadIdx.x] = x[threadIdx.x].low;
}
extern "C" __global__ void whole(const Wide *x, Wide *out) { out[threadIdx.x] = x[threadIdx.x]; }
""",
    "whole",
)
t = np.arange(32)
print("4 bytes per lane: ", coalesce.transactions(4 * t, 4))
print("8 bytes per lane: ", coalesce.transactions(8 * t, 8))
p = wide.profile(1, 32, np.zeros((32, 8), np.float32), np.zeros((32, 8), np.float32))
for row in p.accesses():
    print(
        f"32 bytes per lane, {row.kind}: {row.requests} requests of {row.sectors / row.requests:.0f} sectors, "
        f"{row.efficiency:.0%} of them used by each"
    )

# %% [markdown]
# Only the wide one: no instruction of an H200 loads more than 16 bytes per lane, so 32 bytes take two, and each
# of the two visits every sector for one half. The other half is used a moment later, if the cache still has it.
#
# ## Order, and one lane astray
#
# **Predict:** the lanes in reverse order. Then: 31 lanes side by side, and lane 31 far away.

# %%
draw.warp_access(range(31 * 4, -4, -4), 4, title="x[31 - lane]")

# %%
draw.warp_access([*range(0, 31 * 4, 4), 4096], 4, title="lane 31 at x[1024]")

# %% tags=["counts"]
print(f"permuted: {load(pattern='permuted'):.1f} sectors per request")
print(f"far lane: {load(pattern='far_lane'):.1f} sectors per request")

# %% [markdown]
# Order means nothing: the same sectors. The lane astray costs one sector more, 32 bytes; not a line, and not a
# transaction for each lane.
#
# ## Misalignment
#
# **Predict:** all lanes side by side, but starting 4 bytes late. How many sectors, for an offset of 1, of 4, of 8 elements?

# %%
draw.warp_access(range(4, 33 * 4, 4), 4, title="x[i + 1]")

# %% tags=["counts"]
for offset in (0, 1, 4, 7, 8, 16):
    print(f"offset {offset:2}: {load(pattern='offset', offset=offset):.1f} sectors per request")

# %% [markdown]
# Five instead of four, unless the offset is a whole sector of 8 floats. That fifth sector is the neighbouring warp's first
# one. **Predict:** does the second-level cache see it twice? Counts end at the instruction; what comes behind is a *model* of the caches.

# %%
for offset in (0, 1):
    m = coalesce.profile("access", x, pattern="offset", offset=offset, device="sim").metrics()
    print(
        f"offset {offset}: {m['l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum']:5} sectors by the loads, "
        f"{m['lts__t_sectors_srcunit_tex_op_read.sum']:5} from the second level (modelled)"
    )

# %% [markdown]
# The first-level cache has most of them already: the *instruction* touches five, the traffic behind hardly grows. Both numbers are
# right; they count at different places.
#
# ## Strides
#
# **Predict:** lanes 2 elements apart. And 3, 8, 16, 32? Where does it stop getting worse?

# %%
draw.warp_access(range(0, 32 * 8, 8), 4, title="x[2 * i]")

# %%
draw.warp_access(range(0, 32 * 128, 128), 4, title="x[32 * i]")

# %% tags=["counts"]
for stride in (1, 2, 3, 4, 8, 16, 32):
    print(f"stride {stride:2}: {load(pattern='stride', stride=stride):4.1f} sectors per request")

# %%
data = lessons.sweep("stride", range(1, 33))
axes = coalesce.plots.sweep(data, theme="transparent")

# %% [markdown]
# From a stride of 8 floats on every lane has a sector of its own, and it cannot get worse *in sectors*. The second panel is the clock's:
# bandwidth measured on the GPU of this machine, or else as recorded on the one that its legend names. It counts the bytes that were *asked for*.
# How many were *moved*? A request asks for 128 bytes and its store for 128 more, 4 sectors each; the sectors say what was moved.

# %%
if data.gbps is not None:
    for stride in (1, 2, 4, 8, 16, 32):
        i = stride - 1
        moved = data.gbps[i] * (data.sectors[i] + 4) / 8
        print(f"stride {stride:2}: {data.gbps[i]:5.0f} GB/s asked for, {moved:5.0f} GB/s moved")

# %% [markdown]
# Up to a stride of 8 the GPU moves more and more bytes, until its memory can give no more, and less and less of them is wanted: the
# sectors explain the fall. Beyond 8 they stand still and the bandwidth goes on falling, as if the memory behind the caches were read in pieces larger than a sector. What
# a count of instructions says ends at the first-level cache.
#
# ## Broadcast and gather
#
# **Predict:** all lanes at one element. Then: each lane somewhere in 16384 floats.

# %%
draw.warp_access([64] * 32, 4, title="x[16], every lane")

# %% tags=["counts"]
index = np.random.default_rng(0).integers(0, x.size, x.size, dtype=np.int32)
print(f"broadcast: {load(pattern='broadcast'):4.1f} sectors per request")
p = coalesce.profile("access", x, pattern="gather", index=index, device="sim")
for row in p.accesses():
    print(
        f"gather, {row.kind} of {row.array:5}: {row.sectors / row.requests:4.1f} sectors per request"
    )

# %% [markdown]
# A broadcast is one sector, the cheapest load there is; that it uses 4 bytes of 32 is no waste. A gather pays nearly
# a sector a lane; a little less than 32, since now and then two lanes meet.
#
# **To remember**
# - Cost of a request = distinct 32-byte sectors. Full use: 4 sectors for 4-byte elements, 8 for 8, 16 for 16.
# - Order is free, a broadcast is one sector, an offset costs at most one sector more.
# - A stride of s elements costs s times the sectors, up to one per lane.
