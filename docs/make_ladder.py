"""Write docs/ladder.md from docs/measured/ladder.json, ladder_h100.json and units.json.

`benchmarks/ladder.py` writes the first two, one on an H200 and one on an H100.
`benchmarks/units.py` writes the third.

python docs/make_ladder.py [--check]
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import ladder_rungs
import recorded_ladder
from pages import write
from recorded_ladder import LARGE_GOAL

import coalesce

DOCS = Path(__file__).parent
TARGET = DOCS / "ladder.md"


def text(record: dict[str, Any], other: dict[str, Any], units: dict[str, Any]) -> str:
    """Return the page. `other` has the measurements on another GPU, `units` the busy units."""
    lines = [
        "# The ladder, measured",
        "",
        _INTRODUCTION,
        "",
        _where(record),
        "",
        _METHOD,
        "",
        "## Every rung at 4096 x 4096 x 4096",
        "",
        "| rung | TFLOP/s | of cuBLAS | spread | idea |",
        "|---|---|---|---|---|",
    ]
    ladder = recorded_ladder.at_ladder(record)
    rungs, library = ladder.rungs, ladder.library
    for variant in coalesce.variants("matmul"):
        for name in (
            variant.name,
            f"{variant.name} tile={variant.tiles[-1] if variant.tiles else 0}",
        ):
            if name in rungs:
                row = rungs[name]
                lines.append(
                    f"| `{variant.name}` | {row.tflops:.2f} | {library.ms / row.ms:.3f} "
                    f"| {row.spread:.1%} | {variant.sentence} |"
                )
    lines += [
        f"| cuBLAS | {library.tflops:.2f} | 1 | {library.spread:.1%} | |",
        "",
        *ladder_rungs.section(ladder, units),
        "",
        "## The fastest rung of each shape",
        "",
        "The ratio is cuBLAS' time divided by the rung's time: above 1, the rung is faster. The",
        "ratio should be at least as large as the goal. [Goals](goals.md) lists all goals.",
        "",
        *_shapes(record),
        "",
        _TENSOR_CORES,
        "",
        *_tensor_cores(record),
        "",
        _OTHER,
        "",
        _where(other),
        "",
        *_shapes(other),
        "",
        *_tensor_cores(other),
        "",
        _UNITS.format_map({**units, "gpu": units["gpu"]["name"]}),
        "",
        *_units(units["rows"]),
        "",
        _LIMITS,
    ]
    return "\n".join(lines) + "\n"


def _where(record: dict[str, Any]) -> str:
    """Return the GPU, the versions and the command of a measurement."""
    gpu = record["gpu"]
    major, minor = record["cublas"] // 10000, record["cublas"] // 100 % 100
    return (
        f"Measured on an {gpu['name']} (driver {gpu['driver_version']}, NVRTC {record['nvrtc']}, "
        f"cuBLAS {major}.{minor}) on {record['date']}, with commit {record['commit']}, by "
        f"`{record['command']}`."
    )


def _shapes(record: dict[str, Any]) -> list[str]:
    """Return a table of the fastest variant of each shape and cuBLAS."""
    lines = [
        "| M x N x K | rung | TFLOP/s | cuBLAS | ratio | goal | SM clock, power |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape in recorded_ladder.shapes(record):
        own = shape.rungs[shape.fastest]
        lines.append(
            f"| {shape.name} | `{shape.fastest}` | {own.tflops:.2f} | "
            f"{shape.library.tflops:.2f} | {shape.ratio:.3f} | {shape.goal:.2f} | "
            f"{shape.state} |"
        )
    return lines


def _tensor_cores(record: dict[str, Any]) -> list[str]:
    """Return a table of the variants on tensor cores and cuBLAS."""
    lines = [
        "| rung | size | TFLOP/s | error | cuBLAS | TFLOP/s | error | ratio | goal | SM, power |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in recorded_ladder.on_tensor_cores(record):
        cells = (
            f"`{row.variant}`{row.result}",
            row.size,
            f"{row.own.tflops:.1f}",
            f"{row.own.norm_error:.1e}",
            row.precision,
            f"{row.library.tflops:.1f}",
            f"{row.library.norm_error:.1e}",
            f"{row.ratio:.3f}",
            "" if row.goal is None else f"{row.goal:.1f}",
            row.state,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def _units(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Return a table of how busy the units are in each kernel."""
    heads = ("kernel", "issue slots", "of them FMA", "active", "float32 peak", "tensor cores")
    heads += ("shared memory and L1", "most frequent stalls")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    stall = re.compile("smsp__average_warps_issue_stalled_(.*)_per_issue_active.ratio")
    peaks, slots = {}, {}
    for name, row in rows.items():
        issue = row["smsp__issue_active.avg.pct_of_peak_sustained_active"] / 100
        fma = row["smsp__inst_executed_pipe_fma.sum"] / row["smsp__inst_executed.sum"]
        active = row["sm__cycles_active.avg"] / row["sm__cycles_elapsed.max"]
        stalls = {m[1]: value for key, value in row.items() if (m := stall.fullmatch(key))}
        most = sorted(stalls, key=lambda key: -stalls[key])[:3]
        tensor = row["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"]
        wavefronts = row["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"]
        peaks[name], slots[name] = issue * fma * active, issue
        cells = (
            "cuBLAS, float32" if name.startswith("cublas") else f"`{name}`",
            f"{issue:.1%}",
            f"{fma:.1%}",
            f"{active:.1%}",
            f"{peaks[name]:.1%}",
            f"{tensor:.1f}%" if tensor else "",
            f"{wavefronts:.1f}%",
            ", ".join(f"{key} {stalls[key]:.2f}" for key in most),
        )
        lines.append("| " + " | ".join(cells) + " |")
    own, library = peaks["tensor_map"], peaks["cublas float32"]
    wanted = LARGE_GOAL * library
    text = (
        f"In this run, `tensor_map` reaches {own / library:.3f} times the speed of cuBLAS; the "
        f"goal is {LARGE_GOAL:.2f} times. cuBLAS reaches {library:.1%} of the float32 peak. "
        f"`tensor_map` reaches {own:.1%} of it, and uses {slots['tensor_map']:.1%} of the issue "
        "slots."
    )
    if own < wanted:
        text += (
            f" To reach the goal ({wanted:.1%} of the peak) with the same instructions, it must "
            f"use {slots['tensor_map'] * wanted / own:.1%} of the issue slots."
        )
    return [*lines, "", *textwrap.wrap(text, 100)]


