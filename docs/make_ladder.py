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
        "goal is the ratio that the rung should reach at least. [Goals](goals.md) lists all goals.",
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
        f"goal is {LARGE_GOAL:.2f} times. cuBLAS reaches {library:.1%} of the float32 peak, and "
        f"`tensor_map` {own:.1%}, with {slots['tensor_map']:.1%} of the issue slots."
    )
    if own < wanted:
        text += (
            f" To reach the goal ({wanted:.1%} of the peak) with the same instructions, it must "
            f"use {slots['tensor_map'] * wanted / own:.1%} of the issue slots."
        )
    return [*lines, "", *textwrap.wrap(text, 100)]


_UNITS = """\
## How busy the units are

Measured on an {gpu} (NVRTC {nvrtc}) on {date}, with commit {commit}, by `{command}`.
Nsight Compute counted the cycles of one product of two {size} x {size} matrices. The columns are:

- *issue slots*: a multiprocessor has four schedulers, and each can issue one instruction per cycle.
  This is the share of the slots that were used.
- *of them FMA*: the share of the issued instructions that ran in the float32 pipes. In a float32
  kernel, nearly all of them are multiply-adds.
- *active*: the share of the time in which a multiprocessor had work, as a mean over all of them.
- *float32 peak*: the product of the three columns before. This is the share of the float32 peak at
  the clock of this run.
- *tensor cores*, *shared memory and L1*: the share of the cycles in which the unit was busy.
- *most frequent stalls*: the three most frequent reasons why warps did not issue an instruction,
  and how many warps waited for each reason, on average. `dispatch_stall` includes conflicts of
  register banks (two operands of an instruction are in the same bank). `not_selected` means that
  the scheduler chose another warp."""

_INTRODUCTION = """\
*Written by `docs/make_ladder.py`; do not edit.*

`coalesce.matmul` has many variants: kernels that compute the same matrix product. Most of them are
faster than the variant before, so this page calls them the rungs of a ladder. The page compares the
speed of the rungs with the speed of cuBLAS, NVIDIA's library. [The
glossary](../notebooks/glossary.md) explains the terms, and [lesson
7](../notebooks/07_from_1_percent_to_past_cublas.ipynb) explains the kernels."""

_METHOD = """\
How the times were measured:

- The operands are random numbers in [-1, 1), in float32 unless another type is named.
- `coalesce.benchmark` measured the times, as `coalesce bench matmul` does. It checked every
  result against a product in float64.
- Rungs and cuBLAS take turns, so that the GPU's clock is the same for all. If a product is short, a
  CUDA graph repeats it: up to 100 times, until a run takes about 10 ms. A time is the median over
  the runs.
- Some rungs prepare their operands before the product. For example, they copy them in another
  order, which is called packing. The time includes this preparation.
- The L2 cache is not cleared between two runs of a rung, so it can hold data of the previous run.
- cuBLAS does not use TF32, a format with fewer bits, unless TF32 is named."""

_TENSOR_CORES = """\
## Tensor cores

Tensor cores are units that multiply small matrices. Four rungs use them:

- `tf32x3` computes with the accuracy of float32. For this, it splits each element into two TF32
  numbers: the rounded element and the rest. Another kernel computes the rests of A; the time
  includes this kernel.
- `tf32` rounds its operands to TF32, and `bf16` rounds them to bfloat16. The result of `bf16` is in
  float32 or in bfloat16. Both kinds of result were timed.
- `dmma` is for float64.

The column *cuBLAS* names the precision with which cuBLAS computes. The *error* is a relative error
of the result: the norm of the differences from the exact result, divided by the norm of the exact
result.

Compare only figures in the same row, because only the kernels of one row took turns. Most kernels
of this table reach the power limit of the GPU. The GPU then lowers its clock, so the figures also
depend on the GPU's temperature. The clock and the power were read while the kernels of the row ran
again. The power is a mean over one second, so it can be below the limit."""

_OTHER = """\
## The same on an H100

The kernels were also measured on an H100, which has the same chip as an H200, but slower memory.
Their tile sizes and other parameters were chosen on the H200. A lower ratio on the H100 may mean
that another tile size would be faster there. The kernels are the same in the commits of both
measurements."""

