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
# A profile says what each source line of a kernel asks of memory. This page reads one, from the top to one lane of one warp.
# It was made by running the code that it shows, on a machine without a GPU; run it yourself and you will get the same numbers.

# %% tags=["remove-output"]
import numpy as np

import coalesce

a, b = np.random.default_rng(0).random((2, 128, 128), dtype=np.float32)
p = coalesce.profile("matmul", a, b, variant="naive", device="sim")

# %% [markdown]
# In a notebook `p` shows as a report; in a terminal `print(p)` does.

# %%
p

# %% [markdown]
# ## First: what does it come to?
#
# The report begins with a sentence for each memory. ▲ marks what is wasteful, ✓ what is as good as it gets. As data:

# %% tags=["counts"]
for sentence in p.verdict:
    print(sentence)

# %% [markdown]
# ## Then: how much, and how well?
#
# The table has the sums, and three words that everything else is made of.
#
# - A **request** is one load or store instruction of one warp, 32 threads.
# - A **sector** is 32 bytes, the smallest piece that memory moves. A request moves every sector that one of its lanes touches.
# - **Ideal** is what the same lanes would take if their elements lay side by side: 4 sectors for 32 floats.
#
# Requests say how *often* the kernel goes to memory, sectors per request how *well* each time.
#
# These are counts, and exact. The line *Modelled* below the table is of another kind: what models of the caches and of time expect, an estimate.

# %% tags=["counts"]
for total in p.totals():
    print(
        f"{total.name:13} {total.requests:7,} requests x {total.per_request:4.1f} sectors, "
        f"{total.bytes_used / total.bytes_moved:4.0%} of the bytes used"
    )

# %% [markdown]
# ## Then: which line, and which array?
#
# The listing sets the cost beside the source. The bar is a line's share of all sectors, so the longest bar is where to look. Here it is, and what the line
# does with each array.

# %% tags=["counts"]
worst = max(p.lines(), key=lambda line: line.sectors)
print(f"line {worst.number}: {worst.source.strip()}")
for access in worst.accesses:
    print(f"  {access.kind} of {access.array}, sectors per request: {access.per_request:.0f}")
    print(f"    {access.sentence}")

# %% [markdown]
# The two loads of that line could not be more different. One is a **broadcast**: every lane wants the same element, a single sector serves
# them all, and that is no waste. The other has each lane in a sector of its own.
#
# ## Last: one warp
#
# Why? Every access keeps a warp as an example. Each lane is a mark, each box a sector:

# %%
costly = max(worst.accesses, key=lambda access: access.per_request)
costly.example.picture(f"{costly.kind} of {costly.array}, one warp")

# %% [markdown]
# The lanes go down a column, as the second picture of the report shows. The sentence above has the cure: let `threadIdx.x`
# count along the last axis.
#
# ## Did it help?
#
# The variant `coalesced` is the same kernel with that one change. `compare` sets profiles side by side.

# %%
better = coalesce.profile("matmul", a, b, variant="coalesced", device="sim")
coalesce.compare(p, better)

# %% [markdown]
# The number of requests is the same, so no work was saved. But each request takes fewer sectors. The rest is left to
# [the lessons](../notebooks/README.md): tiles make the requests fewer, and bring bank conflicts with them.
#
# The same numbers under Nsight Compute's names are in `p.metrics()`, so that what you learn here is what you will read there.
# [Profiles](profiling.md) has everything that a profile can do, [Predicted beside measured](accuracy.md) how well it agrees with a GPU.
