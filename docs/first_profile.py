# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Read your first profile
#
# A profile shows what the memory accesses of each source line of a kernel cost. This page explains a profile step by
# step, from the summary at the top to one lane of one warp. The numbers come from a machine without a GPU. If you run the
# code of this page, you get the same numbers.

# %% tags=["remove-output"]
import numpy as np

import coalesce

a, b = np.random.default_rng(0).random((2, 128, 128), dtype=np.float32)
p = coalesce.profile("matmul", a, b, variant="naive", device="sim")

# %% [markdown]
# In a notebook, `p` is shown as a report. In a terminal, use `print(p)`.

# %%
p

# %% [markdown]
# ## First: the summary
#
# The report begins with a sentence for each kind of memory. ▲ marks wasteful accesses, ✓ marks accesses that cannot be
# improved. You can also get the summary as data:

# %% tags=["counts"]
for sentence in p.verdict:
    print(sentence)

# %% [markdown]
# ## Then: the table of counts
#
# The table has the totals. It uses three terms:
#
# - A **request** is one load or store instruction of one warp (32 threads).
# - A **sector** is 32 bytes, the smallest unit that the caches transfer. A request transfers every sector that at least one of its lanes touches.
# - **Needed** is the number of sectors that would be enough for the same request. If its lanes read 32 different floats,
#   4 sectors would be enough, with the floats side by side. If all lanes read the same element, 1 sector is enough.
#
# The requests show how *often* the kernel accesses memory. The sectors per request show how much each access costs.
#
# These numbers are exact counts. The line *Modelled* below the table has estimates, which come from models of the caches and of time.

# %% tags=["counts"]
for total in p.totals():
    print(
        f"{total.name:13} {total.requests:7,} requests x {total.per_request:4.1f} sectors, "
        f"{total.bytes_used / total.bytes_moved:4.0%} of the bytes used"
    )

# %% [markdown]
# ## Then: the source lines and the arrays
#
# The next part of the report shows the cost of each line beside its source. The bar is the line's share of all sectors.
# Look first at the line with the longest bar. The next cell prints this line, and what it does with each array.

# %% tags=["counts"]
worst = max(p.lines(), key=lambda line: line.sectors)
print(f"line {worst.number}: {worst.source.strip()}")
for access in worst.accesses:
    print(f"  {access.kind} of {access.array}, sectors per request: {access.per_request:.0f}")
    print(f"    {access.sentence}")

# %% [markdown]
# The two loads of this line are very different. The load of `b` is a **broadcast**: every lane loads the same element. A
# single sector serves all lanes, so nothing is wasted. In the load of `a`, each lane touches a sector of its own.
#
# ## Last: one warp
#
# Why does each lane of the load of `a` touch a sector of its own? For every access, the profile stores one warp as an
# example. In the picture of this warp, each mark is a lane and each box is a sector:

# %%
costly = max(worst.accesses, key=lambda access: access.per_request)
costly.example.picture(f"{costly.kind} of {costly.array}, one warp")

# %% [markdown]
# Neighbouring lanes read neighbouring rows of `a`, all in the same column. The second picture of the report shows this,
# too. The sentence about the load of `a` above says how to improve it: let `threadIdx.x` index the last axis.
#
# ## Compare two profiles
#
# The variant `coalesced` is the same kernel with only this change. `compare` shows profiles side by side.

# %%
better = coalesce.profile("matmul", a, b, variant="coalesced", device="sim")
coalesce.compare(p, better)

# %% [markdown]
# Both variants make the same number of requests, but the requests of `coalesced` need fewer sectors. [The
# lessons](../notebooks/README.md) show the next improvements: with tiles, a kernel makes fewer requests, but bank
# conflicts can occur.
#
# `p.metrics()` returns the same numbers under the names of Nsight Compute.
# [Profiles](profiling.md) describes everything that a profile can do. [Predicted beside measured](accuracy.md) shows how well profiles agree with a GPU.