_LIMITS = """\
## What limits the fastest kernels

For each of the fastest rungs, this section says what limits its speed, which changes were tried,
and which change to try next. Times before and after a change come from `benchmarks/ladder.py`. A
product is named by its shape, M x N x K. A single number means that M, N and K are equal: "the
product of 4096" multiplies two 4096 x 4096 matrices.

### `tensor_map`

**Limit.** The main loop, which multiplies, limits the speed. The kernel also transposes A, but this
costs little: without it, the product of 4096 would be only 0.2 % faster. Two things limit the loop:
the rate at which instructions are issued, and the loads from shared memory. The model (`python
benchmarks/cost_model.py tensor_map`) computes only the limit of the issue rate.

The section "How busy the units are" shows where the time goes at 4096. Another distribution of the
tiles cannot help, because all multiprocessors have work for nearly all of the time. More warps
cannot help, because a scheduler usually has several to choose from (`not_selected`). But register
banks cost time: a multiply-add with two operands in the same bank takes two cycles
(`dispatch_stall`). At 8192, the power limit also lowers the clock a little, as it does for cuBLAS.

**Tried.**

- **No packing.** In an earlier version, another kernel packed A before the product. That version
  reached 1.025 times the speed of cuBLAS at 2048, and 0.99 times at 8192 x 512 x 4096. Now the
  warps that copy A also transpose it, in shared memory. This raised the two ratios to 1.05 and
  1.08.
- **A search for the best main loop.** A program generated 1,730 versions of the main loop, and
  timed each of them on an H100 at 4096. (They are not in the repository.) They differ in the order
  of multiply-adds and loads, in the number of registers, and in how partial sums are stored. The
  kernel before the search took 2.519 ms. The fastest version took 2.467 ms, but it has only 200
  registers per thread. These are too few for the code outside the loop, which must keep some values
  in memory. So the kernel now follows another version, which has 224 registers and took 2.471 to
  2.476 ms. In a second run, the GPU had no pause between the products. There, too, the version with
  224 registers was faster than the kernel before the search: by 0.5 % at 2048, by 0.6 % at 4096 and
  by 2.2 % at 8192.
- **A second search.** Another program timed 300 versions of the main loop on an H200. The body
  of the loop has 4, 8, 16 or 32 steps of k. The versions differ in the order of the instructions,
  and in the number of registers (216 to 240). None was faster than the kernel was then: at 4096,
  the best of them took 0.8 % longer.
  By the cost model, some loops of 16 steps should have been faster than the kernel (up to 0.905 of
  the peak). In fact they took 1.4 % longer.
- **A third search.** The first two searches made all their versions beforehand. A third program
  timed each version at once, and made the next versions by small changes to the fastest so far: two
  rows of the tile changed places, a row was computed from right to left, or the loads got another
  order. It ran on four H200 and timed more than 2,500 versions. (It is not in the repository.) The
  best of them takes 1.6 % less time at 4096 than the kernel before, and the kernel now follows it
  (`row_order` and `column_order`). The gain is not what the model predicts, here 0.9 %: 8.6 % of
  the multiply-adds still have a bank conflict, instead of 9.6 %.
- **Swapped sums.** A thread keeps its partial sums in an array. In the 34 fastest of the 1,730
  versions, neighbouring sums have changed places in this array, in pairs or groups of four. Then
  ptxas, the assembler, chooses better registers: it puts a sum and its value of B into different
  register banks, so that both can be read at once. But the model does not explain the gain. By the
  model, the kernel should even have become slower: 0.870 of the peak, instead of 0.878.
- **Other positions of the lanes.** In `split_k`, the lanes of a warp were assigned to other
  elements of the tile, so that loads from shared memory take fewer wavefronts. The same change made
  `tensor_map` slower by 0.7 % at 2048 and 4096, and by 1.1 % at 8192. The reason is not known.
- **Fewer arrivals at barriers.** In an earlier version, only one lane of each warp arrived at the
  barriers, after `__syncwarp()`. That version is correct and equally fast. But racecheck, a tool of
  compute-sanitizer, does not understand it and reports races. Now every thread arrives, and
  racecheck reports none.
- **Two changes without effect.** In one test, only one warp tested the barriers while it waited. In
  another test, the warps that transpose paused from time to time. The kernel did not get faster.
- **The end of a tile** does not limit the speed. There, the kernel exchanges partial sums and
  stores the result. To test this, one kernel left out the stores, and another kernel left out the
  exchange. (Their results are wrong.) At 2048, 4096 and 8192, both take as long as the complete
  kernel.
- **Warpgroups at different times.** Two warpgroups multiply. In one test, the second started later,
  so that it multiplied while the first stored. This made the product of 4096 slower by 1 %.
- **Other tiles for 16384 x 128 x 2048.** With tiles of 256 x 128, `tensor_map` reached 43 TFLOP/s.
  With tiles of 128 x 128, and two groups of warps that divide K, it reached 47 TFLOP/s on an H100.
  This is 1.008 times the speed of cuBLAS, but `split_k` is faster.

**Next.** Avoid conflicts of register banks: 8.6 % of the multiply-adds read two registers of the
same bank, which takes an additional cycle. There is a way to read fewer registers: if two
successive multiply-adds have an operand in common, the second need not read it again. In the
source, two successive multiply-adds of a row have a common operand, and often also the last of a
row and the first of the next. But ptxas changes the order of the instructions, and then many
successive multiply-adds have no common operand.

### `split_k`

**Limit.** This kernel transposes A while it copies A to shared memory, so it must copy one element
at a time. It cuts K into stages, and copies the data of a stage together. In the product of 256, a
block has only a few stages, and it spends most of its time waiting for the first one.

For 16384 x 128 x 2048, the kernel spends about 5 % of its time outside the main loop: at its start,
and at the end of each tile. (The tiles are computed in two rounds, because there are more tiles
than multiprocessors.) To measure this, an earlier version computed this product, and the same
product with twice the K. Twice the K doubles the time in the main loop, but not the time outside.
So the two times are:

- first product: loop + outside
- second product: 2 x loop + outside

Twice the first time minus the second time is therefore the time outside. It was 8.6 microseconds.

**Tried.**

- **Other positions of the lanes.** Lanes in the same row of the tile load the same elements of A,
  and lanes in the same column load the same elements of B. Such loads take fewer wavefronts if
  these lanes are close to each other. So the lanes were assigned to other elements of the tile:
  lanes 0 and 1 are now in the same row, lanes 0 and 2 in the same column. A load of B now takes 2
  wavefronts instead of 4, as a load of A does. On an H100, this raised the ratio to cuBLAS: for
  16384 x 128 x 2048 from 0.949 to 0.986, at 1024 from 1.148 to 1.177, and at 256 from 1.376 to
  1.413 (all in one run). The cost of the main loop in the model did not change.
- **A search for the best main loop.** A program timed 388 versions of the main loop for
  16384 x 128 x 2048. (They are not in the repository.) The fastest is used now. Each thread keeps
  its sums in an array of pairs, and the two sums of each pair have changed places. This does not
  change the results, but ptxas chooses better registers (see `tensor_map`). This change and the new
  positions of the lanes together raised the ratio from 0.970 to 1.030 for this shape, from 1.148 to
  1.187 at 1024, and from 1.060 to 1.071 at 1000 (all in one run).
- **Two sums at once.** With `TILE=32` and `TILE=64`, a block also adds sums of the other block of
  its cluster. A lane now reads two neighbouring sums at once, instead of one sum at a time. This
  raised the ratio to cuBLAS from 1.045 to 1.148, for the product of 512 on an H100.
- **Copies spread over time.** In an earlier version, every warp started all copies of a stage at
  once, and loads from shared memory had to wait for them. The product of 1024 took 17 % longer than
  now. Now only a few copies start in each step of k.
- **Loads written in PTX.** In an earlier version, each compilation of the same source gave other
  machine code, because NVRTC 13.5 (the compiler) moved the loads from shared memory. So the number
  of conflicts of register banks varied: with `TILE=64`, 19 to 54 % of the multiply-adds had such a
  conflict.
  Now these loads are written in PTX, and every compilation has the same main loop
  (`python benchmarks/cost_model.py split_k -DTILE=64 --compiles 10`).

**Next.** Tensor maps could copy whole tiles of A. The copying warps could then transpose the tiles
in shared memory, as in `tensor_map`.

### `bf16` and `tf32`

**Limit.** At 4096 and 8192 the GPU reaches its limit of electric power and lowers its clock. At
2048 a block computes only one tile. So its tensor cores are idle while the kernel starts, and while
it writes the result.

**Tried.** In clusters of two blocks, one copy can fill the shared memory of both blocks
(multicast). This did not change the speed. Another change made the product of 8192 about 2 %
faster, and was kept: `bf16` starts the multiplications of a stage before those of the previous
stage have ended.

**Next.** Smaller tiles may help at 2048. A block could then write one tile while it computes the
next.

### `dmma`

**Limit.** The kernel reaches the power limit, so the GPU lowers its clock. The tensor cores are
almost always busy.

**Tried.**

- In an earlier version, each lane loaded 16 bytes at a time from shared memory. The loaded values
  had to be moved to other registers, and the tensor cores waited for this. That version reached 84
  to 88 % of the speed of cuBLAS. Now a lane loads 8 bytes at a time, and no value needs to be
  moved.
- The tensor cores have an instruction for K = 16 (`mma.m16n8k16.f64`) and one for K = 8. The kernel
  uses the instruction for K = 8. With the instruction for K = 16, the kernel is 2 to 3 % slower.
"""


def main() -> None:
    write(text(*map(recorded_ladder.read, ("ladder", "ladder_h100", "units"))), TARGET)


if __name__ == "__main__":
    main()