_UNITS = """\
## How busy the units are

Measured on an {gpu} (NVRTC {nvrtc}) on {date}, with commit {commit}, by `{command}`. Nsight Compute
counted the cycles of one product of two {size} x {size} matrices. The columns are:

- *issue slots*: how many of the issue slots were used. A multiprocessor has four schedulers, and
  each has one slot per cycle, in which it can issue an instruction.
- *of them FMA*: the share of the issued instructions that ran in the float32 pipes. In a float32
  kernel, nearly all instructions in these pipes are multiply-adds.
- *active*: the share of the time in which a multiprocessor had work, as a mean over all
  multiprocessors.
- *float32 peak*: the speed of the kernel, as a share of the GPU's float32 peak. The peak is the one
  for the GPU's clock in this run. The share is the product of the three columns to its left.
- *tensor cores*, *shared memory and L1*: the share of the cycles in which the unit was busy.
- *most frequent stalls*: the three most frequent reasons why warps did not issue an instruction.
  The number after a reason is the average number of cycles that a warp waited, for this reason,
  per issued instruction.
  `dispatch_stall` includes conflicts of register banks (two operands of an instruction are in the
  same bank). `not_selected` means that the scheduler chose another warp."""

_INTRODUCTION = """\
*Written by `docs/make_ladder.py`; do not edit.*

`coalesce.matmul` has many variants: kernels that compute the same matrix product. Most
variants are faster than the variant before them, so this page calls the variants the rungs of a
ladder. The page compares the speed of the rungs with the speed of cuBLAS, NVIDIA's library. [The
glossary](../notebooks/glossary.md) explains the terms. Lessons
[2](../notebooks/02_matmul_naive_to_coalesced.ipynb),
[3](../notebooks/03_tiles_and_corner_turning.ipynb),
[7](../notebooks/07_registers_and_pipelines.ipynb) and
[10](../notebooks/10_past_cublas.ipynb) explain the kernels."""

_METHOD = """\
How the times were measured:

- The operands are random numbers in [-1, 1), in float32 unless another type is named.
- `coalesce.benchmark` measured the times, and checked every result against a product in float64.
- Rungs and cuBLAS take turns, so that the GPU's clock is the same for all. A time is the median of
  several runs. If a product takes little time, a CUDA graph repeats it up to 100 times in each run.
- Some rungs first pack an operand: they copy its elements to a new array, in another order. The
  time includes this copy.
- The L2 cache is not cleared between two runs of a rung, so it can hold data of the previous run.
- cuBLAS does not use TF32, a format with fewer bits, unless TF32 is named."""

_TENSOR_CORES = """\
## Tensor cores

Tensor cores are units that multiply small matrices. Four rungs use them:

- `tf32x3` computes with the accuracy of float32. For this, it splits each element into two TF32
  numbers: the rounded element and the rest.
- `tf32` rounds its operands to TF32.
- `bf16` rounds its operands to bfloat16. Its result is in float32 or in bfloat16.
- `dmma` is for float64.

The column *cuBLAS* names the type with which cuBLAS computes. The *error* is the norm of the
differences from the exact result, divided by the norm of the exact result.

Compare only figures in the same row. The rung and cuBLAS of a row took turns, so that the GPU's
clock was the same for both. Kernels of different rows did not take turns. Most kernels of this
table reach the power limit of the GPU, and then the GPU lowers its clock. The power in the table is
a mean over one second, so it can be below the limit."""

