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
# **The question.** The coalesced kernel moves no byte in vain, and still reads every element of `a` and
# `b` many times over. How often must a multiplication read its operands, and what does shared memory
# change? Then the catch: shared memory has an access pattern of its own.

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

rng = np.random.default_rng(0)

# %% [markdown]
# ## An example small enough to draw
#
# Matrices of 8 x 8, tiles of 4 x 4. Block (0, 0) computes the upper left tile of the result; its 16
# threads load one element of `a` and one of `b` in each **phase**, wait for each other, and use
# what all of them loaded.
#
# **Predict:** how many phases are there? In phase 1, which elements does thread (x = 2, y = 1) load?

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
draw.matrices(
    phases,
    title="block (0, 0): the numbers are the threads",
    headline="Each element is loaded once by one thread, and used by four",
)

# %% [markdown]
# Thread t = x + 4 y, so (2, 1) is number 6: it loads `a[1][6]` and `b[5][2]` in phase 1. Every element in
# shared memory then serves a row or a column of four threads. That is the whole trick, and it is about
# **how often**, not about coalescing: both loads go along rows, and the untiled kernel's load of `b` did too.
#
# ## Count the traffic
#
# Without tiles each of the N x N threads reads 2 N elements: 2 N^3. With tiles of T each element read
# serves T threads: 2 N^3 / T. **Predict** the ratio of the load requests of `coalesced` and of
# `tiled` with tiles of 16, and with tiles of 32.

# %% tags=["counts"]
N = 128
a, b = rng.random((2, N, N), dtype=np.float32)


def loads(variant, **options):
    m = coalesce.profile("matmul", a, b, variant=variant, device="sim", **options).metrics()
    return (
        m["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"],
        m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
    )


kernels = {
    "coalesced": ("coalesced", {}),
    "tiled, 16": ("tiled", {"tile": 16}),
    "tiled, 32": ("tiled", {"tile": 32}),
}
for name, (variant, options) in kernels.items():
    requests, sectors = loads(variant, **options)
    floats = sectors * 8  # a sector is 8 floats
    print(
        f"{name:10} {requests:7.0f} requests {sectors:7.0f} sectors, {floats / N**3:.4f} N^3 floats moved"
    )

# %% [markdown]
# 2 / 16 and 2 / 32 of N^3, as predicted. (The untiled kernel asks for 2 N^3 floats; 1.25 N^3 are moved, since
# one sector with the broadcast element of `a` serves all 32 lanes.) On each float moved a tile of T does more
# arithmetic: 2 T^3 multiplications and additions on
# 2 T^2 floats:
#
# $$\text{arithmetic intensity} = \frac{2 T^3\ \text{flop}}{2 T^2 \cdot 4\ \text{bytes}} = \frac{T}{4}\ \text{flop a byte}$$
#
# An H200 has 66.9 TFLOP/s and 4.8 TB/s (datasheet): about 14 flop for each byte. A tile of 32 has 8.
# Tiles as large as a block of threads allows are not enough, one reason why the ladder goes on (lesson 7).
#
# ## What repeats between blocks
#
# Every element of `a` is wanted by a whole row of blocks. **Predict** for tiles of 32 and N = 128: how many blocks load
# each sector of `a`? A trace has the addresses of every load, so we can ask.

# %%
draw.matrices(
    {
        f"block ({x}, 0)": [
            draw.Matrix("a", (8, 8), [(row, col) for row in range(T) for col in range(8)]),
            draw.Matrix("b", (8, 8), [(row, x * T + col) for row in range(8) for col in range(T)]),
        ]
        for x in (0, 1)
    },
    title="what two blocks of the small example load, in all phases",
    headline="Blocks side by side load the same rows of a",
)

