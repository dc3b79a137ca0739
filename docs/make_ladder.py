"""Write docs/ladder.md from docs/measured/ladder.json, which benchmarks/ladder.py writes.

python docs/make_ladder.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import coalesce

DOCS = Path(__file__).parent
SOURCE, TARGET = DOCS / "measured" / "ladder.json", DOCS / "ladder.md"
LADDER = (4096, 4096, 4096)


def text(found: dict[str, Any]) -> str:
    """Return the page."""
    gpu = found["gpu"]
    major, minor = found["cublas"] // 10000, found["cublas"] // 100 % 100
    where = (
        f"{gpu['name']}, driver {gpu['driver_version']}, NVRTC {found['nvrtc']}, "
        f"cuBLAS {major}.{minor}, {found['date']}: `{found['command']}`."
    )
    lines = [
        "# The ladder, measured",
        "",
        where,
        _METHOD,
        "",
        "## Every rung at 4096 x 4096 x 4096",
        "",
        "| rung | TFLOP/s | of cuBLAS | spread | idea |",
        "|---|---|---|---|---|",
    ]
    by_shape = {(s["m"], s["n"], s["k"]): s["rungs"] for s in found["shapes"]}
    rungs = by_shape[LADDER]
    library = rungs["cublas"]
    for variant in coalesce.variants("matmul"):
        for name in (
            variant.name,
            f"{variant.name} tile={variant.tiles[-1] if variant.tiles else 0}",
        ):
            if name in rungs:
                row = rungs[name]
                lines.append(
                    f"| `{variant.name}` | {row['tflops']:.2f} | {library['ms'] / row['ms']:.3f} "
                    f"| {row['spread']:.1%} | {variant.sentence} |"
                )
    lines += [
        f"| cuBLAS | {library['tflops']:.2f} | 1 | {library['spread']:.1%} | |",
        "",
        "## The fastest rung of each shape",
        "",
        "| M x N x K | rung | TFLOP/s | cuBLAS | ratio | SM clock, power after |",
        "|---|---|---|---|---|---|",
    ]
    for shape in found["shapes"]:
        rungs = shape["rungs"]
        best = min((name for name in rungs if name != "cublas"), key=lambda name: rungs[name]["ms"])
        after = shape["clocks"][1]
        lines.append(
            f"| {shape['m']} x {shape['n']} x {shape['k']} | `{best}` | "
            f"{rungs[best]['tflops']:.2f} | {rungs['cublas']['tflops']:.2f} | "
            f"{rungs['cublas']['ms'] / rungs[best]['ms']:.3f} | "
            f"{after['clocks.sm']}, {after['power.draw']} |"
        )
    lines += ["", _TENSOR_CORES, "", *_tensor_cores(found["tensor_cores"]), "", _LIMITS]
    return "\n".join(lines) + "\n"


def _tensor_cores(entries: list[dict[str, Any]]) -> list[str]:
    """Return a table of the variants on tensor cores and cuBLAS."""
    lines = [
        "| rung | size | TFLOP/s | error | cuBLAS | TFLOP/s | error | ratio | SM clock, power |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in entries:
        rungs, after = entry["rungs"], entry["clocks"][1]
        own = rungs[entry["rung"]]
        for name, row in rungs.items():
            if name == entry["rung"]:
                continue
            error = f"{row['norm']:.1e}" if "norm" in row else ""
            cells = (
                f"`{entry['rung']}`",
                entry["size"],
                f"{own['tflops']:.1f}",
                f"{own['norm']:.1e}",
                name.removeprefix("cublas "),
                f"{row['tflops']:.1f}",
                error,
                f"{row['ms'] / own['ms']:.3f}",
                f"{after['clocks.sm']}, {after['power.draw']}",
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


_METHOD = """\
A rung is a variant of `matmul`. Operands are random numbers in [-1, 1), in float32 unless another
type is named. Every result was checked against a product in float64. cuBLAS runs without TF32
unless TF32 is named. Rungs and cuBLAS take turns, so that the GPU's clock is the same for both. A
time is the median of all turns. The time includes what a rung does to its operands first, such
as packing. L2 is not cleared: it holds what the rung's previous run left. `python
docs/make_ladder.py` writes this page. [The glossary](../notebooks/glossary.md) explains the
terms."""

_TENSOR_CORES = """\
## Tensor cores

`tf32x3` computes with the accuracy of float32. `tf32` and `bf16` round their operands, and `dmma`
is for float64. cuBLAS computes with the same precision. The kernel `bf16` writes float32; cuBLAS
was timed twice, with results in float32 and in bfloat16. The error was computed for 64 rows: the
norm of their error, divided by the norm of the exact rows. The time of `tf32x3` includes a pass
over A.

These kernels reach the power limit of the GPU. The clock then falls, and the figures of one run
depend on the temperature. Therefore compare only the columns of one line: they were measured in
turn."""

_LIMITS = """\
## What limits the fastest kernels

**`tensor_map`.** The issue of instructions limits the main loop (`python benchmarks/cost_model.py
tensor_map`). The copies are fully hidden. At 2048 two other costs matter more: the packing of A,
and the last tiles, which do not occupy the whole GPU. Twelve other orders of its loads and
multiply-adds were tried (timed with `benchmarks/ladder.py`; they are not in the repository). Some
have fewer bank conflicts in the model, but none was faster. The next idea to try: let the idle
warps of the copying warpgroup pack A while the others multiply.

**`split_k`** copies A one element at a time, to transpose it on the way. A step of k starts only a
few copies. In an earlier version every warp started all copies of a stage at once. Loads from
shared memory waited behind these copies, and 1024 took 17 % longer (timed with
`benchmarks/ladder.py` before and after the change). At 256 a block has so few stages that it mostly
waits for the first. The next idea to try: copy tiles of A through tensor maps, and let the copying
warps transpose them in shared memory.

**The compiler** is not deterministic: NVRTC 13.5 makes different machine code of `split_k` from
compilation to compilation. If the tile is 64, then 19 to 54 % of the multiply-adds of the main loop
read two registers of one register bank, which takes a cycle more
(`python benchmarks/cost_model.py split_k -DTILE=64 --compiles 10`). So the figures of `split_k` on
this page come from one compilation, and yours may differ. The main loops of `tma`, `tensor_map` and
`pipelined` were the same in every compilation.

**`bf16` and `tf32`** are limited by power at 4096 and 8192. Sharing copies in clusters of two
blocks (multicast) did not change the rate.

**`dmma`** runs at a clock that the power limit lowers, to 1815 MHz. But power is not all: with 128
multiply-adds per cycle and multiprocessor (67 TFLOP/s at 1980 MHz in NVIDIA's data sheet), this
clock gives 61 TFLOP/s. cuBLAS reaches 97 % of that, `dmma` 84 %. Reading operands ahead did not
change the rate, so the latency of shared memory does not limit it. A version with 16 warps and
smaller tiles, which read more, was slower. The next idea to try: the instruction for K = 16
(`mma.m16n8k16.f64`), which needs half as many instructions as the present instruction for K = 8.
"""


def main() -> int:
    """Write the page. With --check, only report whether the page is up to date."""
    page = text(json.loads(SOURCE.read_text(encoding="utf-8")))
    if "--check" in sys.argv[1:]:
        return int(TARGET.read_text(encoding="utf-8") != page)
    TARGET.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