_OTHER = """\
## The same on an H100

The kernels were also measured on an H100, which has the same chip as an H200, but slower memory.
The kernels' tile sizes were chosen on the H200, so other tile sizes may be faster on the H100."""

_LIMITS = """\
## What limits the fastest kernels

For each of the fastest rungs, this section says what limits its speed, which changes were tried,
and which change to try next. `benchmarks/ladder.py` measured the figures. A product is named by its
shape, M x N x K. A single number means that M, N and K are equal: "the product of 4096" multiplies
two 4096 x 4096 matrices. The ratio to cuBLAS is cuBLAS' time divided by the rung's time.

### `tensor_map`

**Limit.** The main loop, which multiplies, limits the speed. In the table above, the row
`tensor_map` shows how the kernel spends its time at 4096:

- A scheduler usually has several warps to choose from (`not_selected`), so more warps cannot help.
- All multiprocessors have work for nearly all of the time, so another distribution of the tiles
  cannot help.
- Conflicts of register banks cost time (`dispatch_stall`). In 8.6 % of the multiply-adds, two
  operands are in the same bank, and the multiply-add takes two cycles instead of one.

At 8192, the power limit also lowers the clock a little, as it does for cuBLAS.

**Tried.**

- **Other orders of the instructions.** Three searches timed more than 4,500 versions of the main
  loop, on H100 and H200 GPUs. (The programs of the searches are not in the repository.) The kernel
  follows the best version. Compared with the version before the last search, it takes 1.6 % less
  time at 4096.
- **No packing.** In an earlier version, another kernel packed A before the product. Now the kernel
  itself transposes A in shared memory. This raised the ratio to cuBLAS from 1.025 to 1.05 at 2048,
  and from 0.99 to 1.08 for 8192 x 512 x 4096.
- **Positions of the lanes** in the tile of a warp. One version had the same positions as `split_k`.
  This version was slower: by 0.7 % at 2048 and 4096, and by 1.1 % at 8192. The reason is not known.
- **Fewer tests of barriers.** In one version, only one warp tested the barriers while it waited.
  In another version, the transposing warps paused from time to time. Neither changed the speed.
- **No work at the end of a tile.** At the end of each tile, the kernel exchanges partial sums and
  stores the result. To measure the cost of this work, one version left out the exchange, and
  another version left out the stores. (Both have wrong results.) At 2048, 4096 and 8192, neither
  version was faster. So this work costs nothing.
- **Warpgroups at different times.** One warpgroup multiplied while the other one stored. This made
  the product of 4096 slower by 1 %.
- **Other tiles for 16384 x 128 x 2048.** On an H100, the kernel reached 43 TFLOP/s with tiles of
  256 x 128, and 47 TFLOP/s with tiles of 128 x 128. But `split_k` is faster.

**Next.** Avoid conflicts of register banks. If two successive multiply-adds have an operand in
common, the second one does not have to read it again. In the source, successive multiply-adds have
an operand in common, but ptxas, the assembler, changes the order.

### `split_k`

**Limit.** This kernel transposes A while it copies A to shared memory, so it must copy one element
at a time. For 256 x 256 x 256, a block has only a few iterations, and spends most of its time
waiting for the data of the first iteration. For 16384 x 128 x 2048, the kernel spends about 5 % of
its time (8.6 microseconds) outside the main loop: at its start, and at the end of each tile.

**Tried.**

- **Other positions of the lanes** in the tile of a warp. Lanes that load the same elements are now
  close to each other, so a load of B takes 2 wavefronts instead of 4. On an H100, this raised the
  ratio to cuBLAS from 0.949 to 0.986 for 16384 x 128 x 2048, from 1.148 to 1.177 for
  1024 x 1024 x 1024, and from 1.376 to 1.413 for 256 x 256 x 256.
- **Other orders of the instructions.** A search timed 388 versions of the main loop for 16384 x 128
  x 2048. The kernel follows the fastest version. The new order, together with the new positions of
  the lanes (see above), raised the ratio to cuBLAS from 0.970 to 1.030 for this shape, from 1.148
  to 1.187 at 1024, and from 1.060 to 1.071 at 1000.
- **Two sums at once.** With `TILE=32` and `PARTS=8`, two blocks form a cluster, and each block
  reads partial sums from the shared memory of the other one. A lane now reads two neighbouring sums
  at once. This raised the ratio from 1.045 to 1.148 for the product of 512 on an H100.
- **Fewer groups.** At first, a tile always had 8 or 2 groups. If K is small, most of the time goes
  into the start of a block and the addition of the groups' sums. On 300 random shapes on an H200,
  the best of the three old forms reached 1.06 times the speed of cuBLAS in the geometric mean, and
  the best of six forms with 1 to 8 groups reaches 1.29.
- **Two groups with the largest tile.** At 1024, 128 multiprocessors have one tile of 64 x 128 each.
  With one group, a block has four warps, one for each scheduler; with two groups it has eight. The
  product of 1024 takes 46.2 us instead of 48.9. (An earlier version had lost this form.)
- **Fewer instructions per stored element.** If rows of the result are not aligned to 16 bytes, the
  tile goes through shared memory, and a lane stores one or two elements at a time. For
  4779 x 1710 x 31, the instructions around these stores took a third of the time: the row, the
  column, two comparisons and an address for each element. Now a thread stores one column, or two,
  and moves from row to row by a constant distance.
- **Copies of elements outside the matrix.** Instead of zeros, an experiment copied the last row or
  column again, which saves comparisons. Unaligned products took 4 to 40 % longer.
- **Copies at different times.** A stage has several steps of k, and only a few copies start in each
  step. When all copies of a stage started at once, loads from shared memory had to wait, and the
  product of 1024 took 17 % longer.
- **Loads written in PTX.** An earlier version had the loads from shared memory in C++. NVRTC moved
  these loads to other places, and each compilation of the same source gave different machine code.

**Next.** Tensor maps could copy whole tiles of A. Then the kernel could transpose the tiles in
shared memory, as `tensor_map` does.

### `bf16` and `tf32`

**Limit.** At 4096 and 8192 the GPU reaches its power limit and lowers its clock: to 1.5 to 1.6 GHz
of 1.98 in `bf16`, and in cuBLAS, too. At 2048 a block computes only one tile. So the tensor cores
are idle while the kernel starts, and while it writes the result. Below 1500, tiles of `bf16` have
64 columns. Then a stage takes 405 cycles, as long as the copy of its 24 KB from L2, and the tensor
cores work in 256 of them. The product of 512 takes 3.5 us, and in cuBLAS 3.3. In `tf32`, such a
stage takes 560 cycles, because it starts its products only when those of the previous stage have
ended.

**Tried.**

- **Multicast.** In clusters of two blocks, one copy can fill the shared memory of both blocks. This
  did not change the speed.
- **Tiles with fewer columns.** With 64 columns, the product of 1024 takes 5.7 us instead of 14.3,
  with seven or eight stages. With four stages, it takes 6.5. With 192 columns, the product of 3072
  takes 90 us instead of 116. `tf32` computes the transposed product, so its tiles have fewer rows:
  with 64 rows, the product of 1024 takes 11.4 us instead of 23.2, and with 128 rows 15.0.
- **Clusters that divide K.** Two blocks of a cluster computed a half of the stages each, and added
  up their sums through distributed shared memory. This took 1.5 us more for the smallest products,
  and 6.7 us instead of 5.0 for 768.
- **Other groups of tiles.** With groups of 8 or 32 rows of tiles instead of 16, the products of
  4096 and 8192 were 1 to 3 % slower.
- **Launches that start early** ([Speed on a GPU](gpu_speed.md#launches-that-start-early)). The
  product of 1024 takes 5.3 us instead of 5.9 (with a bfloat16 result, 4.9 instead of 5.5). To fetch
  the tensor maps early saved nothing. With fewer registers and four stages, so that two blocks fit
  on a multiprocessor, the product took 7.5 us, because blocks of the next launch then share
  multiprocessors.
- **Products that overlap.** `bf16` starts the products of a stage before those of the previous
  stage have ended. This made the product of 8192 about 2 % faster.

**Next.** The two warpgroups could compute different tiles, so that one writes its tile while the
other multiplies.

### `dmma`

**Limit.** The tensor cores are almost always busy. The kernel reaches the power limit, so the GPU
lowers its clock.

**Tried.**

- **Smaller tiles** for small products: with 128 x 64, the product of 1024 takes 42 us instead of
  76, and with 64 x 64, that of 512 takes 12 us instead of 39. cuBLAS takes 40 and 8 us.
- **Loads of 8 bytes per lane** from shared memory, instead of 16. With loads of 16 bytes, the
  kernel had to move the loaded values to other registers, and reached only 84 to 88 % of the speed
  of cuBLAS.
- **The instruction for K = 16** (`mma.m16n8k16.f64`) instead of the one for K = 8. This made the
  kernel 2 to 3 % slower.
"""


def main() -> None:
    write(text(*map(recorded_ladder.read, ("ladder", "ladder_h100", "units"))), TARGET)


if __name__ == "__main__":
    main()