# %% tags=["counts"]
trace = coalesce.trace("matmul", a, b, variant="tiled", device="sim", limit=None)
for array in ("a", "b"):
    chosen = trace.select(array=array, kind="load")
    blocks_of = {}
    for block, addresses in zip(chosen.block.tolist(), chosen.addresses, strict=True):
        for sector in np.unique(addresses // 32).tolist():
            blocks_of.setdefault(sector, set()).add(tuple(block))
    counts = {len(blocks) for blocks in blocks_of.values()}
    print(f"{array}: {len(blocks_of)} sectors, each loaded by {counts.pop()} blocks")
    assert not counts  # all by as many

# %% [markdown]
# N / T of them. Shared memory cannot help: it belongs to one block. The **L2 cache** can, as all blocks share it: the first of the four
# brings the sector from memory, the others find it there, if they come soon enough. **Predict** how many bytes come from memory. The loads are
# counted; what the caches do is modelled.

# %%
print(f"a and b have {(a.nbytes + b.nbytes) / 1024:.0f} KiB")
for variant in ("coalesced", "tiled"):
    m = coalesce.profile("matmul", a, b, variant=variant, device="sim").metrics()
    steps = {
        "loaded": 32 * m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
        "from L2 (modelled)": 32 * m["lts__t_sectors_srcunit_tex_op_read.sum"],
        "from memory (modelled)": m["dram__bytes_read.sum"],
    }
    print(
        f"{variant:9}", ", ".join(f"{size / 1024:6.0f} KiB {what}" for what, size in steps.items())
    )

# %% [markdown]
# Memory gives every byte once, L2 answers the other blocks, and what the untiled kernel loads again and again the L1 cache has. Is that what
# happens on a GPU? The clock tells, with a little arithmetic: the bytes that the kernels ask for, at N = 4096, over the time they take.

# %%
measured = lessons.times("matmul", ["coalesced", "tiled"])
measured

# %%
for name in measured:
    _, sectors = loads(name)
    asked = sectors * 32 * (4096 / N) ** 3  # bytes: the sectors grow as N cubed
    print(
        f"{name:9} asks for {asked / measured[name].kernel_ms / 1e9:.1f} TB/s; the memory of an H200 gives 4.8"
    )

# %% [markdown]
# What is asked for beyond the memory's 4.8 TB/s cannot have come from it: the caches answered. That is why an untiled kernel is not
# hopeless, and why a tile helps less than its factor of T.
#
# ## Exercise: 69 GB
#
# A tutorial sets this exercise for N = 2048. Each of N x N threads reads 2 N floats, 69 GB in all; a memory of 900 GB/s takes 77 ms for them;
# the kernel took 150 ms; so it reaches 51 % of what the memory can give. Its kernel is the untiled one, and believed to be coalesced. It is `transposed_b` of the next section.
#
# **Predict** for that kernel and for `coalesced`: do the loads ask for 69 GB, for less or for more? And what must come from memory at least?

# %% tags=["counts"]
n = 2048
print(f"{'the threads want':28} {2 * n**3 * 4 / 1e9:7.2f} GB")
for variant in ("coalesced", "transposed_b"):
    _, sectors = loads(variant)
    print(f"{'loads of ' + variant + ' ask for':28} {32 * sectors * (n / N) ** 3 / 1e9:7.2f} GB")
print(f"{'a and b have':28} {2 * n**2 * 4 / 1e9:7.2f} GB")

# %% [markdown]
# The 69 GB are moved nowhere. A sector with one element for all lanes counts 32 times among what threads want, and once among what a load asks for;
# lanes a row of `b` apart ask for eight times what they want of it. And the memory need give each byte only once, if the caches keep it. A share of the memory's peak
# is bytes *of the memory* over time: count those (`dram__bytes_read.sum`, modelled here), not the ones in the source.
#
# ## Corner turning
#
# Let `b` be stored column by column (its transpose row by row). Now lanes that step along a row of `b` are a
# whole column apart. **Predict:** what does the untiled kernel `transposed_b` pay for each load of `b`?

# %% tags=["counts"]
for variant in ("coalesced", "transposed_b"):
    p = coalesce.profile("matmul", a, b, variant=variant, device="sim")
    print(f"{variant:12} {2 * p.sectors_per_request['load']:.0f} sectors a step")

# %% [markdown]
# A tile repairs it. Its threads may load in one order and use in another: let the lanes load **along the
# columns** of `b`, which are contiguous, and turn the corner in shared memory. Whatever the order there, the
# textbooks say, it is fast. Is it?

# %%
p_turned = coalesce.profile("matmul", a, b, variant="corner_turned", device="sim")
p_turned

# %% [markdown]
# The loads coalesce: 4 sectors, all used. But line by line the cost is now in *shared* memory, and the picture shows
# what a warp does there at one step: lane `tx` reads `b_tile[tx][k]`, 32 rows of 32 words.
#
# Shared memory has 32 banks, and word w is in bank w mod 32. A column of a 32-word-wide array is all in one
# bank, and a bank serves one word at a time: a 32-way conflict, 32 **wavefronts** for one load.
# (The assembler has each lane read four columns at once, 16 bytes. Such a load cannot take fewer than 4
# wavefronts, so the report calls its 32 an 8-way conflict; a quarter of the loads, and the same waste.)
#
# **Predict:** what if each row had 33 words, the last one unused?

# %%
padded = [lane * 33 * 4 for lane in range(32)]
draw.bank_board(padded, 4, rows="words", title="b_tile[tx][0] of float b_tile[32][33]")

# %% tags=["counts"]
for variant in ("tiled", "corner_turned", "corner_turned_padded"):
    p = coalesce.profile("matmul", a, b, variant=variant, device="sim")
    print(
        f"{variant:21} {p.sectors_per_request['load']:.0f} sectors per load, {p.bank_conflicts} bank conflicts"
    )

# %% [markdown]
# One column of padding and the conflicts are gone: `corner_turned_padded` asks as little of the memory as
# `tiled`, with a matrix that lies the other way. In time:

# %%
lessons.times("matmul", ["tiled", "transposed_b", "corner_turned", "corner_turned_padded"])

# %% [markdown]
# **To remember**
# - Tiles reduce how *often* global memory is read, by the tile's width.
# - A tile lets threads load in the order memory likes and use in the order the algorithm likes.
# - Shared memory has its own rule: 32 banks; a column needs a row length that is odd in words.
